//! Restricts files and ports with landlock: to those that were named, and to the system files that every process needs.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, LandlockStatus, Ruleset, RulesetAttr as _,
    RulesetCreated, RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
};

use crate::Access;

/// Linux 6.12. An older kernel does not restrict what it does not know.
const VERSION: ABI = ABI::V6;

/// Time zones, this process (allowed CPUs, memory, stacks), and the boot time.
const SYSTEM_PATHS: [&str; 7] = [
    "/etc/localtime",
    "/etc/zoneinfo",
    "/usr/share/zoneinfo",
    "/usr/lib/zoneinfo",
    "/proc/self",
    "/proc/stat",
    "/sys/fs/cgroup",
];
/// Name resolution, which loads libraries, and CA certificates.
const NETWORK_PATHS: [&str; 7] = ["/etc", "/usr", "/lib", "/lib64", "/run", "/var/ssl", "/nix/store"];
/// Variables that name more such files.
const VARIABLES: [&str; 2] = ["TZ", "TZDIR"];
const NETWORK_VARIABLES: [&str; 4] = [
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
];

/// Builds the rules and opens the files that they name.
pub(crate) fn rules(access: &Access) -> Result<RulesetCreated, String> {
    create(access).map_err(|error| error.to_string())
}

/// Forbids opening anything else from now on; returns the version of the kernel's landlock ABI.
pub(crate) fn restrict(rules: RulesetCreated) -> Result<i32, String> {
    let status = rules.restrict_self().map_err(|error| error.to_string())?;
    match status.landlock {
        LandlockStatus::Available { effective_abi, .. } => Ok(effective_abi as i32),
        LandlockStatus::NotEnabled => Err("not enabled at boot".to_owned()),
        LandlockStatus::NotImplemented => Err("this kernel has none".to_owned()),
    }
}

fn create(access: &Access) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(VERSION);
    let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(VERSION))?;
    if !access.network {
        rules = rules.handle_access(AccessNet::from_all(VERSION))?;
    }
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    rules
        .create()?
        .add_rules(path_beneath_rules(&access.reads, read))?
        .add_rules(path_beneath_rules(&access.replaced_in, read))?
        .add_rules(path_beneath_rules(unnamed(access), read))?
        .add_rules(path_beneath_rules(&access.writes, all & !AccessFs::Execute))
}

/// Paths that are readable without being named.
fn unnamed(access: &Access) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = SYSTEM_PATHS.map(PathBuf::from).to_vec();
    let mut variables = VARIABLES.to_vec();
    if access.network {
        paths.extend(NETWORK_PATHS.map(PathBuf::from));
        variables.extend(NETWORK_VARIABLES);
    }
    if access.everywhere {
        paths.push("/".into());
    }
    // For symbol names in a panic's backtrace.
    paths.extend(std::env::current_exe());
    let named = variables.into_iter().filter_map(std::env::var_os);
    paths.extend(named.flat_map(|value| std::env::split_paths(&value).collect::<Vec<_>>()));
    paths
}
