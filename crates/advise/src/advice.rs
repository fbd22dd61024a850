//! The results of all rules: what to change, ranked by cost; why the other rules are silent; what is missing. Does not judge
//! itself.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::Nanos;

use crate::{Inputs, NoAdvice, RULES, Recommendation, Rule};

/// The results of all rules.
#[derive(Clone, Debug, Default)]
pub struct Advice {
    /// What to change: the costliest first, then advice without a measured cost, in the order of the rules.
    pub fired: Vec<FiredRule>,
    /// Rules whose condition does not hold.
    pub silent: Vec<SilentRule>,
    /// Unknown inputs, and the rules that need them.
    pub missing: Vec<MissingInput>,
}

/// A rule that fired.
#[derive(Clone, Debug)]
pub struct FiredRule {
    /// The rule.
    pub rule: &'static Rule,
    /// What it advises.
    pub recommendation: Recommendation,
}

/// A rule that did not fire.
#[derive(Clone, Debug)]
pub struct SilentRule {
    /// The rule.
    pub rule: &'static Rule,
    /// Why it did not fire.
    pub why: String,
}

/// An unknown input that rules need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingInput {
    /// Its name.
    pub input: &'static str,
    /// Why it is not known.
    pub why: Arc<str>,
    /// The names of the rules that need it.
    pub rules: Vec<&'static str>,
}

impl Advice {
    /// Evaluates every rule.
    pub fn of(inputs: &Inputs) -> Self {
        let mut advice = Self::default();
        let mut missing: BTreeMap<(&'static str, Arc<str>), Vec<&'static str>> = BTreeMap::new();
        for rule in RULES.iter() {
            match rule.evaluate(inputs) {
                Ok(recommendation) => advice.fired.push(FiredRule { rule, recommendation }),
                Err(NoAdvice::Silent(why)) => advice.silent.push(SilentRule { rule, why }),
                Err(NoAdvice::NotKnown { input, why }) => {
                    missing.entry((input, why)).or_default().push(rule.name);
                }
            }
        }
        // The sort is stable: of two equal costs, the earlier rule comes first.
        advice
            .fired
            .sort_by_key(|fired| Reverse(fired.recommendation.cost.map_or(Nanos::MIN, |cost| cost.time)));
        advice.missing =
            missing.into_iter().map(|((input, why), rules)| MissingInput { input, why, rules }).collect();
        advice.missing.sort_by_key(|missing| Reverse(missing.rules.len()));
        advice
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use model::{Cause, Nanos};

    use super::Advice;
    use crate::tests::{broker, with_cost};
    use crate::{Inputs, RULES};

    #[test]
    fn costliest_advice_comes_first() {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::JournalCommit, 5, Nanos::from_millis(200));
        with_cost(&mut inputs, Cause::GcPause, 9, Nanos::from_millis(400));
        inputs.host_facts.sysctls.as_mut().unwrap().insert("vm.swappiness".into(), 60);
        let names: Vec<_> = Advice::of(&inputs).fired.iter().map(|fired| fired.rule.name).collect();
        assert_eq!(names, ["gc-pause", "journal-commit", "swappiness"]);
    }

    #[test]
    fn unknown_inputs_yield_no_advice_and_one_reason_each() {
        let advice = Advice::of(&Inputs::unknown("nobody may look"));
        assert!(advice.fired.is_empty() && advice.silent.is_empty());
        let names: HashSet<_> = advice.missing.iter().map(|missing| missing.input).collect();
        assert_eq!(names.len(), advice.missing.len());
        assert_eq!(advice.missing.iter().map(|missing| missing.rules.len()).sum::<usize>(), RULES.len());
    }

    #[test]
    fn healthy_broker_gets_no_advice() {
        let advice = Advice::of(&broker());
        let names: Vec<_> = advice.fired.iter().map(|fired| fired.rule.name).collect();
        assert!(names.is_empty(), "{names:?}");
        assert!(advice.missing.is_empty(), "{:?}", advice.missing);
        assert_eq!(advice.silent.len(), RULES.len());
    }

    #[test]
    fn rules_have_unique_names_and_complete_texts() {
        let names: HashSet<_> = RULES.iter().map(|rule| rule.name).collect();
        assert_eq!(names.len(), RULES.len());
        for rule in RULES.iter() {
            let texts = [rule.condition, rule.source, rule.look_at];
            assert!(texts.iter().all(|text| text.len() > 10), "{}", rule.name);
        }
    }
}
