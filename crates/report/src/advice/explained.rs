//! The reasoning of one rule: when it speaks, where that comes from, and what it says here. Does not judge.

use std::io::{self, Write};

use advise::{NoAdvice, Rule, RuleResult};

use super::text::{labelled, told};
use crate::Style;
use crate::paint::{Role, paint};

/// Writes it; without a judgement, what the rule is about only.
pub fn write(mut out: impl Write, look: &Style, rule: &Rule, judged: Option<&RuleResult>) -> io::Result<()> {
    writeln!(out, "{}", paint(look.colour, Role::Heading, &format!("{} ({})", rule.name, rule.layer)))?;
    labelled(&mut out, "when", rule.condition)?;
    labelled(&mut out, "source", rule.source)?;
    labelled(&mut out, "look at", rule.look_at)?;
    match judged {
        Some(Ok(finding)) => {
            labelled(&mut out, "here", &finding.evidence)?;
            for change in &finding.changes {
                labelled(&mut out, "change", &told(change))?;
            }
            labelled(&mut out, "expect", &finding.effect)?;
            labelled(&mut out, "risk", finding.risk)?;
        }
        Some(Err(NoAdvice::Silent(why))) => labelled(&mut out, "here", &format!("nothing to advise: {why}"))?,
        Some(Err(NoAdvice::NotKnown { input, why })) => {
            labelled(&mut out, "here", &format!("cannot tell: {input} is not known: {why}"))?;
        }
        None => {}
    }
    out.flush()
}
