//! The broker's settings from its file, with Kafka's defaults for the rest. Does not read the file, and does not know what was
//! changed while the broker ran.

use std::collections::BTreeMap;

use crate::NoAdvice;
use crate::rule::not_known;

/// Settings by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings(BTreeMap<String, String>);

/// A number and its text: as in the file, or the default, marked as such.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Number {
    pub(crate) value: i64,
    pub(crate) text: String,
}

/// Keeps only the settings that a recording has. Otherwise rules would know more about a running broker.
impl From<BTreeMap<String, String>> for Settings {
    fn from(mut settings: BTreeMap<String, String>) -> Self {
        settings.retain(|name, _| Self::USED.contains(&name.as_str()));
        Self(settings)
    }
}

impl Settings {
    /// The names that rules use: a recording keeps these, and those that pages show.
    pub const USED: [&'static str; 20] = [
        "compression.type",
        "confluent.tier.partition.state.cleanup.delay.ms",
        "confluent.tier.partition.state.cleanup.enable",
        "confluent.tier.partition.state.cleanup.interval.ms",
        "default.replication.factor",
        "log.cleaner.io.max.bytes.per.second",
        "log.dirs",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.message.timestamp.type",
        "log.segment.bytes",
        "metadata.log.dir",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.replica.fetchers",
        "replica.lag.time.max.ms",
        "socket.listen.backlog.size",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    ];

    /// The value in the file; `None` if the file does not name the setting.
    pub fn text(&self, name: &str) -> Option<&str> {
        debug_assert!(Self::USED.contains(&name), "recordings do not keep {name}");
        self.0.get(name).map(|value| value.trim())
    }

    /// Changes one setting.
    #[cfg(test)]
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.0.insert(name.to_owned(), value.to_owned());
        self.0.into()
    }

    /// A number; if the file does not name it, the default of Kafka's documentation.
    pub(crate) fn number(&self, name: &'static str, default: i64) -> Result<Number, NoAdvice> {
        let Some(text) = self.text(name) else {
            return Ok(Number { value: default, text: format!("{default} (the default)") });
        };
        let Ok(value) = text.parse() else {
            let text = text.chars().take(40).collect::<String>();
            return not_known(name, format!("server.properties has {text:?}, which is not a number"));
        };
        Ok(Number { value, text: text.to_owned() })
    }

    /// Whether it is `true`; the default if the file does not name it.
    pub(crate) fn is_on(&self, name: &str, default: bool) -> bool {
        self.text(name).map_or(default, |text| text.eq_ignore_ascii_case("true"))
    }
}

#[cfg(test)]
mod tests {
    use super::Settings;
    use crate::NoAdvice;

    #[test]
    fn setting_is_from_the_file_or_the_default_but_never_a_guess() {
        let of = |value: &str| {
            Settings::from(
                [("num.io.threads".to_owned(), value.to_owned())]
                    .into_iter()
                    .collect::<std::collections::BTreeMap<_, _>>(),
            )
        };
        let number = |settings: &Settings| settings.number("num.io.threads", 8);
        assert_eq!(number(&of(" 16 ")).unwrap().value, 16);
        assert_eq!(number(&Settings::default()).unwrap().text, "8 (the default)");
        assert!(matches!(number(&of("many")), Err(NoAdvice::NotKnown { input: "num.io.threads", .. })));
        assert!(!of("1").is_on("num.io.threads", true) && Settings::default().is_on("num.io.threads", true));
    }
}
