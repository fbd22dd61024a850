//! Advice as JSON, one object a line: `advice` by rank, `blocked`, `function` and `work` of what thread dumps and samples show,
//! `missing`, with all `silent`, and a `summary`.

use std::io::{self, Write};

use serde::Serialize;

use super::{AdviceReport, RecommendationData, views};
use crate::json;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line<'a> {
    Advice(RecommendationData),
    Missing {
        input: &'a str,
        why: &'a str,
        rules: &'a [&'a str],
    },
    SilentRule {
        rule: &'a str,
        layer: &'a str,
        why: &'a str,
    },
    Summary {
        subject: &'a str,
        window_ns: Option<i64>,
        slower_than_ns: i64,
        slow_requests: Option<u64>,
        slow_ns: Option<i64>,
        given: usize,
        silent: usize,
        not_decided: usize,
        notes: &'a [String],
    },
}

/// Writes it.
pub fn write(mut out: impl Write, advised: &AdviceReport) -> io::Result<()> {
    for (at, given) in advised.advice.given.iter().enumerate() {
        json::write_line(&mut out, &Line::Advice(RecommendationData::of(advised, at + 1, given)))?;
    }
    views::write_json(&mut out, &advised.views)?;
    for missing in &advised.advice.missing {
        let (input, why, rules) = (missing.input, &*missing.why, &*missing.rules);
        json::write_line(&mut out, &Line::Missing { input, why, rules })?;
    }
    for silent in advised.advice.silent.iter().filter(|_| advised.all) {
        let (rule, layer, why) = (silent.rule.name, silent.rule.layer.as_str(), &*silent.why);
        json::write_line(&mut out, &Line::SilentRule { rule, layer, why })?;
    }
    json::write_line(&mut out, &summary(advised))?;
    out.flush()
}

fn summary(advised: &AdviceReport) -> Line<'_> {
    let watched = advised.watched.as_ref();
    Line::Summary {
        subject: &advised.subject,
        window_ns: watched.map(|(window, _)| window.0),
        slower_than_ns: advised.slower_than.0,
        slow_requests: watched.map(|(_, slow)| slow.requests),
        slow_ns: watched.map(|(_, slow)| slow.time.0),
        given: advised.advice.given.len(),
        silent: advised.advice.silent.len(),
        not_decided: advised.advice.missing.iter().map(|missing| missing.rules.len()).sum(),
        notes: &advised.notes,
    }
}
