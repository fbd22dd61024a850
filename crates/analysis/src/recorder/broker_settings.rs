//! The broker's settings in a recording: those that rules use or pages show, from its file and as the broker itself reported them
//! when the recording began. Other settings may be secrets and are left out. Does not query the broker.

use std::collections::{BTreeMap, BTreeSet};

use advise::Settings;
use recording::{Broker, Manifest};
use report::quantity::format_count_of;

use super::settings::SETTINGS_UNKNOWN;

/// No rule can use a longer value: `log.dirs` names a few dozen directories.
const MAX_VALUE_BYTES: usize = 16 << 10;

/// Settings that affect stalls and throughput, shown on pages.
pub const SUMMARY_SETTINGS: [&str; 12] = [
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.segment.bytes",
    "min.insync.replicas",
    "queued.max.requests",
    "socket.send.buffer.bytes",
    "socket.receive.buffer.bytes",
    "num.recovery.threads.per.data.dir",
    "process.roles",
];

/// Names of the settings that a recording keeps.
pub fn names() -> BTreeSet<&'static str> {
    Settings::USED.into_iter().chain(SUMMARY_SETTINGS).collect()
}

/// The settings to keep from a broker's file.
#[cfg(feature = "live")]
pub fn of_file(broker: &broker::Broker) -> BTreeMap<String, String> {
    filter_settings(broker.properties.clone())
}

/// The settings to keep from a broker's response. The response takes precedence over the broker's file.
#[cfg(feature = "live")]
pub fn of_answer(
    broker: &broker::Broker,
    effective: watch::admin::EffectiveConfig,
) -> BTreeMap<String, String> {
    let mut settings = broker.properties.clone();
    effective.apply(&mut settings);
    filter_settings(settings)
}

fn filter_settings(mut settings: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let names = names();
    settings.retain(|name, value| names.contains(name.as_str()) && value.len() <= MAX_VALUE_BYTES);
    settings
}

/// A recorded broker's settings for rules: as it reported them, else from its file.
pub fn in_force(broker: &Broker) -> Settings {
    let settings = broker.settings_in_force.as_ref().unwrap_or(&broker.properties);
    Settings::from(filter_settings(settings.clone()))
}

/// A note on the settings for readers of advice.
pub fn note(manifest: &Manifest) -> Option<String> {
    let broker = manifest.broker.as_ref()?;
    let Some(in_force) = &broker.settings_in_force else {
        let why = manifest.settings.get(SETTINGS_UNKNOWN)?;
        return Some(format!("settings changed while the broker ran (kafka-configs) are not known: {why}"));
    };
    let value = |of: &BTreeMap<String, String>, name: &str| of.get(name).map(|value| value.trim().to_owned());
    let differs = |name: &&str| value(in_force, name) != value(&broker.properties, name);
    let names: Vec<&str> = Settings::USED.into_iter().filter(differs).collect();
    (!names.is_empty()).then(|| {
        let settings = format_count_of(names.len() as u64, "setting");
        format!(
            "for {settings} the values in force (kafka-configs) are used, not those in the broker's file: {}",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use recording::{Broker, Manifest};

    use advise::Settings;

    use super::{SETTINGS_UNKNOWN, in_force as settings, note};

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn broker(in_force: Option<&[(&str, &str)]>) -> Broker {
        Broker {
            properties: map(&[("num.io.threads", "8"), ("num.network.threads", "6")]),
            settings_in_force: in_force.map(map),
            ..Broker::default()
        }
    }

    fn manifest(broker: Broker) -> Manifest {
        Manifest { broker: Some(broker), ..Manifest::default() }
    }

    #[test]
    fn settings_in_force_take_precedence_over_the_file() {
        let of_file = settings(&broker(None));
        assert_eq!((of_file.text("num.io.threads"), note(&manifest(broker(None)))), (Some("8"), None));
        let responding = broker(Some(&[("num.io.threads", "16")]));
        let in_force = settings(&responding);
        // A setting that the response does not name has Kafka's default, no matter what the file says.
        assert_eq!(
            (in_force.text("num.io.threads"), in_force.text("num.network.threads")),
            (Some("16"), None)
        );
        let text = note(&manifest(responding)).unwrap();
        assert!(
            text.starts_with("for 2 settings the values in force")
                && text.ends_with("num.io.threads, num.network.threads"),
            "{text}"
        );
        let alike = broker(Some(&[("num.io.threads", " 8"), ("num.network.threads", "6")]));
        assert_eq!(note(&manifest(alike)), None);
    }

    #[test]
    fn ignores_unknown_and_overlong_settings_of_a_hostile_manifest() {
        let long = "/a,".repeat(20_000);
        let hostile = broker(Some(&[("\u{1b}[2J", "z"), ("log.dirs", long.as_str())]));
        let taken = settings(&hostile);
        assert_eq!(taken, Settings::default());
        assert!(!note(&manifest(hostile)).unwrap().contains('\u{1b}'));
    }

    #[test]
    fn notes_why_settings_in_force_are_unknown() {
        let mut refused = manifest(broker(None));
        refused.settings.insert(SETTINGS_UNKNOWN.to_owned(), "it refused".to_owned());
        assert!(note(&refused).unwrap().ends_with("not known: it refused"));
    }

    #[cfg(feature = "live")]
    #[test]
    fn records_only_used_settings_and_no_secrets() {
        let effective = watch::admin::EffectiveConfig {
            from_file: map(&[("log.dirs", "/data"), ("sasl.jaas.config", "secret")]),
            dynamic: map(&[("num.io.threads", "16"), ("max.connections", "7")]),
            defaults: vec!["num.network.threads".to_owned()],
        };
        let secrets = [
            "ssl.key.password",
            "delegation.token.master.key",
            "confluent.license",
            "listener.name.x.oauth.access.token",
            "my.plugin.apikey",
        ];
        let public = [("num.io.threads", "8"), ("num.network.threads", "6"), ("process.roles", "broker")];
        let of = broker::Broker {
            pid: 1,
            node_id: Some(1),
            log_dirs: Vec::new(),
            listeners: Vec::new(),
            properties: map(&[&public[..], &secrets.map(|name| (name, "secret"))].concat()),
            properties_file: "server.properties".into(),
        };
        assert_eq!(super::of_file(&of), map(&public));
        let in_force = [("log.dirs", "/data"), ("num.io.threads", "16"), ("process.roles", "broker")];
        assert_eq!(super::of_answer(&of, effective), map(&in_force));
    }

    #[test]
    fn filter_retains_every_setting_that_rules_use() {
        let every = map(&Settings::USED.map(|name| (name, "1")));
        let of = Broker { properties: every.clone(), ..Broker::default() };
        assert_eq!(
            (super::filter_settings(every.clone()), settings(&of)),
            (every.clone(), Settings::from(every))
        );
        assert!(super::SUMMARY_SETTINGS.iter().all(|name| super::names().contains(name)));
    }
}
