//! Which pid namespace's ids this process's `/proc` shows. The ids themselves are `process_ids`' business.

use crate::process_ids::ProcessIds;

/// By whose ids this process knows others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PidNamespace {
    /// The host's, which are the kernel's own.
    Root,
    /// Those of a namespace so many levels below the host's; the probes translate.
    Below(u32),
    /// That cannot be told, and why.
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
