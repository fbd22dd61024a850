//! For fuzzing: a store with prepared responses. Does not connect to anything.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use object_store::aws::AmazonS3Builder;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientOptions, RetryConfig};

use crate::connector::limit_body;
use crate::{Error, Location, Store};

/// A store's response to one request.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// Names and values of headers; a value that no header can have is left out.
    pub headers: Vec<(&'static str, Vec<u8>)>,
    /// The body.
    pub body: Vec<u8>,
}

/// Makes a store that gives these answers, one per request. Requests after the last fail.
///
/// # Errors
/// No runtime can be created.
pub fn store(location: &Location, answers: impl IntoIterator<Item = Answer>) -> Result<Store, Error> {
    let answers = Answers(Arc::new(Mutex::new(answers.into_iter().collect())));
    let settings = AmazonS3Builder::new().with_skip_signature(true).with_region("us-east-1");
    let settings = settings.with_retry(RetryConfig { max_retries: 0, ..RetryConfig::default() });
    Store::of(location, settings.with_http_connector(answers))
}

#[derive(Clone, Debug)]
struct Answers(Arc<Mutex<VecDeque<Answer>>>);

impl HttpConnector for Answers {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for Answers {
    async fn call(&self, _: HttpRequest) -> Result<HttpResponse, HttpError> {
        let next = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let none = || HttpError::new(HttpErrorKind::Connect, io::Error::other("no more answers"));
        let Answer { status, headers, body } = next.ok_or_else(none)?;
        let mut response = HttpResponse::new(body.into());
        let status = status.try_into();
        *response.status_mut() = status.map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
        for (name, value) in headers {
            if let Ok(value) = value.try_into() {
                response.headers_mut().insert(name, value);
            }
        }
        Ok(limit_body(response))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Answer, store};
    use crate::{Location, ObjectRanges};

    const PAGE: &str = "<ListBucketResult><Contents><Key>a/b</Key><LastModified>2026-11-22T08:00:00.000Z</LastModified>\
        <Size>9</Size></Contents></ListBucketResult>";

    #[test]
    fn lists_and_fetches_scripted_answers() {
        let answer = |status, headers: &[(&'static str, &str)], body: &str| Answer {
            status,
            headers: headers.iter().map(|(name, value)| (*name, value.as_bytes().to_vec())).collect(),
            body: body.as_bytes().to_vec(),
        };
        let range = ("content-range", "bytes 2-5/9");
        let date = ("last-modified", "Sun, 22 Nov 2026 08:00:00 GMT");
        let length = ("content-length", "4");
        let answers = [answer(200, &[], PAGE), answer(206, &[range, date, length], "3456")];
        let below = Location::parse("s3://bucket/a").unwrap();
        let store = store(&below, answers).unwrap();
        let mut objects = Vec::new();
        assert_eq!(store.each(&below, &mut |object| objects.push(object)).unwrap(), 1);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("b");
        let to = fs::File::create(&path).unwrap();
        let range = 2..6;
        let request = || ObjectRanges { object: &objects[0], ranges: vec![range.clone()], to: &to };
        store.fetch(&[request()]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"\0\x003456");
        assert!(store.fetch(&[request()]).unwrap_err().to_string().contains("no more answers"));
    }

    #[test]
    fn refuses_an_entity_tag_with_a_line_break() {
        let page = PAGE.replace("<Size>", "<ETag>&quot;a&#10;b&quot;</ETag><Size>");
        let answer = Answer { status: 200, headers: Vec::new(), body: page.into_bytes() };
        let below = Location::parse("s3://bucket/a").unwrap();
        let error = store(&below, [answer]).unwrap().each(&below, &mut |_| ()).unwrap_err();
        assert!(error.to_string().ends_with("an entity tag is none"), "{error}");
    }
}
