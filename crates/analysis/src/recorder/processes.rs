//! The processes of a broker during a recording: stored in the manifest, reported by readers.

use model::Nanos;
use recording::{Broker, BrokerProcess};

/// Adds a change to a broker's manifest entry.
#[cfg(feature = "live")]
pub fn note(broker: &mut Broker, change: &model::BrokerChange) {
    let model::BrokerChange { at, pid, state } = *change;
    match state {
        model::BrokerState::Watched => {
            broker.processes.push(BrokerProcess { pid, watched_ns: at.0, gone_ns: None });
        }
        model::BrokerState::Gone => {
            let ended = broker.processes.iter_mut().rfind(|process| process.pid == pid);
            if let Some(process) = ended {
                process.gone_ns = Some(at.0);
            }
        }
        model::BrokerState::Escalated | model::BrokerState::AlwaysOn => {}
    }
}

/// Notes for readers: one line for each process that ended.
pub(super) fn notes(broker: Option<&Broker>, show: &dyn Fn(Nanos) -> String) -> Vec<String> {
    let processes = broker.map(|broker| &broker.processes[..]).unwrap_or_default();
    let following = processes.iter().skip(1).map(Some).chain([None]);
    processes.iter().zip(following).filter_map(|(process, next)| note_of(process, next, show)).collect()
}

fn note_of(
    process: &BrokerProcess,
    next: Option<&BrokerProcess>,
    show: &dyn Fn(Nanos) -> String,
) -> Option<String> {
    let gone_at = show(Nanos(process.gone_ns?));
    let pid = process.pid;
    Some(match next {
        Some(next) => format!(
            "the broker was restarted: process {pid} was gone at {gone_at}, process {} was watched from {} on; what \
             the new one did before that was not seen",
            next.pid,
            show(Nanos(next.watched_ns))
        ),
        None => format!("the broker's process {pid} was gone at {gone_at} and did not come back"),
    })
}

#[cfg(test)]
mod tests {
    use super::notes;
    use model::Nanos;
    use recording::{Broker, BrokerProcess};

    fn process(pid: u32, watched_ns: i64, gone_ns: Option<i64>) -> BrokerProcess {
        BrokerProcess { pid, watched_ns, gone_ns }
    }

    #[test]
    fn notes_restarts_and_exits_but_not_a_running_broker() {
        let show = |time: Nanos| time.0.to_string();
        let describe = |processes| notes(Some(&Broker { processes, ..Broker::default() }), &show);
        assert!(notes(None, &show).is_empty());
        assert!(describe(vec![process(1, 10, None)]).is_empty());
        let restarted = describe(vec![process(1, 10, Some(20)), process(2, 30, None)]);
        assert_eq!(restarted.len(), 1);
        for part in ["process 1 was gone at 20", "process 2 was watched from 30"] {
            assert!(restarted[0].contains(part), "{restarted:?}");
        }
        let ended = describe(vec![process(1, 10, Some(20)), process(2, 30, Some(40))]);
        assert_eq!(ended[1], "the broker's process 2 was gone at 40 and did not come back");
    }
}
