//! What a rule advises. Does not print it.

use crate::Cost;

/// One piece of advice with its evidence.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Finding {
    /// What was seen that the advice rests on.
    pub evidence: String,
    /// What to change, the first of several ways being the one to try first.
    pub changes: Vec<Change>,
    /// What it cost slow requests here, where that was measured: an upper bound of what the change can give back.
    pub cost: Option<Cost>,
    /// What is to be expected, and what is not.
    pub effect: String,
    /// What it may cost.
    pub risk: &'static str,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Its name, or the command that changes it.
    pub setting: String,
    /// What it is now.
    pub old: String,
    /// What it should be.
    pub new: String,
}

impl Change {
    /// A setting, what it is and what it should be.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "numbers, names and sentences alike, made for this one call"
    )]
    pub(crate) fn of(setting: impl ToString, old: impl ToString, new: impl ToString) -> Self {
        Self { setting: setting.to_string(), old: old.to_string(), new: new.to_string() }
    }
}
