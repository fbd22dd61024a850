//! Reads without egress: bytes that a broker has its devices bring and sends to nobody. A healthy broker hardly reads its
//! disk: consumers at the end of a log are served from the page cache, and one that catches up is sent what is read. Does not say why
//! files are read.

use std::sync::Arc;

use diagnose::causes;
use model::{Cause, FileKind};

use super::{FileTotals, GroupBy, GroupKey, Traffic};

/// Less than so much a minute is nobody's trouble.
const MIN_BYTES_A_MINUTE: f64 = 10e6;
/// Where at least so much of what is read is sent, somebody reads the disk for consumers.
const MAX_SENT_SHARE: f64 = 0.5;
/// Over less time there is no rate.
const MIN_SECONDS: f64 = 1.0;

/// What is read from devices and sent to nobody.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadsWithoutEgress {
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Of them, bytes that were sent: at most so many.
    pub sent_bytes: u64,
    /// The kind of file of which most is read and not sent.
    pub kind: &'static str,
    /// Its share of what is not sent.
    pub share: f64,
    /// Over how many seconds.
    pub(super) seconds: f64,
    /// The file of that kind of which most is read, where files are told apart; and how many others of that kind are read.
    pub file: Option<(Arc<str>, usize)>,
}

impl ReadsWithoutEgress {
    /// What to change about it, where that is known of such files.
    pub fn advice(&self) -> &'static [&'static str] {
        advice_of_kind(self.kind)
    }
}

/// What to change where files of this kind are read for nobody.
pub(crate) fn advice_of_kind(kind: &str) -> &'static [&'static str] {
    if kind == FileKind::TierState.as_str() { causes::spec(Cause::TierStateIo).advice } else { &[] }
}

/// Bytes a minute of so many in so many seconds.
pub(super) fn a_minute(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 60.0 / seconds
}

impl FileTotals {
    /// How long was counted, in seconds.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.interval.span.map(|span| span.0 as f64 / 1e9).filter(|seconds| *seconds >= MIN_SECONDS)
    }

    /// Reads without egress, where there are any worth a word. None where not everything was counted.
    pub fn unsent(&self) -> Option<ReadsWithoutEgress> {
        if self.interval.partial {
            return None;
        }
        let seconds = self.seconds()?;
        let kinds = self.kinds.iter().map(|(kind, traffic)| (*kind, traffic, self.sent_of(kind, traffic)));
        let kinds = kinds.collect::<Vec<_>>();
        let read_bytes = kinds.iter().map(|(_, traffic, _)| traffic.from_device()).sum::<u64>();
        let sent_bytes = kinds.iter().map(|(_, _, sent)| sent).sum::<u64>();
        let unsent = read_bytes.saturating_sub(sent_bytes);
        if a_minute(unsent, seconds) < MIN_BYTES_A_MINUTE
            || sent_bytes as f64 >= MAX_SENT_SHARE * read_bytes as f64
        {
            return None;
        }
        let unsent_of = |(_, traffic, sent): &(_, &Traffic, u64)| traffic.from_device().saturating_sub(*sent);
        let most = kinds.iter().max_by_key(|kind| unsent_of(kind))?;
        let share = unsent_of(most) as f64 / unsent as f64;
        let (kind, file) = (most.0, self.most_read(most.0));
        Some(ReadsWithoutEgress { read_bytes, sent_bytes, kind, share, seconds, file })
    }

    /// Of what devices brought of a kind, what can have been sent: no more than `sendfile` sent of it. A broker that encrypts
    /// reads its segments and writes to the connection; then it may have been all that it wrote, which somebody must have seen.
    fn sent_of(&self, kind: &str, traffic: &Traffic) -> u64 {
        let may_be = if kind == FileKind::Log.as_str() { self.sent_bytes.unwrap_or(u64::MAX) } else { 0 };
        let by_calls = if traffic.sent_bytes > 0 { 0 } else { may_be };
        traffic.from_device().min(traffic.sent_bytes.max(by_calls))
    }

    fn most_read(&self, of_kind: &str) -> Option<(Arc<str>, usize)> {
        if self.by != GroupBy::File {
            return None;
        }
        let files = self.groups.iter().filter_map(|(who, traffic)| match who {
            GroupKey::File { file, kind, .. } if *kind == of_kind => Some((file, traffic.from_device())),
            _ => None,
        });
        let read = files.filter(|(_, bytes)| *bytes > 0).collect::<Vec<_>>();
        let (most, _) = read.iter().max_by_key(|(_, bytes)| *bytes)?;
        Some((Arc::clone(most), read.len() - 1))
    }
}
