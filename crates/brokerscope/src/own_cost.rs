//! What this process itself takes: processor time and memory, as the kernel counts them. Does not count what its BPF programs
//! take in other processes' time.

use std::fs;
use std::time::{Duration, Instant};

use top::Cost;

/// `USER_HZ` of every architecture that Linux 5 runs on but Alpha (`include/asm-generic/param.h`).
const TICKS_PER_SECOND: f64 = 100.0;
/// The kernel counts in steps of 10 ms: over less than this they are much of what is counted.
const OVER: Duration = Duration::from_secs(2);

/// Reads it now and then.
#[derive(Debug, Default)]
pub(crate) struct OwnCost {
    before: Option<(Instant, f64)>,
}

impl OwnCost {
    /// What it took since it was told last; none before some time has passed, and where the kernel does not say.
    pub(crate) fn told(&mut self) -> Option<Cost> {
        if self.before.is_some_and(|(at, _)| at.elapsed() < OVER) {
            return None;
        }
        let now = (Instant::now(), seconds(&fs::read_to_string("/proc/self/stat").ok()?)?);
        let (at, before) = self.before.replace(now)?;
        let resident_bytes = resident_bytes(&fs::read_to_string("/proc/self/status").ok()?)?;
        Some(Cost { processors: (now.1 - before) / at.elapsed().as_secs_f64(), resident_bytes })
    }
}

/// Processor time in user and kernel mode (`utime`, `stime` of `/proc/PID/stat`, proc(5)).
fn seconds(stat: &str) -> Option<f64> {
    // The name before may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_ascii_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some((ticks.next()? + ticks.next()?) as f64 / TICKS_PER_SECOND)
}

fn resident_bytes(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_ascii_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::{resident_bytes, seconds};

    #[test]
    fn what_the_kernel_says_is_read() {
        let stat = "7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 13 14";
        assert_eq!(seconds(stat), Some(3.0));
        assert_eq!(seconds("7 (a"), None);
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    34816 kB\nVmSwap:\t0 kB\n"), Some(34 << 20));
        assert_eq!(resident_bytes(""), None);
    }
}
