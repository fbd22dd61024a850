//! What this process may do: `bpf(2)`, capabilities, lockdown; and its pid namespace.
//!
//! Requests no privileges.

#![allow(clippy::disallowed_methods, reason = "/proc or /sys")]

use std::fs;

use libbpf_rs::{MapHandle, MapType, ProgramType, libbpf_sys};

use crate::process_ids::ProcessIds;

/// Effective capabilities as the kernel's bit set. See `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capabilities(pub u64);

impl Capabilities {
    /// `CAP_DAC_READ_SEARCH`.
    pub const DAC_READ_SEARCH: u32 = 2;
    /// `CAP_NET_RAW`.
    pub const NET_RAW: u32 = 13;
    /// `CAP_SYS_PTRACE`.
    pub const SYS_PTRACE: u32 = 19;
    /// `CAP_SYSLOG`.
    pub const SYSLOG: u32 = 34;
    /// `CAP_SYS_ADMIN`.
    pub const SYS_ADMIN: u32 = 21;
    /// `CAP_PERFMON` (Linux 5.8).
    pub const PERFMON: u32 = 38;
    /// `CAP_BPF` (Linux 5.8).
    pub const BPF: u32 = 39;

    /// Whether the set contains the capability with that number.
    pub fn has(self, number: u32) -> bool {
        self.0.checked_shr(number).is_some_and(|bits| bits & 1 == 1)
    }

    /// Capabilities of this process; empty if they cannot be read.
    pub fn of_this_process() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self::parse(&status).unwrap_or_default()
    }

    fn parse(status: &str) -> Option<Self> {
        let bits = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(bits.trim(), 16).ok().map(Self)
    }
}

model::named! {
    /// The kernel's lockdown state.
    pub enum Lockdown {
        /// securityfs is not mounted or the kernel has no lockdown.
        Unknown = "unknown",
        /// Nothing is locked down.
        None = "none",
        /// The kernel cannot be modified; BPF may read it.
        Integrity = "integrity",
        /// The kernel's memory cannot be read: observing BPF programs are refused.
        Confidentiality = "confidentiality",
    }
}

impl Lockdown {
    pub(super) fn current() -> Self {
        fs::read_to_string("/sys/kernel/security/lockdown").map_or(Self::Unknown, |text| Self::of_file(&text))
    }

    /// Parses the file, which lists all states with the current one in brackets.
    fn of_file(text: &str) -> Self {
        let current = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
        current.and_then(Self::parse).unwrap_or(Self::Unknown)
    }
}

/// Tries to create a map and to load a program; returns the kernel's error if it refuses.
pub(super) fn bpf_refused() -> Option<String> {
    let options = libbpf_sys::bpf_map_create_opts {
        sz: size_of::<libbpf_sys::bpf_map_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    if let Err(error) = MapHandle::create(MapType::Array, Some("survey"), 4, 8, 1, &options) {
        return Some(format!("creating a BPF map: {error}"));
    }
    match ProgramType::Tracepoint.is_supported() {
        Ok(true) => None,
        Ok(false) => Some("loading a BPF tracepoint program: not permitted or not supported".to_owned()),
        Err(error) => Some(format!("loading a BPF tracepoint program: {error}")),
    }
}

/// Whether programs of a kind may call a helper.
pub(crate) fn has_helper(kind: libbpf_sys::bpf_prog_type, helper: libbpf_sys::bpf_func_id) -> bool {
    let none = std::ptr::null();
    // SAFETY: numbers, and options that may be null.
    unsafe { libbpf_sys::libbpf_probe_bpf_helper(kind, helper, none) == 1 }
}

/// Which pid namespace this process's ids belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PidNamespace {
    /// The host's namespace; its ids are the kernel's own.
    Root,
    /// A namespace that many levels below the host's; the probes translate ids.
    Below(u32),
    /// Unknown, and why.
    Unknown(String),
}

impl PidNamespace {
    pub(super) fn current() -> Self {
        match ProcessIds::of_this_host() {
            Ok(ids) if ids.level == 0 => Self::Root,
            Ok(ids) => Self::Below(ids.level),
            Err(error) => Self::Unknown(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Capabilities, Lockdown};

    #[test]
    fn parses_capability_bits() {
        let caps = Capabilities::parse("Name:\tx\nCapEff:\t000000c000000000\nCapBnd:\t0\n").unwrap();
        assert!(caps.has(Capabilities::BPF) && caps.has(Capabilities::PERFMON));
        assert!(!caps.has(Capabilities::SYS_ADMIN));
        assert!(!caps.has(64));
        assert_eq!(Capabilities::parse("CapEff:\tnonsense\n"), None);
    }

    #[test]
    fn lockdown_is_the_word_in_brackets() {
        assert_eq!(Lockdown::of_file("none [integrity] confidentiality\n"), Lockdown::Integrity);
        assert_eq!(Lockdown::of_file("[none] integrity confidentiality\n"), Lockdown::None);
        assert_eq!(Lockdown::of_file("none integrity\n"), Lockdown::Unknown);
        assert_eq!(Lockdown::of_file("none [new] integrity\n"), Lockdown::Unknown);
    }
}
