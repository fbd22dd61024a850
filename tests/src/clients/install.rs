//! Installs what the clients need, once, into a directory named after its contents. Does not run them.
//!
//! `BROKERSCOPE_CLIENTS_CACHE` names the parent directory; by default it is `brokerscope` in the user's cache.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

fn cache(name: &str, pinned: &Path) -> PathBuf {
    let pinned = fs::read(pinned).unwrap();
    let base = match std::env::var_os("BROKERSCOPE_CLIENTS_CACHE") {
        Some(directory) => PathBuf::from(directory),
        None => user_cache().join("brokerscope"),
    };
    base.join(format!("clients-{name}-{:016x}", fnv1a(&pinned)))
}

fn user_cache() -> PathBuf {
    let xdg = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    xdg.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").expect("HOME is set")).join(".cache"))
}

/// FNV-1a hash, so that each list of versions has its own directory.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Runs `install` in an empty directory unless an earlier run succeeded there.
fn once(directory: &Path, install: impl FnOnce(&Path)) {
    let ready = directory.join("installed");
    if ready.exists() {
        return;
    }
    if directory.exists() {
        fs::remove_dir_all(directory).unwrap();
    }
    fs::create_dir_all(directory).unwrap();
    install(directory);
    File::create(ready).unwrap();
}

/// Creates a virtual environment with what `requirements` lists; returns its interpreter.
pub(super) fn python(requirements: &Path) -> PathBuf {
    let directory = cache("python", requirements);
    let python = directory.join("bin/python");
    once(&directory, |directory| {
        eprintln!("installing {} into {}", requirements.display(), directory.display());
        must(Command::new("python3").args(["-m", "venv"]).arg(directory));
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        must(pip.arg(requirements));
    });
    python
}

/// Installs kafkajs and its codecs; returns the directory with `node_modules`.
pub(super) fn node(programs: &Path) -> PathBuf {
    let directory = cache("node", &programs.join("package-lock.json"));
    once(&directory, |directory| {
        eprintln!("installing kafkajs into {}", directory.display());
        for file in ["package.json", "package-lock.json"] {
            fs::copy(programs.join(file), directory.join(file)).unwrap();
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]).current_dir(directory);
        must(&mut npm);
    });
    directory
}

/// Builds the Go clients' programs and returns their directory. Built each time, because they may have changed: if not,
/// Go's cache makes that a matter of a second.
pub(super) fn go(module: &Path, packages: &str) -> PathBuf {
    let directory = cache("go", &module.join("go.sum"));
    fs::create_dir_all(&directory).unwrap();
    let mut go = Command::new("go");
    go.args(["build", "-mod=readonly", "-buildvcs=false", "-trimpath", "-o"]).arg(&directory).arg(packages);
    // Debian's Go builds them: nothing newer is downloaded.
    must(go.current_dir(module).env("GOTOOLCHAIN", "local").env_remove("GOFLAGS"));
    directory
}

/// Builds a client in Rust. Built each time, like the Go clients, and outside the workspace, so that the features that
/// its library enables in other crates do not affect brokerscope.
pub(super) fn cargo(package: &Path, program: &str) -> PathBuf {
    let directory = cache("cargo", &package.join("Cargo.lock"));
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--locked", "--manifest-path"]).arg(package.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&directory);
    // The test's own build sets variables for the workspace.
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("CARGO_")) {
        if name != "CARGO_HOME" {
            cargo.env_remove(name);
        }
    }
    must(cargo.env_remove("RUSTFLAGS"));
    directory.join("debug").join(program)
}

fn must(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?} failed: {}{stderr}",
        String::from_utf8_lossy(&output.stdout)
    );
}
