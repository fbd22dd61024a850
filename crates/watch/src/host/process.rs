//! The broker's process: memory, faults, and what its calls read and wrote.

use model::HostScope;

use super::figures::Figures;
use super::text::{self, Kernel};

/// `/proc/PID/stat` counts in ticks of 10 ms on every architecture with BPF (`USER_HZ`, asm-generic/param.h).
const TICK_S: f64 = 0.01;

pub(super) fn sample(kernel: &Kernel, pid: u32, figures: &mut Figures) {
    let file = |name| text::read(&kernel.of_process(pid, name)).unwrap_or_default();
    let (stat, status, io) = (file("stat"), file("status"), file("io"));
    let stat = Stat::parse(&stat);
    let mut figure = figures.of(HostScope::Process, "");
    figure.rate("user_cpu_ratio", stat.field(14), TICK_S);
    figure.rate("system_cpu_ratio", stat.field(15), TICK_S);
    figure.rate("minor_faults_per_second", stat.field(10), 1.0);
    figure.rate("major_faults_per_second", stat.field(12), 1.0);
    figure.stands("resident_bytes", text::keyed_kib(&status, "VmRSS"));
    figure.stands("resident_anonymous_bytes", text::keyed_kib(&status, "RssAnon"));
    figure.stands("resident_file_bytes", text::keyed_kib(&status, "RssFile"));
    figure.stands("swapped_bytes", text::keyed_kib(&status, "VmSwap"));
    figure.rate("read_bytes_per_second", text::keyed(&io, "read_bytes"), 1.0);
    figure.rate("write_bytes_per_second", text::keyed(&io, "write_bytes"), 1.0);
    figure.rate("read_call_bytes_per_second", text::keyed(&io, "rchar"), 1.0);
    figure.rate("write_call_bytes_per_second", text::keyed(&io, "wchar"), 1.0);
    figure.rate("read_calls_per_second", text::keyed(&io, "syscr"), 1.0);
    figure.rate("write_calls_per_second", text::keyed(&io, "syscw"), 1.0);
}

/// The fields of `/proc/PID/stat` behind the name, which may hold blanks and parentheses itself.
struct Stat<'t>(Vec<&'t str>);

impl<'t> Stat<'t> {
    fn parse(line: &'t str) -> Self {
        let fields = line.rsplit_once(')').map_or("", |(_, fields)| fields);
        Self(fields.split_whitespace().collect())
    }

    /// A field by its number in `proc_pid_stat(5)`; the first behind the name is 3.
    fn field(&self, number: usize) -> Option<u64> {
        self.0.get(number.checked_sub(3)?)?.parse().ok()
    }
}
