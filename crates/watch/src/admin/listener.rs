//! Chooses the listener to connect to, and the name that its certificate must have.
//! Does not connect.

use std::net::IpAddr;

use broker::{Broker, Listener};

use super::{ClientProperties, Error};

/// Chooses a client listener with the client's security protocol.
/// A listener's protocol follows from `listener.security.protocol.map`. Prefers a listener whose port
/// `bootstrap.servers` names.
pub(super) fn choose<'a>(broker: &'a Broker, client: &ClientProperties) -> Result<&'a Listener, Error> {
    let map = setting(broker, "listener.security.protocol.map");
    let fits = |listener: &&Listener| {
        let mut pairs = map.split(',').filter_map(|pair| pair.trim().split_once(':'));
        let found = pairs.find(|(of, _)| of.trim().eq_ignore_ascii_case(&listener.name));
        let protocol = found.map_or(listener.name.as_str(), |(_, to)| to.trim());
        protocol.eq_ignore_ascii_case(client.protocol.name())
    };
    let clients = || broker.listeners.iter().filter(|listener| !listener.controller && listener.port != 0);
    let is_named = |listener: &&Listener| client.servers.iter().any(|(_, port)| *port == listener.port);
    let mut fitting = clients().filter(fits);
    fitting.clone().find(is_named).or_else(|| fitting.next()).ok_or_else(|| Error::NoListener {
        protocol: client.protocol.name(),
        listeners: clients().map(ToString::to_string).collect::<Vec<_>>().join(" "),
    })
}

/// The host name that clients connect to, as in the certificate: from `advertised.listeners`, else the only bootstrap server with
/// the listener's port, else the address it listens on, else this host's name.
pub(super) fn server_name(broker: &Broker, listener: &Listener, client: &ClientProperties) -> String {
    let advertised = setting(broker, "advertised.listeners").split(',').find_map(|text| {
        let (name, address) = text.trim().split_once("://")?;
        let (host, _) = address.rsplit_once(':')?;
        name.eq_ignore_ascii_case(&listener.name).then(|| host.trim_matches(['[', ']']))
    });
    let mut servers = client.servers.iter().filter(|(_, port)| *port == listener.port);
    let only = servers.next().filter(|_| servers.next().is_none()).map(|(host, _)| host.as_str());
    let bound = Some(listener.host.as_str()).filter(|host| !is_unspecified(host));
    let known = advertised.filter(|host| !host.is_empty()).or(only).or(bound).map(str::to_owned);
    known.unwrap_or_else(|| rustix::system::uname().nodename().to_string_lossy().into_owned())
}

fn setting<'a>(broker: &'a Broker, key: &str) -> &'a str {
    broker.properties.get(key).map_or("", String::as_str)
}

/// Whether a listener with this host listens on all interfaces.
pub(super) fn is_unspecified(host: &str) -> bool {
    host.is_empty() || host.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified())
}

#[cfg(test)]
mod tests {
    use broker::{Broker, Listener};

    use super::super::{ClientProperties, Error, SecurityProtocol};
    use super::{choose, server_name};

    fn broker(listeners: &[(&str, &str, u16)], settings: &[(&str, &str)]) -> Broker {
        let of = |&(name, host, port): &(&str, &str, u16)| Listener {
            name: name.to_owned(),
            host: host.to_owned(),
            port,
            controller: name == "CONTROLLER",
            tls: false,
        };
        let properties =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        Broker {
            pid: 1,
            node_id: Some(1),
            log_dirs: Vec::new(),
            listeners: listeners.iter().map(of).collect(),
            properties,
            properties_file: "server.properties".into(),
        }
    }

    fn client(protocol: SecurityProtocol, servers: &[(&str, u16)]) -> ClientProperties {
        let servers = servers.iter().map(|(host, port)| ((*host).to_owned(), *port)).collect();
        ClientProperties { protocol, servers, ..ClientProperties::default() }
    }

    const ALL: [(&str, &str, u16); 5] =
        [("CONTROLLER", "", 1), ("PLAINTEXT", "", 2), ("SSL", "", 0), ("CLIENTS", "", 4), ("SSL", "::", 5)];
    const MAP: (&str, &str) = ("listener.security.protocol.map", "CONTROLLER:SSL, clients:ssl");

    #[test]
    fn chooses_a_listener_with_the_clients_protocol() {
        let broker = broker(&ALL, &[MAP]);
        let port = |protocol, servers: &[(&str, u16)]| {
            choose(&broker, &client(protocol, servers)).map(|found| found.port)
        };
        assert_eq!(port(SecurityProtocol::Plaintext, &[]).unwrap(), 2);
        assert_eq!(
            port(SecurityProtocol::Ssl, &[]).unwrap(),
            4,
            "neither a controller's nor one without a port"
        );
        assert_eq!(port(SecurityProtocol::Ssl, &[("other", 5)]).unwrap(), 5, "that of bootstrap.servers");
        assert_eq!(port(SecurityProtocol::Ssl, &[("other", 2)]).unwrap(), 4, "which may not fit");
        let none = port(SecurityProtocol::SaslSsl, &[("other", 4)]).unwrap_err();
        assert!(matches!(none, Error::NoListener { protocol: "SASL_SSL", .. }), "{none}");
    }

    #[test]
    fn server_name_is_the_one_that_clients_connect_to() {
        let name = |advertised: &str, host: &str, servers: &[(&str, u16)]| {
            let broker = broker(&[("SSL", host, 9)], &[("advertised.listeners", advertised)]);
            let client = client(SecurityProtocol::Ssl, servers);
            server_name(&broker, choose(&broker, &client).unwrap(), &client)
        };
        let servers = [("b", 9), ("c", 8)];
        assert_eq!(name("PLAINTEXT://x:1, ssl://kafka-1:99", "a", &servers), "kafka-1");
        assert_eq!(name("SSL://[::1]:9", "a", &servers), "::1");
        assert_eq!(name("SSL://:9", "a", &servers), "b");
        assert_eq!(name("", "a", &[("b", 9), ("c", 9)]), "a", "which of two is not known");
        assert_eq!(name("", "0.0.0.0", &[]), rustix::system::uname().nodename().to_string_lossy());
    }
}
