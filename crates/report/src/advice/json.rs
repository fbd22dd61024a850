//! Advice as JSON, one object a line: `advice` by rank, `blocked`, `function` and `work` of what thread dumps and samples show,
//! `missing`, with all `silent`, and a `summary`.

use std::io::{self, Write};

use serde::Serialize;

use super::{Advised, views};
use crate::json;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line<'a> {
    Advice {
        rank: usize,
        rule: &'a str,
        layer: &'a str,
        cost_ns: Option<i64>,
        cost_requests: Option<u64>,
        evidence: &'a str,
        changes: Vec<ChangeView<'a>>,
        effect: &'a str,
        risk: &'a str,
        verify: String,
        condition: &'a str,
        source: &'a str,
    },
    Missing {
        input: &'a str,
        why: &'a str,
        rules: &'a [&'a str],
    },
    Silent {
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

#[derive(Serialize)]
struct ChangeView<'a> {
    setting: &'a str,
    old: &'a str,
    new: &'a str,
    target: Option<TargetView<'a>>,
    together: bool,
}

#[derive(Serialize)]
struct TargetView<'a> {
    of: &'a str,
    name: &'a str,
    value: &'a str,
}

/// Writes it.
pub fn write(mut out: impl Write, advised: &Advised) -> io::Result<()> {
    for (at, given) in advised.advice.given.iter().enumerate() {
        json::write_line(&mut out, &advice(advised, at + 1, given))?;
    }
    views::write_json(&mut out, &advised.views)?;
    for missing in &advised.advice.missing {
        let (input, why, rules) = (missing.input, &*missing.why, &*missing.rules);
        json::write_line(&mut out, &Line::Missing { input, why, rules })?;
    }
    for silent in advised.advice.silent.iter().filter(|_| advised.all) {
        let (rule, layer, why) = (silent.rule.name, silent.rule.layer.as_str(), &*silent.why);
        json::write_line(&mut out, &Line::Silent { rule, layer, why })?;
    }
    json::write_line(&mut out, &summary(advised))?;
    out.flush()
}

fn advice<'a>(advised: &Advised, rank: usize, given: &'a advise::Given) -> Line<'a> {
    let (rule, finding) = (given.rule, &given.finding);
    let setting = |change: &'a advise::Change| ChangeView {
        setting: &change.setting,
        old: &change.old,
        new: &change.new,
        target: change.target.as_ref().map(|target| TargetView {
            of: target.of.as_str(),
            name: &target.name,
            value: &target.value,
        }),
        together: change.together,
    };
    Line::Advice {
        rank,
        rule: rule.name,
        layer: rule.layer.as_str(),
        cost_ns: finding.cost.map(|cost| cost.time.0),
        cost_requests: finding.cost.map(|cost| cost.requests),
        evidence: &finding.evidence,
        changes: finding.changes.iter().map(setting).collect(),
        effect: &finding.effect,
        risk: finding.risk,
        verify: advised.verify(rule),
        condition: rule.condition,
        source: rule.source,
    }
}

fn summary(advised: &Advised) -> Line<'_> {
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
