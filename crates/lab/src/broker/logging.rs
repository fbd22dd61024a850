//! The broker's log4j2 configuration: everything from INFO to stdout, and Kafka's request log to a file.
//!
//! The logger `kafka.request.logger` at DEBUG writes one line a request (RequestChannel.scala,
//! RequestConvertToJson): the truth that captures are compared with.

use std::fmt::Write;
use std::path::Path;

/// The configuration; with `request_log`, requests go there (additivity off).
pub(super) fn xml(request_log: Option<&Path>) -> String {
    let (appender, logger) = request_log.map_or_else(Default::default, |path| {
        let file = escape(&path.to_string_lossy());
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

/// For an XML attribute; `$` is log4j2's own (it would look up `${…}`).
fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;").replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_logged_only_when_wanted() {
        assert!(!xml(None).contains("kafka.request.logger"));
        let with = xml(Some(Path::new("/a&b/request.log")));
        assert!(with.contains("fileName=\"/a&amp;b/request.log\""));
        assert!(with.contains("<Logger name=\"kafka.request.logger\" level=\"DEBUG\" additivity=\"false\">"));
    }
}
