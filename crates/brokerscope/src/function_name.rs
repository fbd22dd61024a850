//! A kernel or program function as the user names it. Does not look functions up.

use std::convert::Infallible;
use std::fmt;
use std::str::FromStr;

/// A function's name, or with `*` at its end the beginning of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FunctionName {
    name: String,
    and_more: bool,
}

impl FromStr for FunctionName {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.strip_suffix('*').unwrap_or(text);
        Ok(Self { name: name.to_owned(), and_more: name.len() < text.len() })
    }
}

impl FunctionName {
    /// Whether this function is meant.
    pub(crate) fn is(&self, function: &str) -> bool {
        if self.and_more { function.starts_with(self.name.as_str()) } else { function == self.name }
    }
}

impl fmt::Display for FunctionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.name, if self.and_more { "*" } else { "" })
    }
}
