//! A bucket: its list, page by page, and ranges of its objects, a few pieces at a time. Does not keep anything.

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

/// Tries after the first, each with the time limit of a request: 30 s, and 5 s for the connection, unless the environment
/// says otherwise (`AWS_TIMEOUT`, `AWS_CONNECT_TIMEOUT`).
const RETRIES: usize = 3;
/// No further try after this.
const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_BACKOFF: Duration = Duration::from_secs(5);
/// Pieces that are fetched side by side.
const CONCURRENT_PIECES: usize = 8;
/// Five thousand pages of a thousand objects.
const MAX_LISTED: u64 = 5_000_000;
/// Some stores have fewer objects on a page, and those that were removed leave gaps.
const MAX_PAGES: u64 = 20_000;

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
pub struct ObjectRanges<'a> {
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
    /// The environment's settings, or no runtime.
    pub fn open(location: &Location) -> Result<Self, Error> {
        // Fails where the process has one already, which will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let settings = AmazonS3Builder::from_env().with_retry(retries());
        check_endpoint(&settings, &location.to_string())?;
        Self::of(location, settings.with_http_connector(Connector))
    }

    /// With all settings but the bucket.
    pub(crate) fn of(location: &Location, settings: AmazonS3Builder) -> Result<Self, Error> {
        let url = location.to_string();
        let client = settings.with_bucket_name(&location.bucket).build();
        let client = client.map_err(|error| Error::of_settings(&url, &error))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| ErrorKind::Runtime { source }.of(&url))?;
        Ok(Self { bucket: location.bucket.clone(), client, runtime })
    }

    /// Hands out each object below a location of this bucket, in no order; how many there are.
    ///
    /// # Errors
    /// What the store says, or too many objects; some objects may have been handed out before.
    pub fn each(&self, below: &Location, take: &mut dyn FnMut(Object)) -> Result<u64, Error> {
        let said = |error: &object_store::Error| Error::of(below, error, true);
        let too_many = || ErrorKind::TooMany { most: MAX_LISTED }.of(below);
        // With its slash: `a` is no folder of `ab`.
        let prefix = (!below.key.is_empty()).then(|| format!("{}/", below.key));
        let (mut listed, mut page_token) = (0, None);
        for _ in 0..MAX_PAGES {
            let options = PaginatedListOptions { page_token, ..PaginatedListOptions::default() };
            let page = self.runtime.block_on(self.client.list_paginated(prefix.as_deref(), options));
            let page = page.map_err(|error| said(&error))?;
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

    /// Fetches ranges of objects, which must be within them, into the same places of files, side by side.
    ///
    /// # Errors
    /// What the store says, an object that is not the one of the list any more, or a file that cannot be written; the files
    /// have some of the ranges then.
    pub fn fetch(&self, wanted: &[ObjectRanges<'_>]) -> Result<(), Error> {
        let each = wanted.iter().flat_map(|wanted| pieces(&wanted.ranges).map(move |range| (wanted, range)));
        let fetching = iter(each).map(|(wanted, range)| self.piece(wanted.object, range, wanted.to));
        self.runtime.block_on(fetching.buffer_unordered(CONCURRENT_PIECES).try_collect::<()>())
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
            to.write_all_at(&next, at)
                .map_err(|source| ErrorKind::Keep { source }.of(self.url(&object.key)))?;
            at = end;
        }
        if at < range.end { Err(self.wrong_length(object, &range, at)) } else { Ok(()) }
    }

    fn wrong_length(&self, object: &Object, range: &Range<u64>, at: u64) -> Error {
        let (asked, sent) = (range.end - range.start, at - range.start);
        ErrorKind::Length { asked, sent }.of(self.url(&object.key))
    }

    fn path(&self, key: &str) -> Result<Path, Error> {
        Path::parse(key).map_err(|_| ErrorKind::Url.of(self.url(key)))
    }

    fn url(&self, key: &str) -> String {
        Location { bucket: self.bucket.clone(), key: key.to_owned() }.to_string()
    }
}

/// Whether a request can have it as a header: it comes from the text of a list. The client panics where it cannot.
fn is_tag(tag: &str) -> bool {
    tag.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

fn retries() -> RetryConfig {
    let backoff = BackoffConfig { max_backoff: MAX_BACKOFF, ..BackoffConfig::default() };
    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_TIMEOUT }
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
        Some("http") => Err(ErrorKind::PlainHttp.of(url)),
        // Not repeated: some have a password in it.
        _ => Err(ErrorKind::Settings { why: "AWS_ENDPOINT_URL is not https://HOST:PORT".to_owned() }.of(url)),
    }
}

/// The bytes that are free for this user in the file system of a directory.
///
/// # Errors
/// The operating system's.
pub fn free_bytes(directory: &std::path::Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(directory)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

/// What lies between two ranges is fetched with them up to here. Requests run side by side, so that one more takes hardly longer; but
/// it costs something itself.
const GAP_BYTES: u64 = 32 << 10;
/// A piece has to arrive within a request's time limit, also on a slow line.
const PIECE_BYTES: u64 = 8 << 20;

/// The same bytes in order, and with them those between ranges that are close together.
pub fn merged(ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = ranges.into_iter().filter(|range| !range.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|range, last| {
        let is_close = last.end.saturating_add(GAP_BYTES) >= range.start;
        last.end = if is_close { last.end.max(range.end) } else { last.end };
        is_close
    });
    ranges
}

/// Each range as pieces, one a request.
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

    use super::{GAP_BYTES, PIECE_BYTES, free_bytes, merged, pieces};

    #[test]
    fn the_library_knows_the_variables_of_the_reference() {
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
    fn close_ranges_are_one_and_long_ones_are_several() {
        let far = 10 * GAP_BYTES;
        assert_eq!(
            merged([far..far + 5, 3..9, 0..4, 20..20, 9 + GAP_BYTES..10 + GAP_BYTES]),
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
            let requests: Vec<Range<u64>> = pieces(&merged(ranges.clone())).collect();
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
    fn a_directory_has_room_and_nothing_has_none() {
        let directory = tempfile::tempdir().unwrap();
        assert!(free_bytes(directory.path()).unwrap() > 0);
        assert!(free_bytes(&directory.path().join("nothing")).is_err());
    }
}
