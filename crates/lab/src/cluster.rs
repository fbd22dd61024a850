//! Three brokers, each in its own network namespace: the first, which also is the controller, leads every partition
//! that names it first; the others follow.

use crate::broker::BrokerOptions;
use crate::error::Error;
use crate::net::Network;
use crate::session::Interrupt;
use crate::site::Site;

/// How many there are.
pub(crate) const SIZE: u8 = 3;
const LEADER: u8 = 1;
/// The same in every namespace.
const PORT: u16 = 9092;
const CONTROLLER_PORT: u16 = 9093;
/// Three on one machine.
const HEAP: [&str; 2] = ["-Xms256m", "-Xmx256m"];

/// Makes the broker of these options the first of a cluster.
pub(crate) fn make_leader(options: &mut BrokerOptions, network: &Network) -> Result<(), Error> {
    place(options, network, LEADER)
}

/// Another broker of it, by number from 2; the leader must answer before it starts.
pub(crate) fn follower(
    site: &Site,
    network: &Network,
    number: u8,
    interrupt: &Interrupt,
) -> Result<BrokerOptions, Error> {
    let mut options = BrokerOptions::of_site(site, &format!("broker-{number}"), interrupt)?;
    place(&mut options, network, number)?;
    Ok(options)
}

fn place(options: &mut BrokerOptions, network: &Network, number: u8) -> Result<(), Error> {
    options.join(network, number)?;
    options.port = Some(PORT);
    options.jvm_arguments.extend(HEAP.map(str::to_owned));
    options.properties.extend(properties(number));
    Ok(())
}

/// They win over those of a single node.
fn properties(number: u8) -> Vec<(String, String)> {
    let (own, controller) = (Network::address(number), Network::address(LEADER));
    let (roles, listeners) = if number == LEADER {
        ("broker,controller", format!("PLAINTEXT://{own}:{PORT},CONTROLLER://{own}:{CONTROLLER_PORT}"))
    } else {
        ("broker", format!("PLAINTEXT://{own}:{PORT}"))
    };
    let own = [
        ("process.roles", roles.to_owned()),
        ("node.id", number.to_string()),
        ("controller.quorum.voters", format!("{LEADER}@{controller}:{CONTROLLER_PORT}")),
        ("listeners", listeners),
    ];
    own.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_the_controller_of_all() {
        let of = |number, key: &str| {
            let found = properties(number).into_iter().find(|(name, _)| name == key);
            found.map(|(_, value)| value).unwrap()
        };
        assert_eq!(of(1, "process.roles"), "broker,controller");
        assert_eq!(of(3, "process.roles"), "broker");
        assert_eq!(of(1, "controller.quorum.voters"), of(3, "controller.quorum.voters"));
        assert_eq!(of(2, "listeners"), "PLAINTEXT://198.18.0.2:9092");
    }
}
