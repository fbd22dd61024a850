//! Stand-in for buckets in a build without the feature `object-stores`: every URL is refused.

use std::borrow::Cow;
use std::path::Path;

use crate::{Error, input};

/// Never constructed.
pub enum Bucket {}

/// Never constructed.
pub enum Copy {}

/// Columns to fetch.
pub enum Columns {
    /// Columns that figures of many brokers need.
    Figures,
}

impl Bucket {
    /// Refuses a URL.
    ///
    /// # Errors
    /// The path is a URL.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        copy(path).map(|_| None)
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn recordings(&self, _most: usize) -> Result<Vec<String>, Error> {
        match *self {}
    }

    /// Never called.
    ///
    /// # Errors
    /// None.
    pub fn fetch(&self, _recording: &Path, _columns: Columns) -> Result<Copy, Error> {
        match *self {}
    }

    /// Never called.
    pub fn describe_fetched(&self) -> String {
        match *self {}
    }
}

impl Copy {
    /// Never called.
    pub fn path(&self) -> &Path {
        match *self {}
    }
}

/// Whether all further fetches would fail as well.
pub fn is_fatal(_error: &Error) -> bool {
    false
}

/// Refuses a URL.
///
/// # Errors
/// The path is a URL.
pub fn copy(path: &Path) -> Result<Option<Copy>, Error> {
    match input::url(path) {
        Some(url) => Err(Error::input(format!(
            "{url}: this brokerscope was built without the feature `object-stores`"
        ))),
        None => Ok(None),
    }
}

/// Returns the sentence unchanged: there are no copies.
pub fn with_urls(sentence: &str) -> Cow<'_, str> {
    Cow::Borrowed(sentence)
}
