//! What can be seen on this host and what is missing. Does not look: the caller did.

pub mod json;
pub mod text;

use std::io;

use serde::Serialize;

pub use json::DoctorJson;
pub use text::DoctorText;

/// One examination of a host.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(tag = "type", rename = "doctor")]
pub struct Examination {
    /// Whether this binary can watch live at all.
    pub live: bool,
    /// What the host offers.
    pub facts: Vec<Fact>,
    /// What is used of it, and what cannot be.
    pub hooks: Vec<Hook>,
    /// The brokers that run here.
    pub brokers: Vec<BrokerFacts>,
    /// What is in the way, and what to do about it; empty on a host where all can be seen.
    pub remedies: Vec<Remedy>,
}

/// One thing the host has or is.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// What it is.
    pub name: String,
    /// What was found.
    pub value: String,
}

/// One purpose and how it is served.
#[derive(Clone, Debug, Serialize)]
pub struct Hook {
    /// What for.
    pub purpose: String,
    /// By what.
    pub mechanism: String,
    /// Why it cannot be used; none where it is.
    pub missing: Option<String>,
}

/// One broker.
#[derive(Clone, Debug, Serialize)]
pub struct BrokerFacts {
    /// Its process.
    pub pid: u32,
    /// Its `node.id`, where its properties say.
    pub node_id: Option<String>,
    /// Where it listens.
    pub listeners: Vec<String>,
    /// Its log dirs.
    pub log_dirs: Vec<String>,
    /// What else is known of it.
    pub facts: Vec<Fact>,
}

/// Something in the way.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// What cannot be seen, and why.
    pub problem: String,
    /// What to do.
    pub action: String,
}

/// An output of an examination.
pub trait DoctorReport {
    /// Writes it.
    fn examination(&mut self, examination: &Examination) -> io::Result<()>;
}
