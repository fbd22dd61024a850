//! Values that are chosen by name, with all names listed where one is wrong.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use model::{FileKind, FileOpKind, LogKind};
use report::files::{GroupBy, Sort};

/// An operation on a file.
pub(super) fn file_op() -> impl TypedValueParser<Value = FileOpKind> {
    one_of(FileOpKind::ALL.map(FileOpKind::as_str), FileOpKind::parse)
}

/// A kind of file.
pub(super) fn file_kind() -> impl TypedValueParser<Value = FileKind> {
    one_of(FileKind::ALL.map(FileKind::as_str), FileKind::parse)
}

/// What a line of a log is about.
pub(super) fn log_kind() -> impl TypedValueParser<Value = LogKind> {
    one_of(LogKind::ALL.map(LogKind::as_str), LogKind::parse)
}

/// What `files` tells apart.
pub(super) fn files_by() -> impl TypedValueParser<Value = GroupBy> {
    one_of(GroupBy::ALL.map(GroupBy::as_str), GroupBy::parse)
}

/// What `files` puts first.
pub(super) fn files_sort() -> impl TypedValueParser<Value = Sort> {
    one_of(Sort::ALL.map(Sort::as_str), Sort::parse)
}

/// What one of these names stands for.
fn one_of<T: Clone + Send + Sync + 'static, const N: usize>(
    names: [&'static str; N],
    parse: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(move |name| parse(&name).ok_or("no such name"))
}
