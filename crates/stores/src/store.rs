//! A bucket: lists it page by page, and fetches ranges of its objects, a few pieces at a time. Caches nothing.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
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
use crate::error::ErrorKind;
use crate::location::MAX_KEY_BYTES;
use crate::{Error, Location};

/// Retries after the first attempt, each with the time limit of a request: 30 s, and 5 s to connect, unless the
/// environment sets others (`AWS_TIMEOUT`, `AWS_CONNECT_TIMEOUT`).
const RETRIES: usize = 3;
/// No retry after this time.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Pieces fetched concurrently.
const CONCURRENT_PIECES: usize = 8;
/// Five thousand pages of a thousand objects.
const MAX_LISTED: u64 = 5_000_000;
/// Some stores return fewer objects per page, and removed objects leave gaps.
const MAX_PAGES: u64 = 20_000;

/// A bucket to read.
#[derive(Debug)]
pub struct Store {
    bucket: String,
    client: AmazonS3,
    runtime: Runtime,
}

/// An object of a listing.
#[derive(Clone, Debug)]
pub struct Object {
    /// Its key in the bucket.
    pub key: String,
    /// Its length.
    pub bytes: u64,
    /// The entity tag, if the store sends one. It changes when the object is replaced.
    tag: Option<String>,
}

/// Ranges of an object to fetch.
#[derive(Debug)]
pub struct ObjectRanges<'a> {
    /// The object.
    pub object: &'a Object,
    /// Byte ranges, in order and disjoint, as [`crate::merge_ranges`] returns them.
    pub ranges: Vec<Range<u64>>,
    /// The file to write them to.
    pub to: &'a File,
}

impl Object {
    /// Converts an entry of a listing.
    fn of(found: ObjectMeta) -> Self {
        Self { key: found.location.into(), bytes: found.size, tag: found.e_tag }
    }
}

impl Store {
    /// Prepares to read a bucket, with the environment's `AWS_…` variables. Sends nothing yet.
    ///
    /// # Errors
    /// The environment's settings are wrong, or no runtime can be created.
    pub fn open(location: &Location) -> Result<Self, Error> {
        // Fails if the process already has one, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let settings = AmazonS3Builder::from_env().with_retry(retries());
        check_endpoint(&settings, &location.to_string())?;
        Self::of(location, settings.with_http_connector(Connector))
    }

    /// Makes a store of settings that lack only the bucket.
    pub(crate) fn of(location: &Location, settings: AmazonS3Builder) -> Result<Self, Error> {
        let url = location.to_string();
        let client = settings.with_bucket_name(&location.bucket).build();
        let client = client.map_err(|error| Error::of_settings(&url, &error))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| ErrorKind::Runtime { source }.of(&url))?;
        Ok(Self { bucket: location.bucket.clone(), client, runtime })
    }

    /// Passes each object below a location of this bucket to `take`, in no order; returns how many there are.
    ///
    /// # Errors
    /// The store's error, or too many objects; some objects may have been passed before.
    pub fn each(&self, below: &Location, take: &mut dyn FnMut(Object)) -> Result<u64, Error> {
        let store_error = |error: &object_store::Error| Error::of(below, error, true);
        let too_many = || ErrorKind::TooMany { most: MAX_LISTED }.of(below);
        // With a slash, so that `a` does not match `ab`.
        let prefix = (!below.key.is_empty()).then(|| format!("{}/", below.key));
        let (mut listed, mut page_token) = (0, None);
        for _ in 0..MAX_PAGES {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page = self.runtime.block_on(self.client.list_paginated(prefix.as_deref(), options));
            let page = page.map_err(|error| store_error(&error))?;
            listed += page.result.objects.len() as u64;
            if listed > MAX_LISTED {
                return Err(too_many());
            }
            if page.result.objects.iter().any(|found| found.location.as_ref().len() > MAX_KEY_BYTES) {
                let why = format!("a key is longer than {MAX_KEY_BYTES} bytes");
                return Err(ErrorKind::Other { why }.of(below));
            }
            if page.result.objects.iter().any(|found| found.e_tag.as_ref().is_some_and(|tag| !is_tag(tag))) {
                return Err(ErrorKind::Other { why: "an entity tag is none".to_owned() }.of(below));
            }
            page.result.objects.into_iter().map(Object::of).for_each(&mut *take);
            page_token = page.page_token.filter(|token| !token.is_empty());
            if page_token.is_none() {
                return Ok(listed);
            }
        }
        Err(too_many())
    }

    /// Fetches ranges of objects concurrently.
    /// Writes them to the same positions of files. The ranges must lie within the objects.
    ///
    /// # Errors
    /// The store's error, an object that was replaced since it was listed, or a file that cannot be written; the files
    /// then hold some of the ranges.
    pub fn fetch(&self, requests: &[ObjectRanges<'_>]) -> Result<(), Error> {
        let each =
            requests.iter().flat_map(|request| pieces(&request.ranges).map(move |range| (request, range)));
        let fetching = iter(each).map(|(request, range)| self.piece(request.object, range, request.to));
        self.runtime.block_on(fetching.buffer_unordered(CONCURRENT_PIECES).try_collect::<()>())
    }

    async fn piece(&self, object: &Object, range: Range<u64>, to: &File) -> Result<(), Error> {
        let store_error = |error: &object_store::Error| Error::of(self.url(&object.key), error, false);
        let options = GetOptions {
            range: Some(GetRange::Bounded(range.clone())),
            if_match: object.tag.clone(),
            ..GetOptions::default()
        };
        let key = self.path(&object.key)?;
        let found = self.client.get_opts(&key, options).await.map_err(|error| store_error(&error))?;
        let mut bytes = found.into_stream();
        let mut at = range.start;
        while let Some(next) = bytes.try_next().await.map_err(|error| store_error(&error))? {
            let end = at.saturating_add(next.len() as u64);
            if end > range.end {
                return Err(self.wrong_length(object, &range, end));
            }
            to.write_all_at(&next, at)
                .map_err(|source| ErrorKind::Keep { source }.of(self.url(&object.key)))?;
            at = end;
        }
        if at < range.end { Err(self.wrong_length(object, &range, at)) } else { Ok(()) }
    }

    fn wrong_length(&self, object: &Object, range: &Range<u64>, at: u64) -> Error {
        let (requested, sent) = (range.end - range.start, at - range.start);
        ErrorKind::Length { requested, sent }.of(self.url(&object.key))
    }

    fn path(&self, key: &str) -> Result<Path, Error> {
        Path::parse(key).map_err(|_| ErrorKind::Url.of(self.url(key)))
    }

    fn url(&self, key: &str) -> String {
        Location { bucket: self.bucket.clone(), key: key.to_owned() }.to_string()
    }
}

/// Whether a request can carry the tag in a header: it comes from a listing's text. The client panics if it cannot.
fn is_tag(tag: &str) -> bool {
    tag.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: MAX_BACKOFF, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT }
}

/// Explains a bad endpoint in plain words: the client only says that it does not accept it.
fn check_endpoint(settings: &AmazonS3Builder, url: &str) -> Result<(), Error> {
    let endpoint = settings.get_config_value(&AmazonS3ConfigKey::S3Endpoint);
    let endpoint = endpoint.or_else(|| settings.get_config_value(&AmazonS3ConfigKey::Endpoint));
    let Some(endpoint) = endpoint else { return Ok(()) };
    let allowed = settings.get_config_value(&AmazonS3ConfigKey::Client(ClientConfigKey::AllowHttp));
    let endpoint = reqwest::Url::parse(&endpoint).ok().filter(reqwest::Url::has_host);
    match endpoint.as_ref().map(reqwest::Url::scheme) {
        Some("https") => Ok(()),
        Some("http") if allowed.is_some_and(|word| is_yes(&word)) => Ok(()),
        Some("http") => Err(ErrorKind::PlainHttp.of(url)),
        // Not repeated: some contain a password.
        _ => Err(ErrorKind::Settings { why: "AWS_ENDPOINT_URL is not https://HOST:PORT".to_owned() }.of(url)),
    }
}

/// Bytes available to this user in the file system of a directory.
///
/// # Errors
/// The operating system's error.
pub fn free_bytes(directory: &std::path::Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// Ranges separated by a gap up to this size are fetched as one. Requests run concurrently, so that one more takes
/// hardly longer; but each has a price.
const GAP_BYTES: u64 = 32 << 10;
/// A piece has to arrive within a request's time limit, even on a slow link.
const PIECE_BYTES: u64 = 8 << 20;

/// Sorts ranges, and joins close ones together with the bytes between them.
pub fn merge_ranges(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|range, last| {
        let is_close = last.end.saturating_add(GAP_BYTES) >= range.start;
        last.end = if is_close { last.end.max(range.end) } else { last.end };
        is_close
    });
    ranges
}

/// Splits ranges into pieces, one per request.
pub(crate) fn pieces(ranges: &[Range<u64>]) -> impl Iterator<Item = Range<u64>> + '_ {
    ranges.iter().flat_map(|range| {
        let starts = std::iter::successors(Some(range.start), |start| start.checked_add(PIECE_BYTES));
        let within = starts.take_while(|start| *start < range.end);
        within.map(|start| start..range.end.min(start.saturating_add(PIECE_BYTES)))
    })
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use object_store::ClientConfigKey;
    use object_store::aws::AmazonS3ConfigKey;
    use proptest::prelude::*;

    use super::{GAP_BYTES, PIECE_BYTES, free_bytes, merge_ranges, pieces};

    #[test]
    fn object_store_reads_every_documented_variable() {
        let page = include_str!("../../../docs/reference/settings.md");
        let names: Vec<&str> = page.split('`').filter(|part| part.starts_with("AWS_")).collect();
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            let key = name.to_ascii_lowercase().parse::<AmazonS3ConfigKey>();
            assert!(key.is_ok(), "object_store does not read {name}");
        }
        let key = "aws_timeout".parse::<AmazonS3ConfigKey>().ok();
        assert_eq!(key, Some(AmazonS3ConfigKey::Client(ClientConfigKey::Timeout)));
        assert!("aws_no_such_thing".parse::<AmazonS3ConfigKey>().is_err());
    }

    #[test]
    fn merges_close_ranges_and_splits_long_ones() {
        let far = 10 * GAP_BYTES;
        assert_eq!(
            merge_ranges([far..far + 5, 3..9, 0..4, 20..20, 9 + GAP_BYTES..10 + GAP_BYTES]),
            [0..10 + GAP_BYTES, far..far + 5]
        );
        let of = |range: Range<u64>| pieces(&[range]).collect::<Vec<_>>();
        assert_eq!(of(7..2 * PIECE_BYTES), [7..PIECE_BYTES + 7, PIECE_BYTES + 7..2 * PIECE_BYTES]);
        let last = u64::MAX - 1..u64::MAX;
        assert_eq!((of(3..3), of(last.clone())), (vec![], vec![last]));
    }

    proptest! {
        #[test]
        fn every_byte_is_fetched_once(
            ranges in prop::collection::vec((0_u64..40_000_000, 0_u64..20_000_000), 0..12)
        ) {
            let ranges: Vec<Range<u64>> = ranges.iter().map(|(start, length)| *start..start + length).collect();
            let requests: Vec<Range<u64>> = pieces(&merge_ranges(ranges.clone())).collect();
            for pair in requests.windows(2) {
                prop_assert!(pair[0].end <= pair[1].start);
            }
            prop_assert!(requests.iter().all(|piece| !piece.is_empty() && piece.end - piece.start <= PIECE_BYTES));
            let has = |at: u64| requests.iter().any(|piece| piece.contains(&at));
            for range in ranges.iter().filter(|range| !range.is_empty()) {
                prop_assert!(has(range.start) && has(range.end - 1) && has(range.start.midpoint(range.end - 1)));
            }
        }
    }

    #[test]
    fn free_bytes_reads_a_directory_and_fails_for_a_missing_path() {
        let directory = tempfile::tempdir().unwrap();
        assert!(free_bytes(directory.path()).unwrap() > 0);
        assert!(free_bytes(&directory.path().join("nothing")).is_err());
    }
}
