//! How a broker's environment differs from this process's: other namespaces, as in a container, and files under another
//! root; and what it does that cannot be observed. Enters no namespace.

use std::fs;

use broker::Broker;
use probes::facts::Capabilities;
use report::doctor::{Fact, Remedy};

use super::{fact, remedy};

/// Facts about a broker's namespaces; none if it shares this process's.
pub(super) fn facts(broker: &Broker) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(inside) = own_pid(broker.pid) {
        facts.push(fact("pid namespace", format!("a child of this one: its pid there is {inside}")));
    }
    if !watch::network::shares_network(broker.pid) {
        facts.push(fact("network", "another namespace: its packets are captured there"));
    }
    if broker.log_dirs.iter().any(|dir| dir.starts_with(format!("/proc/{}/root", broker.pid))) {
        facts.push(fact("files", "another mount namespace: its files are read below its root"));
    }
    facts
}

/// Remedies for what prevents watching the broker or hides part of its activity.
pub(super) fn remedies(broker: &Broker) -> Vec<Remedy> {
    network(broker, Capabilities::of_this_process()).into_iter().chain(io_uring(broker)).collect()
}

fn io_uring(broker: &Broker) -> Option<Remedy> {
    let problem = watch::io_uring::warning(broker.pid)?;
    Some(remedy(
        format!("broker {}: {problem}", broker.pid),
        "Kafka itself does not use it: look for an agent or a library that does; or sysctl \
         kernel.io_uring_disabled=2, and start the broker again",
    ))
}

fn network(broker: &Broker, held: Capabilities) -> Option<Remedy> {
    let barred = !watch::network::shares_network(broker.pid) && !held.has(Capabilities::SYS_ADMIN);
    let pid = broker.pid;
    barred.then(|| {
        remedy(
            format!(
                "requests of broker {pid} cannot be captured: it is in another network namespace, and entering that \
                 takes CAP_SYS_ADMIN"
            ),
            format!(
                "run as root (brokerscope drops that capability once it has attached); nsenter -t {pid} -n \
                 brokerscope …; Kubernetes: securityContext.capabilities.add: [SYS_ADMIN], or brokerscope as a \
                 container of the broker's pod"
            ),
        )
    })
}

/// The process's id in its innermost pid namespace, if that is below ours. From `NSpid:` (`fs/proc/array.c`).
fn own_pid(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    innermost(&status)
}

fn innermost(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().skip(1).last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::innermost;

    #[test]
    fn innermost_pid_exists_only_in_a_child_namespace() {
        assert_eq!(innermost("NSpid:\t4711\t7\t1\n"), Some(1));
        assert_eq!(innermost("NSpid:\t4711\n"), None);
        assert_eq!(innermost(""), None);
    }
}
