//! A wait as time by stack, for the flame graph of who waited where. Does not draw it.

use diagnose::LockRow;
use model::{CpuState, StackTime};

use super::lock_name;

/// The stack of a wait, threads of one role together, and on top the lock that was waited for. An inferred wait has no stack: only the lock.
pub fn stack_time(row: &LockRow) -> StackTime {
    let lock = lock_name(row).replace(';', ",");
    let lock = match &row.partition {
        Some(partition) => format!("{lock} of {}", partition.to_string().replace(';', ",")),
        None => lock,
    };
    let frames = [&*row.stack, &lock].into_iter().filter(|frames| !frames.is_empty()).collect::<Vec<_>>();
    StackTime {
        state: CpuState::Off,
        thread: role(&row.thread).into(),
        tid: None,
        stack: frames.join(";").into(),
        time: row.latency(),
        count: 1,
    }
}

/// A thread's name without the number that tells it from its like (`data-plane-kafka-request-handler-24`).
fn role(name: &str) -> &str {
    let unnumbered = name.trim_end_matches(|c: char| c.is_ascii_digit());
    unnumbered
        .strip_suffix('-')
        .filter(|role| !role.is_empty() && unnumbered.len() < name.len())
        .unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::role;

    #[test]
    fn a_role_is_a_name_without_its_number() {
        for (name, shown) in [
            ("data-plane-kafka-request-handler-24", "data-plane-kafka-request-handler"),
            ("kafka-log-cleaner-thread-0", "kafka-log-cleaner-thread"),
            ("main", "main"),
            ("-7", "-7"),
            ("jdk17", "jdk17"),
        ] {
            assert_eq!(role(name), shown);
        }
    }
}
