//! Jars that a pinned `pom.xml` names, fetched once by Maven into the cache. Does not know what they are for.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::error::Error;
use crate::site::{MARK, Site};
use crate::steps::Steps;
use crate::{site, tool};

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
        tool::output(&mut command)?;
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
