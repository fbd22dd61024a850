//! A fake `/proc` and `/sys` for tests, removed on drop.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use crate::host::text::Kernel;

pub(in crate::host) struct Fixture(PathBuf);

impl Fixture {
    pub(in crate::host) fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("brokerscope-host-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    pub(in crate::host) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(in crate::host) fn file(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(in crate::host) fn link(&self, name: &str, target: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    pub(in crate::host) fn kernel(&self) -> Kernel {
        Kernel::at(self.path("proc"), self.path("sys"))
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
