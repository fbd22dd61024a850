//! Pages of the reference that are lists in the code: stages, rules of `advise`, settings.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use advise::{Layer, RULES, Settings};
use model::STAGE_COLUMNS;

use super::{cell, hold, project};

#[test]
fn the_reference_has_every_stage() {
    let mut text = "# Stages\n\n\
        The parts of a request's latency, in the order in which a request goes through them. They add up to the latency.\n\
        [Stages and verdicts](../explanation/stages.md) says where each begins and ends, and what is inferred.\n\n\
        Generated from `Stage` in `crates/model`: `BLESS=1 cargo test -p brokerscope --test documents`.\n\n\
        | stage | column of `verdicts` | what the request waits for |\n|---|---|---|\n"
        .to_owned();
    let docs = stage_docs();
    for (stage, column) in model::Stage::ALL.into_iter().zip(STAGE_COLUMNS) {
        writeln!(text, "| `{stage}` | `{column}` | {} |", cell(&docs[stage.as_str()])).unwrap();
    }
    text.push_str(
        "\nMetrics have them as the label `stage` of `brokerscope_request_stage_duration_seconds`.\n",
    );
    hold("docs/reference/stages.md", &text);
}

/// The doc comments of `Stage`, by name.
fn stage_docs() -> BTreeMap<String, String> {
    let source = std::fs::read_to_string(project("crates/model/src/verdict.rs")).unwrap();
    let (_, stages) = source.split_once("pub enum Stage {").unwrap();
    let lines = stages.lines().map(str::trim).take_while(|line| *line != "}").collect::<Vec<_>>();
    let doc = |pair: &[&str]| {
        let name = pair[1].split('"').nth(1)?;
        Some((name.to_owned(), pair[0].trim_start_matches("/// ").to_owned()))
    };
    lines.windows(2).filter_map(doc).collect()
}

#[test]
fn the_reference_has_every_rule() {
    let mut text = "# Rules of `advise`\n\n\
        Each rule has a condition with its threshold, and the source of both. `brokerscope advise DIR --explain journal-commit` shows a rule with\n\
        what it says about a recording; a rule that lacks an input says so. [Decide what to change](../how-to/advise.md) shows the output.\n\n\
        Generated from `advise::RULES`: `BLESS=1 cargo test -p brokerscope --test documents`.\n"
        .to_owned();
    for layer in Layer::ALL {
        write!(
            text,
            "\n## {layer}\n\n| rule | speaks when | source | look at, to verify |\n|---|---|---|---|\n"
        )
        .unwrap();
        for rule in RULES.iter().filter(|rule| rule.layer == layer) {
            let cells =
                [rule.condition, rule.source, rule.look_at].map(|text| cell(text).replace('*', "\\*"));
            writeln!(text, "| `{}` | {} |", rule.name, cells.join(" | ")).unwrap();
        }
    }
    hold("docs/reference/rules.md", &text);
}

#[test]
fn the_reference_has_every_setting_that_a_recording_keeps() {
    const PAGE: &str = "docs/reference/settings.md";
    const BEGIN: &str = "<!-- begin: settings -->\n";
    let page = std::fs::read_to_string(project(PAGE)).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    let names = Settings::USED.map(|name| format!("- `{name}`\n")).concat();
    hold(PAGE, &[before, BEGIN, "\n", &names, "\n<!-- end -->", after].concat());
}

/// Those that `doctor` examines, and those that the service has.
#[test]
fn the_reference_has_every_capability() {
    let page = std::fs::read_to_string(project("docs/reference/privileges.md")).unwrap();
    let doctor = std::fs::read_to_string(project("crates/brokerscope/src/commands/doctor/host.rs")).unwrap();
    let unit = std::fs::read_to_string(project("deploy/systemd/brokerscope.service")).unwrap();
    let named = [doctor, unit].join("\n");
    let words =
        named.split(|c: char| !c.is_ascii_uppercase() && c != '_').filter(|word| word.starts_with("CAP_"));
    let missing = words.filter(|word| !page.contains(&format!("`{word}`"))).collect::<Vec<_>>();
    assert!(missing.is_empty(), "docs/reference/privileges.md does not say what for: {missing:?}");
}
