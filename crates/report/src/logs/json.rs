//! Entries as JSON lines, and after them what they come to.

use std::io::{self, Write};

use super::{LogReport, LogRow, LogStats, LogSummary, view};

/// JSON to this output.
pub struct LogJson<W>(pub W);

impl<W: Write> LogReport for LogJson<W> {
    fn entry(&mut self, row: LogRow<'_>) -> io::Result<()> {
        view::entry(row).write_json(&mut self.0)
    }

    fn finish(&mut self, digest: &LogSummary, read: &LogStats) -> io::Result<()> {
        let out = &mut self.0;
        for ((kind, pattern), group) in &digest.groups {
            view::group(*kind, pattern.as_deref(), group).write_json(out)?;
        }
        for (partition, cleanup) in &digest.cleanups {
            view::cleanup(partition, cleanup).write_json(out)?;
        }
        let queues = digest.migrations.queues();
        for (nth, queue) in queues.iter().enumerate() {
            for (migration, gap) in queue.with_gaps() {
                view::migration(nth, migration, gap).write_json(out)?;
            }
        }
        for (partition, changes) in &digest.in_sync {
            view::in_sync(partition, changes).write_json(out)?;
        }
        for (name, times) in &digest.apis {
            view::api(name, times).write_json(out)?;
        }
        view::summary(digest, read, &queues).write_json(out)?;
        out.flush()
    }
}
