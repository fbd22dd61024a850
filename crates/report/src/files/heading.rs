//! What stands above the table of files: reads without egress, what was moved in a minute, and how busy devices were. Does not
//! write the table.

use std::io::{self, Write};

use super::{FileTotals, Load, ReadsWithoutEgress, Traffic};
use crate::escape::escape;
use crate::quantity::format_count_of;

/// Devices told of: beneath a file system there may be a whole stack.
const DEVICES_SHOWN: usize = 4;

pub(super) fn write(out: &mut impl Write, totals: &FileTotals) -> io::Result<()> {
    let Some(span) = totals.interval.span.filter(|_| totals.seconds().is_some()) else { return Ok(()) };
    if let Some(unsent) = totals.unsent() {
        writeln!(out, "{}", sentence(totals, &unsent))?;
        unsent.advice().iter().try_for_each(|advice| writeln!(out, "to change: {advice}"))?;
    }
    if !totals.interval.partial {
        writeln!(out, "over {span}: {}", moved(totals))?;
    }
    for load in totals.loads.iter().take(DEVICES_SHOWN) {
        writeln!(out, "{}", busy(load, totals.interval.rated_iops))?;
    }
    writeln!(out)
}

/// The finding, in one sentence.
pub(super) fn sentence(totals: &FileTotals, unsent: &ReadsWithoutEgress) -> String {
    let rate = |bytes| totals.a_minute(bytes).map(rate).unwrap_or_default();
    let what = format!(
        "reads without egress: reads {} from disk, sends {} of it; {:.0} % of the rest is {} files",
        rate(unsent.read_bytes),
        rate(unsent.sent_bytes),
        unsent.share * 100.0,
        unsent.kind
    );
    match &unsent.file {
        None => what,
        Some((file, 0)) => format!("{what}, most of it {}", escape(file)),
        Some((file, others)) => {
            let others = format_count_of(*others as u64, "file");
            format!("{what}, most of it {} (and {others} more)", escape(file))
        }
    }
}

fn moved(totals: &FileTotals) -> String {
    let sum = |of: fn(&Traffic) -> u64| totals.kinds.values().map(of).sum::<u64>();
    let rate = |bytes| totals.a_minute(bytes).map(rate).unwrap_or_default();
    let sent = totals.sent_bytes.map(|bytes| format!("; sends {}", rate(bytes)));
    format!(
        "reads {} from disk and {} from the page cache, writes {}{}",
        rate(sum(Traffic::from_device)),
        rate(sum(|traffic| traffic.cached_bytes.unwrap_or(0))),
        rate(sum(|traffic| traffic.written_bytes)),
        sent.unwrap_or_default()
    )
}

fn busy(load: &Load, rated_iops: Option<u64>) -> String {
    let mean = load.mean_iops.zip(load.mean_reads).map(|(mean, reads)| {
        format!("{} requests/s on average, {} of them reads; ", whole(mean), whole(reads))
    });
    let of_rated = rated_iops.map(|rated| {
        let share = load.busiest_iops * 100.0 / rated as f64;
        format!(", {share:.0} % of the rated {}", whole(rated as f64))
    });
    format!(
        "{}: {}{} in the busiest second{}",
        escape(&load.device),
        mean.unwrap_or_default(),
        whole(load.busiest_iops),
        of_rated.unwrap_or_default()
    )
}

fn whole(number: f64) -> String {
    crate::quantity::format_count(number.round() as u64)
}

/// Bytes a minute, as the case's own account has them.
fn rate(bytes_a_minute: f64) -> String {
    const UNITS: [(&str, f64); 3] = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let fits = UNITS.into_iter().find(|(_, size)| bytes_a_minute >= *size);
    let (unit, size) = fits.unwrap_or(("B", 1.0));
    let value = bytes_a_minute / size;
    if value >= 10.0 || size <= 1.0 {
        format!("{value:.0} {unit}/min")
    } else {
        format!("{value:.1} {unit}/min")
    }
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn rates_read_as_people_say_them() {
        for (bytes, text) in [
            (0.0, "0 B/min"),
            (999.0, "999 B/min"),
            (3_040_000.0, "3.0 MB/min"),
            (812e6, "812 MB/min"),
            (2.5e9, "2.5 GB/min"),
        ] {
            assert_eq!(rate(bytes), text);
        }
    }
}
