//! Reads without egress: bytes that a broker reads from its devices and sends to nobody. A healthy broker hardly reads its
//! disk: consumers at the end of a log are served from the page cache, and a consumer that catches up is sent what is read.
//! Does not say why files are read.

use std::sync::Arc;

use diagnose::causes;
use model::{Cause, FileKind};

use super::{FileTotals, GroupBy, GroupKey, Traffic};

/// Minimum rate of unsent bytes; a lower one is harmless.
const MIN_BYTES_PER_MINUTE: f64 = 10e6;
/// If at least this share of the bytes read is sent, the reads serve consumers.
const MAX_SENT_SHARE: f64 = 0.5;
/// A shorter time gives no rate.
const MIN_SECONDS: f64 = 1.0;

/// Bytes that are read from devices and sent to nobody.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadsWithoutEgress {
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Upper bound on the bytes among them that were sent.
    pub sent_bytes: u64,
    /// The kind of file with the most bytes that are read and not sent.
    pub kind: &'static str,
    /// Its share of the bytes that are not sent.
    pub share: f64,
    /// Length of the interval, in seconds.
    pub(super) seconds: f64,
    /// The most-read file of that kind and the number of others that are read; `None` unless grouped by file.
    pub file: Option<(Arc<str>, usize)>,
}

impl ReadsWithoutEgress {
    /// Advice, if there is any for this kind of file.
    pub fn advice(&self) -> &'static [&'static str] {
        advice_of_kind(self.kind)
    }
}

/// Advice if files of this kind are read and not sent.
pub(crate) fn advice_of_kind(kind: &str) -> &'static [&'static str] {
    if kind == FileKind::TierState.as_str() { causes::spec(Cause::TierStateIo).advice } else { &[] }
}

/// Bytes per minute.
pub(super) fn per_minute(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 * 60.0 / seconds
}

impl FileTotals {
    /// Length of the interval, in seconds, if it is long enough for a rate.
    pub(super) fn seconds(&self) -> Option<f64> {
        self.interval.span.map(|span| span.0 as f64 / 1e9).filter(|seconds| *seconds >= MIN_SECONDS)
    }

    /// Reads without egress, if they matter. `None` if not everything was counted.
    pub fn reads_without_egress(&self) -> Option<ReadsWithoutEgress> {
        if self.interval.partial {
            return None;
        }
        let seconds = self.seconds()?;
        let kinds = self.kinds.iter().map(|(kind, traffic)| (*kind, traffic, self.sent_of(kind, traffic)));
        let kinds = kinds.collect::<Vec<_>>();
        let read_bytes = kinds.iter().map(|(_, traffic, _)| traffic.from_device()).sum::<u64>();
        let sent_bytes = kinds.iter().map(|(_, _, sent)| sent).sum::<u64>();
        let unsent = read_bytes.saturating_sub(sent_bytes);
        if per_minute(unsent, seconds) < MIN_BYTES_PER_MINUTE
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

    /// Upper bound on the bytes of a kind that came from devices and were sent: those that `sendfile` sent.
    /// A broker that encrypts reads its segments and writes to connections instead; then the bound is all that it wrote
    /// to them, or all that it read if its writes were not seen.
    fn sent_of(&self, kind: &str, traffic: &Traffic) -> u64 {
        let max_written =
            if kind == FileKind::Log.as_str() { self.sent_bytes.unwrap_or(u64::MAX) } else { 0 };
        let by_calls = if traffic.sent_bytes > 0 { 0 } else { max_written };
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
