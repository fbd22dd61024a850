//! Which program the kernel refused and why, from what libbpf said: it says so in words only. The other programs
//! need not go without.

use crate::error::Error;

/// The longest reason kept.
const MOST_BYTES: usize = 300;

/// The error for an object that was not loaded: about one program where libbpf names one.
pub(super) fn error(source: libbpf_rs::Error, log: String) -> Error {
    match program(&log) {
        Some(program) => Error::Refused { program: program.to_owned(), why: why(&log, program) },
        None => Error::Load { source, log },
    }
}

/// `libbpf: prog 'sched_switch': failed to load: -EACCES`: the last such line is about the one that failed.
fn program(log: &str) -> Option<&str> {
    log.lines().rev().find_map(|line| {
        let (name, rest) = line.split_once("prog '")?.1.split_once('\'')?;
        rest.starts_with(": failed to ").then_some(name)
    })
}

/// The verifier's last words before its statistics, else libbpf's own on that program.
fn why(log: &str, program: &str) -> String {
    let mut lines = log.lines().rev().skip_while(|line| !line.starts_with("processed "));
    let verifier = lines.nth(1).map(str::trim).filter(|line| !line.is_empty());
    let libbpf =
        || log.lines().find_map(|line| line.split_once(&format!("prog '{program}': "))).map(|it| it.1);
    let mut why = verifier.or_else(libbpf).unwrap_or("it does not say why").to_owned();
    let end = (0..=MOST_BYTES.min(why.len())).rev().find(|&at| why.is_char_boundary(at)).unwrap_or(0);
    why.truncate(end);
    why
}

#[cfg(test)]
mod tests {
    use super::{program, why};

    const VERIFIER: &str = "libbpf: prog 'sched_switch': BPF program load failed: Permission denied
libbpf: prog 'sched_switch': -- BEGIN PROG LOAD LOG --
; bpf_probe_read_kernel(event->stack, stack_bytes, op->stack);
161: (85) call bpf_probe_read_kernel#113
R2 unbounded memory access, use 'var &= const' or 'if (var < const)'
processed 131 insns (limit 1000000) max_states_per_insn 0 total_states 11 peak_states 11 mark_read 5
-- END PROG LOAD LOG --
libbpf: prog 'sched_switch': failed to load: -EACCES
libbpf: failed to load object 'brokerscope'
";

    #[test]
    fn the_verifiers_last_words_are_the_reason() {
        assert_eq!(program(VERIFIER), Some("sched_switch"));
        assert!(why(VERIFIER, "sched_switch").starts_with("R2 unbounded memory access"));
    }

    #[test]
    fn without_a_verifiers_log_libbpf_says_why() {
        let log = "libbpf: prog 'a_called': failed to find kernel BTF type ID of 'a': -ESRCH
libbpf: prog 'a_called': failed to prepare load attributes: -ESRCH
libbpf: prog 'a_called': failed to load: -ESRCH
";
        assert_eq!(program(log), Some("a_called"));
        assert_eq!(why(log, "a_called"), "failed to find kernel BTF type ID of 'a': -ESRCH");
    }

    #[test]
    fn what_names_no_program_is_about_all() {
        assert_eq!(program("libbpf: Error in bpf_object__probe_loading(): Operation not permitted\n"), None);
        assert_eq!(program(""), None);
        assert_eq!(why("", "x"), "it does not say why");
    }
}
