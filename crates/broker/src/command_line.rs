//! A broker's command line: whether it is one, which configuration it names, what it overrides.
//! Does not read the configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Whether this is Kafka's main class, the one that Confluent's packages start in its place, or Kafka's
/// own moved below its new package.
fn is_main_class(argument: &[u8]) -> bool {
    matches!(argument, b"kafka.Kafka" | b"io.confluent.support.metrics.SupportedKafka")
        || argument.starts_with(b"org.apache.kafka.") && argument.ends_with(b".Kafka")
}

/// What a broker was started with (`Kafka.getPropsFromArgs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandLine {
    /// The `server.properties`, as it was named; none if there is none.
    pub(crate) properties: Option<PathBuf>,
    /// `--override key=value`, in order.
    pub(crate) overrides: Vec<(String, String)>,
}

/// Reads `/proc/PID/cmdline`: arguments, each ended by a zero byte. None if it is no broker's.
pub(crate) fn parse(cmdline: &[u8]) -> Option<CommandLine> {
    let mut arguments = cmdline.split(|&byte| byte == 0);
    let program = Path::new(OsStr::from_bytes(arguments.next()?));
    // Others name the class too: a grep for it, a shell that starts it.
    if program.file_name() != Some(OsStr::new("java")) {
        return None;
    }
    arguments.by_ref().find(|argument| is_main_class(argument))?;
    let properties = arguments.next().filter(|path| !path.is_empty());
    let properties = properties.map(|path| PathBuf::from(OsStr::from_bytes(path)));
    Some(CommandLine { properties, overrides: overrides(arguments) })
}

fn overrides<'a>(mut arguments: impl Iterator<Item = &'a [u8]>) -> Vec<(String, String)> {
    let mut overrides = Vec::new();
    while let Some(argument) = arguments.next() {
        let setting = match argument.strip_prefix(b"--override") {
            Some(b"") => arguments.next(),
            Some(joined) => joined.strip_prefix(b"="),
            None => None,
        };
        let setting = setting.map(String::from_utf8_lossy);
        if let Some((key, value)) = setting.as_deref().and_then(|setting| setting.split_once('=')) {
            overrides.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    overrides
}

#[cfg(test)]
mod tests {
    use super::parse;
    use std::path::Path;

    fn cmdline(arguments: &[&str]) -> Vec<u8> {
        arguments.iter().flat_map(|argument| argument.bytes().chain([0])).collect()
    }

    #[test]
    fn a_broker_names_its_configuration_and_overrides() {
        let parsed = parse(&cmdline(&[
            "/usr/lib/jvm/java-17/bin/java",
            "-Xmx1G",
            "-cp",
            "/opt/kafka/libs/*",
            "-Dx=kafka.Kafka",
            "kafka.Kafka",
            "config/server.properties",
            "--override",
            "broker.id=3",
            "--override=log.dirs=/a,/b",
            "--other",
            "--override",
        ]))
        .unwrap();
        assert_eq!(parsed.properties.unwrap(), Path::new("config/server.properties"));
        let overrides: Vec<_> = parsed.overrides.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(overrides, [("broker.id", "3"), ("log.dirs", "/a,/b")]);
        let confluent =
            cmdline(&["java", "io.confluent.support.metrics.SupportedKafka", "/etc/kafka/server.properties"]);
        assert!(parse(&confluent).is_some());
        assert_eq!(parse(&cmdline(&["java", "kafka.Kafka"])).unwrap().properties, None);
    }

    #[test]
    fn others_are_no_brokers() {
        for arguments in [
            &["grep", "kafka.Kafka"][..],
            &["bash", "-c", "java -cp x kafka.Kafka server.properties"],
            &["java", "-cp", "x", "org.apache.kafka.tools.ProducerPerformance"],
            &["java", "-Dmain=kafka.Kafka", "Other"],
            &["java"],
            &[""],
            &[],
        ] {
            assert_eq!(parse(&cmdline(arguments)), None, "{arguments:?}");
        }
    }
}
