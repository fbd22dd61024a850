//! What the kernel says of this process: `/proc/self/stat` and `/proc/self/status` (proc(5)). Where they are not there, nothing is
//! known. Does not know what anybody makes of it.

use std::fs;

/// `USER_HZ` of every architecture that Linux 5 runs on but Alpha (`include/asm-generic/param.h`).
const TICKS_A_SECOND: f64 = 100.0;

/// `/proc/self/stat`, as it was read.
#[derive(Debug)]
pub(crate) struct Stat(String);

impl Stat {
    pub(crate) fn read() -> Self {
        Self(read("/proc/self/stat"))
    }

    /// Processor time in user and kernel mode, of all threads, those that ended included.
    pub(crate) fn cpu_seconds(&self) -> Option<f64> {
        Some((self.field(14)? + self.field(15)?) as f64 / TICKS_A_SECOND)
    }

    /// When it was started, in seconds of UTC.
    pub(crate) fn start_time_seconds(&self) -> Option<f64> {
        let after_boot = self.field(22)? as f64 / TICKS_A_SECOND;
        let boot: f64 =
            read("/proc/stat").lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
        Some(boot + after_boot)
    }

    /// A field behind the name, which may hold blanks and parentheses itself; the first behind it is 3.
    fn field(&self, number: usize) -> Option<u64> {
        let (_, fields) = self.0.rsplit_once(')')?;
        fields.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
    }
}

/// `/proc/self/status`, as it was read.
#[derive(Debug)]
pub(crate) struct Status(String);

impl Status {
    pub(crate) fn read() -> Self {
        Self(read("/proc/self/status"))
    }

    pub(crate) fn resident_bytes(&self) -> Option<u64> {
        self.bytes("VmRSS:")
    }

    pub(crate) fn virtual_bytes(&self) -> Option<u64> {
        self.bytes("VmSize:")
    }

    fn bytes(&self, key: &str) -> Option<u64> {
        let line = self.0.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Stat, Status};

    #[test]
    fn names_with_anything_in_them_are_passed_over() {
        let stat = |text: &str| Stat(text.to_owned());
        let whole = stat("7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13");
        assert_eq!((whole.field(4), whole.field(14), whole.field(99)), (Some(1), Some(11), None));
        assert_eq!(stat("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 13 14").cpu_seconds(), Some(3.0));
        assert_eq!(stat("7 (a").cpu_seconds(), None);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        let status = |text: &str| Status(text.to_owned());
        assert_eq!(status("Name:\tx\nVmRSS:\t    12 kB\n").resident_bytes(), Some(12_288));
        let both = status("Name:\tx\nVmRSS:\t    34816 kB\nVmSize:\t 1 kB\nVmSwap:\t0 kB\n");
        assert_eq!((both.resident_bytes(), both.virtual_bytes()), (Some(34 << 20), Some(1024)));
        assert_eq!(status("").resident_bytes(), None);
    }
}
