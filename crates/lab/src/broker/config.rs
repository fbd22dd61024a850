//! A broker's configuration files: server.properties and its logging configuration.

use std::fmt::Write;
use std::path::Path;

use super::{BrokerOptions, key_properties};

/// The text of server.properties; a caller's own properties come last and win, as in java.util.Properties.
pub(super) fn text(
    options: &BrokerOptions,
    log_dir: &Path,
    (port, controller_port, tls_port): (u16, u16, Option<u16>),
) -> String {
    let (address, id) = (options.address, options.node_id);
    let tls = tls_port.map(|port| format!(",SSL://{address}:{port}")).unwrap_or_default();
    let listener = format!("PLAINTEXT://{address}:{port}{tls}");
    let own = [
        ("process.roles", "broker,controller"),
        ("node.id", &id.to_string()),
        ("controller.quorum.voters", &format!("{id}@{address}:{controller_port}")),
        ("controller.listener.names", "CONTROLLER"),
        ("listeners", &format!("{listener},CONTROLLER://{address}:{controller_port}")),
        ("advertised.listeners", &listener),
        ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL"),
        ("inter.broker.listener.name", "PLAINTEXT"),
        ("log.dirs", &log_dir.to_string_lossy()),
        ("offsets.topic.replication.factor", "1"),
        ("offsets.topic.num.partitions", "4"),
        ("transaction.state.log.replication.factor", "1"),
        ("transaction.state.log.min.isr", "1"),
        ("group.initial.rebalance.delay.ms", "0"),
    ];
    let metadata = options.metadata_dir.as_ref().map(|path| ("metadata.log.dir", path.to_string_lossy()));
    let metadata = metadata.as_ref().map(|(key, path)| (*key, &**path));
    let keys = options.keystore.as_deref().map(key_properties).unwrap_or_default();
    let further = keys.iter().chain(&options.properties).map(|(key, value)| (key.as_str(), value.as_str()));
    own.into_iter().chain(metadata).chain(further).fold(String::new(), |mut text, (key, value)| {
        let _ = writeln!(text, "{}={}", escape(key, true), escape(value, false));
        text
    })
}

/// Escapes text for java.util.Properties.load: backslashes, line ends and leading spaces; in keys also what would end
/// them.
fn escape(text: &str, key: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, character) in text.chars().enumerate() {
        match character {
            '\\' => escaped.push_str("\\\\"),
            '\n' => escaped.push_str("\\n"),
            '\r' => escaped.push_str("\\r"),
            ' ' if at == 0 || key => escaped.push_str("\\ "),
            '=' | ':' | '#' | '!' if key => {
                escaped.push('\\');
                escaped.push(character);
            }
            other => escaped.push(other),
        }
    }
    escaped
}

/// The logging configuration; with `request_log`, requests go there (additivity off).
pub(super) fn xml(request_log: Option<&Path>) -> String {
    let (appender, logger) = request_log.map_or_else(Default::default, |path| {
        let file = escape_xml(&path.to_string_lossy());
        (
            format!(
                "    <File name=\"requests\" fileName=\"{file}\">\n      \
                 <PatternLayout pattern=\"[%d{{ISO8601}}] %p %m (%c)%n\"/>\n    </File>\n"
            ),
            "    <Logger name=\"kafka.request.logger\" level=\"DEBUG\" additivity=\"false\">\n      \
             <AppenderRef ref=\"requests\"/>\n    </Logger>\n"
                .to_owned(),
        )
    });
    let mut text =
        String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Configuration status=\"WARN\">\n");
    let _ = write!(
        text,
        "  <Appenders>\n    <Console name=\"out\">\n      \
         <PatternLayout pattern=\"[%d{{ISO8601}}] %p %m (%c)%n\"/>\n    </Console>\n{appender}  </Appenders>\n  \
         <Loggers>\n    <Root level=\"INFO\">\n      <AppenderRef ref=\"out\"/>\n    </Root>\n{logger}  \
         </Loggers>\n</Configuration>\n"
    );
    text
}

/// Escapes an XML attribute, and `$` for log4j2, which would look up `${…}`.
fn escape_xml(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;").replace('$', "$$")
}

#[cfg(test)]
mod properties_tests {
    use super::*;

    #[test]
    fn listens_on_loopback_and_appends_own_properties() {
        let mut options = BrokerOptions::new("/x");
        options.properties.push(("num.io.threads".to_owned(), "3".to_owned()));
        options.metadata_dir = Some("/meta".into());
        options.node_id = 7;
        let text = text(&options, Path::new("/data"), (1234, 1235, None));
        for line in [
            "listeners=PLAINTEXT://127.0.0.1:1234,CONTROLLER://127.0.0.1:1235",
            "node.id=7",
            "controller.quorum.voters=7@127.0.0.1:1235",
            "log.dirs=/data",
            "metadata.log.dir=/meta",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(text.ends_with("num.io.threads=3\n"));
    }

    #[test]
    fn keystore_adds_a_tls_listener() {
        let mut options = BrokerOptions::new("/x");
        options.keystore = Some("/key".into());
        let text = text(&options, Path::new("/data"), (1234, 1235, Some(1236)));
        for line in [
            "listeners=PLAINTEXT://127.0.0.1:1234,SSL://127.0.0.1:1236,CONTROLLER://127.0.0.1:1235",
            "advertised.listeners=PLAINTEXT://127.0.0.1:1234,SSL://127.0.0.1:1236",
            "ssl.keystore.location=/key",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn escapes_newlines_and_separators() {
        assert_eq!(escape("a\nlog.dirs=/x\\", false), "a\\nlog.dirs=/x\\\\");
        assert_eq!(escape(" a b", false), "\\ a b");
        assert_eq!(escape("a=b c", true), "a\\=b\\ c");
    }
}

#[cfg(test)]
mod logging_tests {
    use super::*;

    #[test]
    fn writes_a_request_logger_only_for_a_request_log() {
        assert!(!xml(None).contains("kafka.request.logger"));
        let with = xml(Some(Path::new("/a&b/request.log")));
        assert!(with.contains("fileName=\"/a&amp;b/request.log\""));
        assert!(with.contains("<Logger name=\"kafka.request.logger\" level=\"DEBUG\" additivity=\"false\">"));
    }
}
