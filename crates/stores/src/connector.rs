//! HTTP client for a store: HTTP/1, with TLS unless the settings allow plain HTTP, within time limits. Follows no
//! redirect, because the server would decide where it leads, and refuses a response longer than any should be. Sends no
//! requests itself.

use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt as _, Limited};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Error};
use reqwest::Client;
use reqwest::redirect::Policy;

/// A piece of an object is half as long; a page of a list, a thousand keys of a thousand bytes, is shorter.
const MAX_ANSWER_BYTES: usize = 16 << 20;
const AGENT: &str = concat!("brokerscope/", env!("CARGO_PKG_VERSION"));

/// Makes clients, one for the store and one for its source of credentials.
#[derive(Debug)]
pub(crate) struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let is_plain_allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
        let is_plain_allowed = is_plain_allowed.is_some_and(|word| is_yes(&word));
        let mut builder = Client::builder().user_agent(AGENT).redirect(Policy::none()).http1_only();
        builder = builder.https_only(!is_plain_allowed);
        if let Some(limit) = duration(options, ClientConfigKey::Timeout, "AWS_TIMEOUT")? {
            builder = builder.timeout(limit);
        }
        if let Some(limit) = duration(options, ClientConfigKey::ConnectTimeout, "AWS_CONNECT_TIMEOUT")? {
            builder = builder.connect_timeout(limit);
        }
        Ok(HttpClient::new(LimitedClient(builder.build().map_err(generic)?)))
    }
}

/// Parses a boolean as `object_store` does.
pub(crate) fn is_yes(word: &str) -> bool {
    matches!(&*word.to_ascii_lowercase(), "1" | "true" | "on" | "yes" | "y")
}

fn duration(
    options: &ClientOptions,
    key: ClientConfigKey,
    variable: &str,
) -> object_store::Result<Option<Duration>> {
    let Some(value) = options.get_config_value(&key) else { return Ok(None) };
    let parsed = humantime::parse_duration(&value);
    parsed.map(Some).map_err(|error| generic(format!("{variable} is not a duration ({value}): {error}")))
}

fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "S3", source: source.into() }
}

#[derive(Debug)]
struct LimitedClient(Client);

#[async_trait]
impl HttpService for LimitedClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        // The client's own conversion panics on a URL that one library accepts and the other does not.
        let url = request.uri().to_string().parse::<reqwest::Url>();
        url.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        HttpService::call(&self.0, request).await.map(limit_body)
    }
}

/// Limits a response: its body ends with an error if it is too long.
pub(crate) fn limit_body(answer: HttpResponse) -> HttpResponse {
    answer.map(|body| {
        let body = Limited::new(body, MAX_ANSWER_BYTES);
        HttpResponseBody::new(body.map_err(|error| match error.downcast::<HttpError>() {
            Ok(error) => *error,
            Err(_) => HttpError::new(HttpErrorKind::Decode, TooLong),
        }))
    })
}

#[derive(Debug, thiserror::Error)]
#[error("an answer is longer than {} MiB", MAX_ANSWER_BYTES >> 20)]
struct TooLong;
