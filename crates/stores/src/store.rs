//! A bucket: its list, page by page, and ranges of its objects, a few pieces at a time. Does not keep anything.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::ops::Range;
use std::time::Duration;

use futures_util::stream::{StreamExt as _, TryStreamExt as _, iter};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientConfigKey, GetOptions, GetRange, ObjectMeta, ObjectStore as _, RetryConfig,
};
use tokio::runtime::{Builder, Runtime};

use crate::connector::{Connector, is_yes};
use crate::location::LONGEST_KEY;
use crate::ranges::pieces;
use crate::{Error, Location};

/// Tries after the first, each with the time limit of a request: 30 s, and 5 s for the connection, unless the environment
/// says otherwise (`AWS_TIMEOUT`, `AWS_CONNECT_TIMEOUT`).
const RETRIES: usize = 3;
/// No further try after this.
const RETRY_TIME: Duration = Duration::from_secs(60);
const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// Pieces that are fetched side by side.
const AT_ONCE: usize = 8;
/// Five thousand pages of a thousand objects.
const MOST_LISTED: u64 = 5_000_000;
/// Some stores have fewer objects on a page, and those that were removed leave gaps.
const MOST_PAGES: u64 = 20_000;

/// A bucket that can be read.
#[derive(Debug)]
pub struct Store {
    bucket: String,
    client: AmazonS3,
    runtime: Runtime,
}

/// An object of a list.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key in the bucket.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// What becomes another one when it is replaced, where the store says so.
    tag: Option<String>,
}

/// What is wanted of an object.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The object.
    pub object: &'a Object,
    /// Which of its bytes, in order and apart, as [`crate::merged`] has them.
    pub ranges: Vec<Range<u64>>,
    /// The file that they go to.
    pub to: &'a File,
}

impl Object {
    /// As a list has it.
    fn of(found: ObjectMeta) -> Self {
        Self { key: found.location.into(), bytes: found.size, tag: found.e_tag }
    }
}

impl Store {
    /// Makes ready to read a bucket, as the environment's `AWS_…` variables say. Nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::PlainHttp`], [`Error::Settings`] or [`Error::Runtime`].
    pub fn open(location: &Location) -> Result<Self, Error> {
        let url = location.to_string();
        // Fails where the process has one already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let settings = AmazonS3Builder::from_env().with_bucket_name(&location.bucket).with_retry(retries());
        check_endpoint(&settings, &url)?;
        let client = settings.with_http_connector(Connector).build();
        let client = client.map_err(|error| Error::of_settings(url.clone(), &error))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| Error::Runtime { url, source })?;
        Ok(Self { bucket: location.bucket.clone(), client, runtime })
    }

    /// Tells of each object below a location of this bucket, in no order; how many there are.
    ///
    /// # Errors
    /// What the store says, or [`Error::TooMany`]; some objects may have been told of before.
    pub fn each(&self, below: &Location, tell: &mut dyn FnMut(Object)) -> Result<u64, Error> {
        let said = |error: &object_store::Error| Error::of(below.to_string(), error, true);
        let too_many = || Error::TooMany { url: below.to_string(), most: MOST_LISTED };
        // With its slash: `a` is no folder of `ab`.
        let prefix = (!below.key.is_empty()).then(|| format!("{}/", below.key));
        let (mut listed, mut page_token) = (0, None);
        for _ in 0..MOST_PAGES {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page = self.runtime.block_on(self.client.list_paginated(prefix.as_deref(), options));
            let page = page.map_err(|error| said(&error))?;
            listed += page.result.objects.len() as u64;
            if listed > MOST_LISTED {
                return Err(too_many());
            }
            if page.result.objects.iter().any(|found| found.location.as_ref().len() > LONGEST_KEY) {
                let why = format!("a key is longer than {LONGEST_KEY} bytes");
                return Err(Error::Other { url: below.to_string(), why });
            }
            page.result.objects.into_iter().map(Object::of).for_each(&mut *tell);
            page_token = page.page_token.filter(|token| !token.is_empty());
            if page_token.is_none() {
                return Ok(listed);
            }
        }
        Err(too_many())
    }

    /// Fetches ranges of objects, which must be within them, into the same places of files, side by side.
    ///
    /// # Errors
    /// What the store says, [`Error::Replaced`] where it is not the object of the list any more, or [`Error::Keep`]; the files have
    /// some of the ranges then.
    pub fn fetch(&self, wanted: &[Wanted<'_>]) -> Result<(), Error> {
        let each = wanted.iter().flat_map(|wanted| pieces(&wanted.ranges).map(move |range| (wanted, range)));
        let fetching = iter(each).map(|(wanted, range)| self.piece(wanted.object, range, wanted.to));
        self.runtime.block_on(fetching.buffer_unordered(AT_ONCE).try_collect::<()>())
    }

    async fn piece(&self, object: &Object, range: Range<u64>, to: &File) -> Result<(), Error> {
        let said = |error: &object_store::Error| Error::of(self.url(&object.key), error, false);
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: object.tag.clone(),
            ..GetOptions::default()
        };
        let key = self.path(&object.key)?;
        let found = self.client.get_opts(&key, options).await.map_err(|error| said(&error))?;
        let mut bytes = found.into_stream();
        let mut at = range.start;
        while let Some(next) = bytes.try_next().await.map_err(|error| said(&error))? {
            let end = at.saturating_add(next.len() as u64);
            if end > range.end {
                return Err(self.wrong_length(object, &range, end));
            }
            write_at(to, at, &next).map_err(|source| Error::Keep { url: self.url(&object.key), source })?;
            at = end;
        }
        if at < range.end { Err(self.wrong_length(object, &range, at)) } else { Ok(()) }
    }

    fn wrong_length(&self, object: &Object, range: &Range<u64>, at: u64) -> Error {
        Error::Length { url: self.url(&object.key), asked: range.end - range.start, sent: at - range.start }
    }

    fn path(&self, key: &str) -> Result<Path, Error> {
        Path::parse(key).map_err(|_| Error::Url { url: self.url(key) })
    }

    fn url(&self, key: &str) -> String {
        Location { bucket: self.bucket.clone(), key: key.to_owned() }.to_string()
    }
}

/// One thread does all of it and does not wait in between, so that nobody else moves the place.
fn write_at(mut to: &File, at: u64, bytes: &[u8]) -> io::Result<()> {
    to.seek(SeekFrom::Start(at))?;
    to.write_all(bytes)
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: LONGEST_WAIT, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_TIME }
}

/// Said here in plain words: the client only says that it does not take it.
fn check_endpoint(settings: &AmazonS3Builder, url: &str) -> Result<(), Error> {
    let endpoint = settings.get_config_value(&AmazonS3ConfigKey::S3Endpoint);
    let endpoint = endpoint.or_else(|| settings.get_config_value(&AmazonS3ConfigKey::Endpoint));
    let Some(endpoint) = endpoint else { return Ok(()) };
    let allowed = settings.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    let endpoint = reqwest::Url::parse(&endpoint).ok().filter(reqwest::Url::has_host);
    match endpoint.as_ref().map(reqwest::Url::scheme) {
        Some("https") => Ok(()),
        Some("http") if allowed.is_some_and(|word| is_yes(&word)) => Ok(()),
        Some("http") => Err(Error::PlainHttp { url: url.to_owned() }),
        // Not repeated: some have a password in it.
        _ => Err(Error::Settings {
            url: url.to_owned(),
            why: "AWS_ENDPOINT_URL is no https://HOST:PORT".to_owned(),
        }),
    }
}
