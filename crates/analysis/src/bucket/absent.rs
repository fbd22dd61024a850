//! What stands for buckets in a build without the feature `object-stores`: no URL is read.

use std::borrow::Cow;
use std::path::Path;

use crate::{Error, input};

/// There is none.
pub enum Bucket {}

/// There is none.
pub enum Copy {}

/// Which columns are fetched.
pub enum Columns {
    /// Those that figures of many brokers are made of.
    Figures,
}

impl Bucket {
    /// Refuses a URL.
    ///
    /// # Errors
    /// The path is one.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        copy(path).map(|_| None)
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn recordings(&self, _most: usize) -> Result<Vec<String>, Error> {
        match *self {}
    }

    /// There is none.
    ///
    /// # Errors
    /// None.
    pub fn fetch(&self, _recording: &Path, _columns: Columns) -> Result<Copy, Error> {
        match *self {}
    }

    /// There is none.
    pub fn fetched(&self) -> String {
        match *self {}
    }
}

impl Copy {
    /// There is none.
    pub fn path(&self) -> &Path {
        match *self {}
    }
}

/// Whether all that follows would fail as well.
pub fn ends_all(_error: &Error) -> bool {
    false
}

/// Refuses a URL.
///
/// # Errors
/// The path is one.
pub fn copy(path: &Path) -> Result<Option<Copy>, Error> {
    match input::url(path) {
        Some(url) => Err(Error::input(format!(
            "{url}: this brokerscope was built without the feature `object-stores`"
        ))),
        None => Ok(None),
    }
}

/// The sentence as it is: there are no copies.
pub fn with_urls(sentence: &str) -> Cow<'_, str> {
    Cow::Borrowed(sentence)
}
