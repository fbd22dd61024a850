//! Locations of objects: `s3://BUCKET/KEY`. Does not check whether anything is there.

use std::fmt;

use crate::Error;
use crate::error::ErrorKind;

const SCHEME: &str = "s3://";
/// S3's own limit is 63; some compatible stores have older, longer names.
const MAX_BUCKET_BYTES: usize = 255;
/// S3's limit for a key.
pub(crate) const MAX_KEY_BYTES: usize = 1_024;

/// A bucket, and a key or key prefix without a slash at either end. An empty key means the whole bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// The bucket's name.
    pub bucket: String,
    /// The key, or the folders that keys start with.
    pub key: String,
}

impl Location {
    /// Parses a URL.
    ///
    /// # Errors
    /// It is not a bucket's URL, or its key is not a path of folders (`a//b`, `..`).
    pub fn parse(url: &str) -> Result<Self, Error> {
        let location = url.strip_prefix(SCHEME).and_then(Self::of);
        location.ok_or_else(|| ErrorKind::Url.of(url))
    }

    fn of(rest: &str) -> Option<Self> {
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        // The name becomes part of a host name or of a path.
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_bucket = (1..=MAX_BUCKET_BYTES).contains(&bucket.len()) && bucket.bytes().all(is_plain);
        let key = key.trim_end_matches('/');
        let is_folder = |name: &str| !matches!(name, "" | "." | "..");
        let is_key = key.len() <= MAX_KEY_BYTES && (key.is_empty() || key.split('/').all(is_folder));
        (is_bucket && is_key).then(|| Self { bucket: bucket.to_owned(), key: key.to_owned() })
    }

    /// The location at `place` below this one.
    #[must_use]
    pub fn below(&self, place: &str) -> Self {
        let key = match (self.key.as_str(), place) {
            (key, "") => key.to_owned(),
            ("", place) => place.to_owned(),
            (key, place) => format!("{key}/{place}"),
        };
        Self { bucket: self.bucket.clone(), key }
    }

    /// Where a key of the bucket lies below this location; `None` if it does not, or is this location itself.
    pub fn place_of<'k>(&self, key: &'k str) -> Option<&'k str> {
        if self.key.is_empty() {
            return Some(key);
        }
        key.strip_prefix(&self.key)?.strip_prefix('/').filter(|place| !place.is_empty())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{SCHEME}{}", self.bucket)?;
        if self.key.is_empty() { Ok(()) } else { write!(f, "/{}", self.key) }
    }
}

#[cfg(test)]
mod tests {
    use super::Location;

    #[test]
    fn parses_urls_into_bucket_and_key() {
        for (url, bucket, key) in [
            ("s3://b", "b", ""),
            ("s3://b/", "b", ""),
            ("s3://my.bucket-1/a=1/b", "my.bucket-1", "a=1/b"),
            ("s3://b/a/b/", "b", "a/b"),
            ("s3://b/a b?c#d", "b", "a b?c#d"),
        ] {
            let location = Location::parse(url).unwrap();
            assert_eq!((location.bucket.as_str(), location.key.as_str()), (bucket, key), "{url}");
            assert_eq!(location.to_string(), url.trim_end_matches('/'));
        }
        let long = format!("s3://b/{}", "k".repeat(1_025));
        for url in [
            "",
            "s3://",
            "s3:///key",
            "gs://b/k",
            "s3:b",
            "s3://user@host/k",
            "s3://b/a//b",
            "s3://b/../c",
            &long,
        ] {
            let message = Location::parse(url).unwrap_err().to_string();
            assert!(message.starts_with(url) && message.contains("s3://BUCKET/PREFIX"), "{message}");
        }
    }

    #[test]
    fn joins_and_strips_paths_below_a_folder() {
        let (bucket, folder) = (Location::parse("s3://b").unwrap(), Location::parse("s3://b/a").unwrap());
        assert_eq!(bucket.below("x/y").key, "x/y");
        assert_eq!((folder.below("x").key.as_str(), folder.below("").key.as_str()), ("a/x", "a"));
        assert_eq!((bucket.place_of("a/x"), folder.place_of("a/x/y")), (Some("a/x"), Some("x/y")));
        assert_eq!(
            (folder.place_of("ab/x"), folder.place_of("a/"), folder.place_of("a")),
            (None, None, None)
        );
    }
}
