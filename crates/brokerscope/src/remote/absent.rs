//! What stands for [`crate::remote`] in a binary that was built without the feature `object-stores`: it reads no URLs, and says so.

use std::borrow::Cow;
use std::path::Path;

use crate::cli::Command;
use crate::input;

/// There is none.
pub(crate) enum Source {}

/// There is none.
pub(crate) enum Kept {}

/// What is read of a recording.
pub(crate) enum Needed {
    /// What figures of many brokers are made of.
    Figures,
}

impl Source {
    pub(crate) fn of(path: &Path) -> anyhow::Result<Option<Self>> {
        match input::url(path) {
            Some(url) => {
                anyhow::bail!("{url}: this brokerscope was built without the feature `object-stores`")
            }
            None => Ok(None),
        }
    }

    pub(crate) fn recordings(&self, _most: usize) -> anyhow::Result<Vec<String>> {
        match *self {}
    }

    pub(crate) fn fetch(&self, _recording: &Path, _needed: Needed) -> anyhow::Result<Kept> {
        match *self {}
    }

    pub(crate) fn said(&self) -> String {
        match *self {}
    }
}

impl Kept {
    pub(crate) fn path(&self) -> &Path {
        match *self {}
    }
}

pub(crate) fn ends_all(_error: &anyhow::Error) -> bool {
    false
}

pub(crate) fn bring(command: &mut Command, _kept: &mut Vec<Kept>) -> anyhow::Result<()> {
    command.recordings().into_iter().try_for_each(|input| Source::of(input).map(|_| ()))
}

pub(crate) fn with_urls(sentence: &str) -> Cow<'_, str> {
    Cow::Borrowed(sentence)
}
