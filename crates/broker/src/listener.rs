//! A broker's listeners, from its configuration. Does not look at sockets.

use std::collections::BTreeMap;
use std::fmt;

/// One listener: `PLAINTEXT://0.0.0.0:9092`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name: a security protocol's unless the configuration maps it.
    pub name: String,
    /// The address or host name it binds; empty for the default interface.
    pub host: String,
    /// Its port; 0 where the system chose one.
    pub port: u16,
    /// Whether it serves KRaft controllers, not clients.
    pub controller: bool,
}

/// As in the configuration.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

/// The listeners that a configuration means; Kafka's default is `PLAINTEXT://:9092`.
pub(crate) fn of(properties: &BTreeMap<String, String>) -> Vec<Listener> {
    let setting = |key: &str| properties.get(key).map_or("", |value| value.trim());
    let controllers: Vec<&str> = setting("controller.listener.names").split(',').map(str::trim).collect();
    let listed =
        Some(setting("listeners")).filter(|listed| !listed.is_empty()).unwrap_or("PLAINTEXT://:9092");
    listed.split(',').filter_map(|text| parse(text.trim(), &controllers)).collect()
}

/// `NAME://host:port`, the host perhaps in brackets (`EndPoint` in Kafka's `SocketServerConfigs`).
fn parse(text: &str, controllers: &[&str]) -> Option<Listener> {
    let (name, address) = text.split_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Some(Listener {
        name: name.to_owned(),
        host: host.to_owned(),
        port: port.parse().ok()?,
        controller: controllers.iter().any(|controller| controller.eq_ignore_ascii_case(name)),
    })
}

#[cfg(test)]
mod tests {
    use super::of;
    use std::collections::BTreeMap;

    fn listeners(settings: &[(&str, &str)]) -> Vec<(String, u16, bool)> {
        let properties: BTreeMap<_, _> =
            settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        of(&properties).into_iter().map(|l| (l.to_string(), l.port, l.controller)).collect()
    }

    #[test]
    fn listeners_are_read_as_kafka_writes_them() {
        assert_eq!(listeners(&[]), [("PLAINTEXT://:9092".to_owned(), 9092, false)]);
        assert_eq!(
            listeners(&[
                (
                    "listeners",
                    "PLAINTEXT://127.0.0.1:29092, CONTROLLER://[::1]:29093,SSL://host:9094,broken,X://y:99999"
                ),
                ("controller.listener.names", "CONTROLLER"),
            ]),
            [
                ("PLAINTEXT://127.0.0.1:29092".to_owned(), 29092, false),
                ("CONTROLLER://[::1]:29093".to_owned(), 29093, true),
                ("SSL://host:9094".to_owned(), 9094, false),
            ]
        );
    }
}
