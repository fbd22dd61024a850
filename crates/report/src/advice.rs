//! What to change about a broker: what rules advise, ranked by what it cost and grouped by layer; what they do not know; and the
//! reasoning of one rule. Does not reach any of it.

pub mod explained;
mod given;
pub mod json;
pub mod text;
mod views;

use advise::{Advice, Cost, Layer, Rule};
use model::Nanos;

pub use given::{
    AdviceData, ChangeData, LayerData, QuietRuleData, RecommendationData, TargetData, UnknownInputData,
};
pub use views::Views;

/// Advice on one broker, with what there is to say beside it.
#[derive(Clone, Debug)]
pub struct AdviceReport {
    /// What it is about, for people (`recording samples/journal-stall`).
    pub subject: String,
    /// For how long requests were watched, and what the slow ones took; none where they were not.
    pub watched: Option<(Nanos, Cost)>,
    /// Which requests were slow.
    pub slower_than: Nanos,
    /// What rules say.
    pub advice: Advice,
    /// What there is to look at beside it.
    pub views: Views,
    /// The command that shows whether a change helped.
    pub comparison: String,
    /// Whether rules that did not fire are told too.
    pub all: bool,
    /// What else is to be known.
    pub notes: Vec<String>,
}

impl AdviceReport {
    /// Advice by layer with its rank, from 1: the layer with the dearest first.
    fn by_layer(&self) -> Vec<(Layer, Vec<(usize, &advise::FiredRule)>)> {
        let mut layers: Vec<(Layer, Vec<(usize, &advise::FiredRule)>)> = Vec::new();
        for (at, given) in self.advice.given.iter().enumerate() {
            let layer = given.rule.layer;
            match layers.iter_mut().find(|(of, _)| *of == layer) {
                Some((_, all)) => all.push((at + 1, given)),
                None => layers.push((layer, vec![(at + 1, given)])),
            }
        }
        layers
    }

    /// The command that shows whether this rule's change helped, and what to look at.
    fn verify(&self, rule: &Rule) -> String {
        format!("{} (look at {})", self.comparison, rule.look_at)
    }
}
