//! What to change about a broker, with the evidence for it: pure functions over what was seen and read of it.
//!
//! It reads no file and no clock. [`Inputs`] are plain values, each known or with the reason why not. Each [`Rule`] is one
//! declaration: the condition on evidence, the threshold and where it comes from, the setting with its old and new
//! value, what it cost here, the risk, and by what to see whether it helped. A rule whose inputs are not known says which, and
//! one whose condition does not hold says why not: nothing is guessed, and where there is no evidence there is no advice.
//!
//! - [`Costs`] adds up what causes cost slow requests, [`Traffic`] what producers send and how long they wait, [`Samples`]
//!   the host's figures, [`Profile`] what runs on the processors: all in bounded memory. [`ReadsWithoutEgress`] are what is read from disk
//!   for nobody.
//! - [`Settings`] are the broker's, with Kafka's defaults where its file does not name them.
//! - [`Advice::of`] asks every rule, and ranks what they say by measured cost.

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
