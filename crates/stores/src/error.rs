//! Errors of a store, and their classification. Each is one line that names the URL and says what to do.

use std::error::Error as StdError;
use std::io;

use object_store::client::{HttpError, HttpErrorKind};

/// Maximum length of a store's message in an error.
const MAX_CHARACTERS: usize = 300;
/// Where a host in Amazon's cloud requests credentials if the environment has none.
const HOST_CREDENTIALS: [&str; 2] = ["/latest/api/token", "/latest/meta-data/iam"];
/// Messages of `object_store` and of rustls.
/// The first is for a redirect without a location, such as S3's to another region.
const NO_PLACE: &str = "Received redirect without LOCATION";
const NO_AUTHORITIES: &str = "No CA certificates were loaded";
const CERTIFICATE: &str = "invalid peer certificate";

/// Why objects could not be listed or fetched.
#[derive(Debug, thiserror::Error)]
#[error("{url}: {kind}")]
pub struct Error {
    /// The bucket or the object.
    url: String,
    /// The kind of error.
    #[source]
    kind: ErrorKind,
}

/// Kinds of errors, with what to do about them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ErrorKind {
    /// The URL names no bucket.
    #[error("unsupported URL: name s3://BUCKET/PREFIX, or a directory")]
    Url,
    /// The environment's settings contradict each other.
    #[error("{why}; check the AWS_ environment variables")]
    Settings {
        /// The contradiction.
        why: String,
    },
    /// Plain HTTP was requested but is not allowed.
    #[error("AWS_ENDPOINT_URL is plain HTTP: use an https:// URL, or set AWS_ALLOW_HTTP=true")]
    PlainHttp,
    /// No certificate authority is known that could vouch for a server.
    #[error(
        "no CA certificates on this host: install ca-certificates, or set SSL_CERT_FILE to a file of them"
    )]
    NoAuthorities,
    /// The server's certificate is not trusted.
    #[error(
        "the server's certificate is not trusted ({why}): check AWS_ENDPOINT_URL, or set SSL_CERT_FILE to its CA's file"
    )]
    Untrusted {
        /// What is wrong with the certificate.
        why: String,
    },
    /// Neither the environment nor the host has credentials.
    #[error(
        "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_SKIP_SIGNATURE=true for a public bucket"
    )]
    NoCredentials,
    /// The credentials do not suffice.
    #[error("access denied{}: check AWS_ACCESS_KEY_ID and the rights to list the bucket and read its objects",
        .code.as_ref().map(|code| format!(" ({code})")).unwrap_or_default())]
    Denied {
        /// The store's error code.
        code: Option<String>,
    },
    /// There is no such bucket.
    #[error("there is no such bucket: check its name, AWS_REGION and AWS_ENDPOINT_URL")]
    NoBucket,
    /// The store redirects to another place.
    #[error(
        "the bucket is in another region or at another endpoint: set AWS_REGION, and check AWS_ENDPOINT_URL"
    )]
    Elsewhere,
    /// The object does not exist, or no longer does.
    #[error("the object does not exist, or no longer: run this again")]
    NoObject,
    /// Another object has this name by now.
    #[error("the object was replaced while it was read: run this again")]
    Replaced,
    /// The store sent more or fewer bytes than requested.
    #[error("{sent} bytes came instead of {requested}: run this again")]
    Length {
        /// Bytes requested.
        requested: u64,
        /// Bytes received; if too many, up to and including the first chunk past the end.
        sent: u64,
    },
    /// No attempt was answered in time.
    #[error("no answer in time: check AWS_ENDPOINT_URL and the network, or wait longer with AWS_TIMEOUT=2m")]
    TimedOut,
    /// No attempt reached the store.
    #[error("cannot connect ({why}): check AWS_ENDPOINT_URL and the network")]
    Unreachable {
        /// The message of the operating system or of TLS.
        why: String,
    },
    /// More objects than a user can mean.
    #[error("more than {most} objects below it: name a longer prefix, or read them in SQL (deploy/sql)")]
    TooMany {
        /// The limit.
        most: u64,
    },
    /// Any other error that the store reports.
    #[error("cannot read: {why}")]
    Other {
        /// Its message.
        why: String,
    },
    /// Fetched bytes could not be written locally.
    #[error("cannot write a local copy: {source}")]
    Keep {
        /// The operating system's error.
        source: io::Error,
    },
    /// No runtime could be created.
    #[error("cannot start the client: {source}")]
    Runtime {
        /// The operating system's error.
        source: io::Error,
    },
}

impl ErrorKind {
    /// Makes an error about a URL.
    #[expect(clippy::needless_pass_by_value, reason = "callers pass a URL that they have just made")]
    pub(crate) fn of(self, url: impl ToString) -> Error {
        Error { url: url.to_string(), kind: self }
    }
}

impl Error {
    /// Whether the error is about one object, so that others can still be read.
    pub fn is_of_one_object(&self) -> bool {
        matches!(self.kind, ErrorKind::NoObject | ErrorKind::Replaced | ErrorKind::Length { .. })
    }

    /// Makes an error about settings with which no client can be made.
    pub(crate) fn of_settings(url: &str, error: &object_store::Error) -> Self {
        let why = shorten(&deepest(error));
        let kind =
            if why.contains(NO_AUTHORITIES) { ErrorKind::NoAuthorities } else { ErrorKind::Settings { why } };
        kind.of(url)
    }

    /// Classifies a store's response. A listing has no object that could be missing: then the bucket is.
    pub(crate) fn of(url: impl ToString, error: &object_store::Error, is_list: bool) -> Self {
        ErrorKind::of_answer(error, is_list).of(url)
    }
}

impl ErrorKind {
    fn of_answer(error: &object_store::Error, is_list: bool) -> Self {
        use object_store::Error as Theirs;
        let text = error.to_string();
        match error {
            Theirs::NotFound { .. } if is_list || code(&text) == Some("NoSuchBucket") => Self::NoBucket,
            Theirs::NotFound { .. } => Self::NoObject,
            Theirs::Precondition { .. } => Self::Replaced,
            Theirs::PermissionDenied { .. } | Theirs::Unauthenticated { .. } => {
                Self::Denied { code: code(&text).map(str::to_owned) }
            }
            _ if text.contains(NO_PLACE) => Self::Elsewhere,
            _ if HOST_CREDENTIALS.iter().any(|path| text.contains(path)) => Self::NoCredentials,
            // About a listing, `object_store` reports only the store's own text.
            _ => match status(&text) {
                Some(404) if is_list => Self::NoBucket,
                Some(300..=399) => Self::Elsewhere,
                Some(401 | 403) => Self::Denied { code: code(&text).map(str::to_owned) },
                _ => Self::of_transport(error, &text),
            },
        }
    }

    fn of_transport(error: &object_store::Error, text: &str) -> Self {
        let why = || shorten(&deepest(error));
        match causes(error).find_map(|cause| cause.downcast_ref::<HttpError>()).map(HttpError::kind) {
            Some(HttpErrorKind::Timeout) => Self::TimedOut,
            Some(HttpErrorKind::Connect) => match why() {
                why if why.contains(CERTIFICATE) => Self::Untrusted { why },
                why => Self::Unreachable { why },
            },
            _ => {
                let detail = code(text).map(|code| match between(text, "<Message>", "</Message>") {
                    Some(message) => format!("{code}: {message}"),
                    None => code.to_owned(),
                });
                Self::Other { why: detail.map_or_else(why, |detail| shorten(&detail)) }
            }
        }
    }
}

/// The error, its cause, that error's cause, and so on.
fn causes<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    let mut next = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

fn deepest(error: &(dyn StdError + 'static)) -> String {
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// The status of an HTTP response in `object_store`'s message.
fn status(text: &str) -> Option<u16> {
    between(text, "status code: ", " ")?.parse().ok()
}

/// The code of an error in S3's XML.
fn code(text: &str) -> Option<&str> {
    let is_code = |code: &&str| !code.is_empty() && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    between(text, "<Code>", "</Code>").filter(is_code)
}

fn between<'s>(text: &'s str, begin: &str, end: &str) -> Option<&'s str> {
    Some(text.split_once(begin)?.1.split_once(end)?.0)
}

/// Makes a store's message fit into one line.
fn shorten(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_CHARACTERS) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use object_store::Error as Theirs;
    use object_store::client::{HttpError, HttpErrorKind};

    use super::Error;

    fn of(error: &Theirs, is_list: bool) -> String {
        Error::of("s3://b/k", error, is_list).to_string()
    }

    fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Theirs {
        Theirs::Generic { store: "S3", source: source.into() }
    }

    fn xml(code: &str) -> Box<dyn std::error::Error + Send + Sync> {
        format!("status 4xx: <?xml?>\n<Error><Code>{code}</Code>\n<Message>Not\n so</Message></Error>").into()
    }

    #[test]
    fn distinguishes_missing_bucket_from_missing_object() {
        let missing = |code| Theirs::NotFound { path: "k".to_owned(), source: xml(code) };
        assert!(of(&missing("NoSuchBucket"), false).contains("no such bucket"));
        assert!(of(&missing("NotFound"), true).contains("no such bucket"));
        let object = of(&missing("NoSuchKey"), false);
        assert!(object.starts_with("s3://b/k: the object does not exist"), "{object}");
    }

    #[test]
    fn distinguishes_denied_access_from_missing_credentials() {
        let denied = Theirs::PermissionDenied { path: "k".to_owned(), source: xml("InvalidAccessKeyId") };
        assert!(of(&denied, true).contains("access denied (InvalidAccessKeyId): check AWS_ACCESS_KEY_ID"));
        let host = generic("Error performing PUT http://169.254.169.254/latest/api/token in 1s");
        assert!(of(&host, true).contains("no credentials: set AWS_ACCESS_KEY_ID"));
    }

    #[test]
    fn redirect_and_certificate_errors_name_the_remedy() {
        let redirect = generic("Server returned non-2xx status code: 307 Temporary Redirect: ");
        let bare = generic("Error performing GET x in 1s - Received redirect without LOCATION, this means");
        for error in [redirect, bare] {
            assert!(
                of(&error, true)
                    .contains("the bucket is in another region or at another endpoint: set AWS_REGION")
            );
            assert!(
                of(&error, false)
                    .contains("the bucket is in another region or at another endpoint: set AWS_REGION")
            );
        }
        let unknown = std::io::Error::other("invalid peer certificate: UnknownIssuer");
        let unknown = of(&generic(HttpError::new(HttpErrorKind::Connect, unknown)), true);
        assert!(unknown.contains("certificate is not trusted (invalid peer certificate: Unk"), "{unknown}");
        let none = generic("unexpected error: No CA certificates were loaded from the system");
        let none = Error::of_settings("s3://b", &none).to_string();
        assert!(none.contains("install ca-certificates"), "{none}");
    }

    #[test]
    fn connection_and_other_errors_give_a_short_one_line_reason() {
        let of_kind =
            |kind| of(&generic(HttpError::new(kind, std::io::Error::other("refused\nby\x1b it"))), true);
        assert!(of_kind(HttpErrorKind::Timeout).contains("no answer in time"));
        let refused = of_kind(HttpErrorKind::Connect);
        assert!(refused.contains("cannot connect (refused by\u{1b} it)"), "{refused}");
        let long = of(&generic("x".repeat(2_000)), true);
        assert!(long.ends_with("x…") && long.len() < 400, "{long}");
        let malformed = of(&generic(xml("AuthorizationHeaderMalformed")), true);
        assert!(malformed.ends_with("cannot read: AuthorizationHeaderMalformed: Not so"), "{malformed}");
    }
}
