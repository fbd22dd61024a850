//! What to change about a broker, with the evidence for it: pure functions over observations and settings of the broker.
//!
//! Reads no files and no clock. [`Inputs`] are plain values, each known or with the reason why it is not. Each [`Rule`] is one
//! declaration: the condition on evidence, the threshold and its source, the setting with its old and new value, the cost
//! measured here, the risk, and how to check whether the change helped. A rule with unknown inputs names them, and a rule
//! whose condition does not hold says why: nothing is guessed, and without evidence there is no advice.
//!
//! - [`Costs`] adds up what causes cost slow requests, [`Traffic`] what producers send and how long they wait, [`Samples`]
//!   the host's figures, [`Profile`] what runs on the CPUs: all in bounded memory. [`ReadsWithoutEgress`] are bytes read from
//!   disk and sent to nobody.
//! - [`Settings`] are the broker's, with Kafka's defaults for those that its file does not name.
//! - [`Advice::of`] evaluates every rule, and ranks the results by measured cost.

#![forbid(unsafe_code)]

mod advice;
mod costs;
mod inputs;
mod profile;
mod rule;
mod rules;
mod samples;
mod settings;
#[cfg(test)]
mod tests;
mod traffic;
mod unsent;
mod words;

pub use advice::{Advice, FiredRule, MissingInput, SilentRule};
pub use costs::{Cost, Costs};
pub use inputs::{ContendedLock, Dumps, Inputs};
pub use profile::{Function, Profile, Work};
pub use rule::{Change, Combination, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope, Target};
pub use rules::RULES;
pub use samples::{Samples, Series};
pub use settings::Settings;
pub use traffic::{BufferUse, Producer, Traffic};
pub use unsent::ReadsWithoutEgress;
