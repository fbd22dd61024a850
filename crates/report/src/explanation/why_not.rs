//! What could not be decided, over all requests: the same question once, with how many it is about. Does not ask.

use std::collections::HashMap;

use model::{Doubt, Nanos, Stage, Verdict};
use serde::Serialize;

/// Different questions kept: they are of a few kinds, but losses have numbers in them.
const MOST_QUESTIONS: usize = 1_000;

/// A question and what is left open by it.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) doubt: Doubt,
    /// Of so many requests.
    pub(crate) requests: u64,
    /// All in all.
    pub(crate) time: Nanos,
}

/// All questions.
#[derive(Debug, Default)]
pub(crate) struct Questions(HashMap<(Stage, String, String), Question>);

impl Questions {
    /// Takes what was left open about a request.
    pub(crate) fn add(&mut self, verdict: &Verdict) {
        for doubt in &verdict.doubts {
            let key = (doubt.stage, doubt.what.clone(), doubt.tells.clone());
            if self.0.len() >= MOST_QUESTIONS && !self.0.contains_key(&key) {
                continue;
            }
            let question = self.0.entry(key).or_insert_with(|| Question {
                doubt: doubt.clone(),
                requests: 0,
                time: Nanos::ZERO,
            });
            question.requests += 1;
            question.time += doubt.time;
        }
    }

    /// Those with the most time first.
    pub(crate) fn take(&mut self) -> Vec<Question> {
        let mut questions: Vec<Question> = std::mem::take(&mut self.0).into_values().collect();
        let key = |question: &Question| (question.doubt.stage, question.doubt.what.clone());
        questions.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| key(a).cmp(&key(b))));
        questions
    }
}

/// One question as JSON.
#[derive(Serialize)]
pub(crate) struct DoubtView<'a> {
    stage: &'a str,
    time_ns: i64,
    what: &'a str,
    would_tell: &'a str,
}

impl<'a> From<&'a Doubt> for DoubtView<'a> {
    fn from(doubt: &'a Doubt) -> Self {
        Self {
            stage: doubt.stage.as_str(),
            time_ns: doubt.time.0,
            what: &doubt.what,
            would_tell: &doubt.tells,
        }
    }
}
