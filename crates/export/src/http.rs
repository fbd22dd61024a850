//! As much of HTTP/1.1 as a scraper speaks: the head of a request, and one answer to a connection. Reads no body, and knows
//! nothing of paths.

/// A request's head has at most so many bytes, and header lines.
pub(crate) const MAX_HEAD: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// The head of a request, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// Without a query.
    pub(crate) path: String,
    /// All `Accept` headers as one.
    pub(crate) accept: String,
}

/// How much of a request is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Head {
    /// All of its head.
    Whole(HttpRequest),
    /// Not yet.
    Part,
    /// It is none.
    Bad,
}

impl Head {
    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(bytes) {
            Ok(status) if status.is_partial() => Self::Part,
            Ok(_) => Self::Whole(HttpRequest::of(&request)),
            Err(_) => Self::Bad,
        }
    }
}

impl HttpRequest {
    fn of(request: &httparse::Request<'_, '_>) -> Self {
        let accepts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
        let accepts = accepts.map(|header| String::from_utf8_lossy(header.value));
        let path = request.path.unwrap_or_default();
        Self {
            method: request.method.unwrap_or_default().to_owned(),
            path: path.split(['?', '#']).next().unwrap_or_default().to_owned(),
            accept: accepts.collect::<Vec<_>>().join(","),
        }
    }
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) content_type: &'static str,
    pub(crate) body: std::sync::Arc<[u8]>,
}

/// The status of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::BadRequest => "400 Bad Request",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::Unavailable => "503 Service Unavailable",
        }
    }
}

impl Answer {
    /// A sentence.
    pub(crate) fn say(status: Status, sentence: &str) -> Self {
        let body = format!("{sentence}\n").into_bytes().into();
        Self { status, content_type: "text/plain; charset=utf-8", body }
    }

    /// Everything before the body. The connection ends with the answer: a scraper comes seldom, and an open
    /// connection takes the place of another.
    pub(crate) fn head(&self) -> String {
        let allow = if self.status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status.line(),
            self.content_type,
            self.body.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Head, HttpRequest, Status};

    #[test]
    fn a_head_is_read_whole_or_not_at_all() {
        let whole = b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nACCEPT: text/plain\r\naccept: */*\r\n\r\nrest";
        let request = HttpRequest {
            method: "GET".to_owned(),
            path: "/metrics".to_owned(),
            accept: "text/plain,*/*".to_owned(),
        };
        assert_eq!(Head::parse(whole), Head::Whole(request));
        let end = whole.len() - "\nrest".len();
        for cut in 0..end {
            assert_eq!(Head::parse(&whole[..cut]), Head::Part, "{cut}");
        }
        for bad in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
            assert_eq!(Head::parse(bad), Head::Bad, "{bad:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert_eq!(Head::parse(many.as_bytes()), Head::Bad);
    }

    #[test]
    fn an_answer_says_how_long_it_is_and_ends_the_connection() {
        let head = Answer::say(Status::Unavailable, "not yet").head();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(
            head.contains("\r\nContent-Length: 8\r\n") && head.contains("\r\nConnection: close\r\n"),
            "{head}"
        );
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }
}
