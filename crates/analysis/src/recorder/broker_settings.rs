//! The broker's settings in force as a recording keeps them: those that rules ask for, where the broker itself told them when the
//! recording began. Does not ask.

use std::collections::BTreeMap;

use advise::Settings;
use recording::{Broker, Manifest};
use report::quantity::format_count_of;

use super::settings::SETTINGS_UNKNOWN;

/// A value that is longer is none that a rule can use: `log.dirs` names some dozens.
const MAX_VALUE_BYTES: usize = 16 << 10;

/// What is kept of an answer, beside what its file says.
#[cfg(feature = "live")]
pub fn kept(broker: &broker::Broker, answered: watch::admin::EffectiveConfig) -> BTreeMap<String, String> {
    let mut settings = broker.properties.clone();
    answered.apply(&mut settings);
    settings.retain(|name, value| is_kept(name, value));
    settings
}

fn is_kept(name: &str, value: &str) -> bool {
    Settings::USED.contains(&name) && value.len() <= MAX_VALUE_BYTES
}

/// A recorded broker's settings: as it said itself, and as its file says what it was not asked for.
pub fn in_force(broker: &Broker) -> Settings {
    let mut settings = broker.properties.clone();
    if let Some(in_force) = &broker.settings_in_force {
        settings.retain(|name, _| !Settings::USED.contains(&name.as_str()));
        let kept = in_force.iter().filter(|(name, value)| is_kept(name, value));
        settings.extend(kept.map(|(name, value)| (name.clone(), value.clone())));
    }
    Settings::from(settings)
}

/// What a reader of advice should know of them.
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

    use super::{SETTINGS_UNKNOWN, in_force as settings, note};

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn broker(in_force: Option<&[(&str, &str)]>) -> Broker {
        Broker {
            properties: map(&[("num.io.threads", "8"), ("num.network.threads", "6"), ("x", "y")]),
            settings_in_force: in_force.map(map),
            ..Broker::default()
        }
    }

    fn manifest(broker: Broker) -> Manifest {
        Manifest { broker: Some(broker), ..Manifest::default() }
    }

    #[test]
    fn what_a_broker_said_counts_more_than_its_file() {
        let of_file = settings(&broker(None));
        assert_eq!((of_file.text("num.io.threads"), note(&manifest(broker(None)))), (Some("8"), None));
        let told = broker(Some(&[("num.io.threads", "16")]));
        let in_force = settings(&told);
        // What it did not name has Kafka's default, no matter what its file says.
        assert_eq!(
            (in_force.text("num.io.threads"), in_force.text("num.network.threads")),
            (Some("16"), None)
        );
        assert_eq!(in_force.text("x"), Some("y"));
        let said = note(&manifest(told)).unwrap();
        assert!(
            said.starts_with("for 2 settings the values in force")
                && said.ends_with("num.io.threads, num.network.threads"),
            "{said}"
        );
        let alike = broker(Some(&[("num.io.threads", " 8"), ("num.network.threads", "6")]));
        assert_eq!(note(&manifest(alike)), None);
    }

    #[test]
    fn of_a_hostile_manifest_nothing_is_taken_that_rules_do_not_ask_for() {
        let long = "/a,".repeat(20_000);
        let hostile = broker(Some(&[("\u{1b}[2J", "z"), ("log.dirs", long.as_str())]));
        let taken = settings(&hostile);
        assert_eq!((taken.text("\u{1b}[2J"), taken.text("log.dirs")), (None, None));
        assert!(!note(&manifest(hostile)).unwrap().contains('\u{1b}'));
    }

    #[test]
    fn a_broker_that_did_not_say_is_told_of() {
        let mut refused = manifest(broker(None));
        refused.settings.insert(SETTINGS_UNKNOWN.to_owned(), "it refused".to_owned());
        assert!(note(&refused).unwrap().ends_with("not known: it refused"));
    }

    #[cfg(feature = "live")]
    #[test]
    fn only_what_rules_ask_for_is_kept_and_no_secret() {
        let told = watch::admin::EffectiveConfig {
            from_file: map(&[("log.dirs", "/data"), ("sasl.jaas.config", "secret")]),
            dynamic: map(&[("num.io.threads", "16"), ("max.connections", "7")]),
            defaults: vec!["num.network.threads".to_owned()],
        };
        let of = broker::Broker {
            pid: 1,
            node_id: Some(1),
            log_dirs: Vec::new(),
            listeners: Vec::new(),
            properties: map(&[
                ("num.io.threads", "8"),
                ("num.network.threads", "6"),
                ("ssl.key.password", "p"),
            ]),
            properties_file: "server.properties".into(),
        };
        assert_eq!(super::kept(&of, told), map(&[("log.dirs", "/data"), ("num.io.threads", "16")]));
    }
}
