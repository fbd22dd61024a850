//! Holds `docs/reference/causes.md` to the causes' declarations. `BLESS=1 cargo test -p diagnose` writes it.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use diagnose::causes::{all, spec::Area};

const FILE: &str = "../../docs/reference/causes.md";

fn reference() -> String {
    let mut text = String::from(
        "# Causes\n\n\
         What `explain` names as the cause of a slow request, by where the time goes. A *root* ends a chain, a *link* may have \
         something deeper behind it, a *queue* is a wait behind other requests or threads.\n\n\
         Generated from the declarations in `crates/diagnose/src/causes`: `BLESS=1 cargo test -p diagnose`.\n",
    );
    for area in Area::ALL {
        writeln!(text, "\n## {}{}\n", area.as_str()[..1].to_uppercase(), &area.as_str()[1..]).unwrap();
        text.push_str("| cause | what it is | role | evidence it needs | where only the time says so, it would take | rule of `advise` | source |\n");
        text.push_str("|---|---|---|---|---|---|---|\n");
        for spec in all().filter(|spec| spec.area == area) {
            let cells = [
                format!("`{}`", spec.cause),
                spec.cause.doc().trim_end_matches('.').to_owned(),
                spec.role.as_str().to_owned(),
                spec.needs.to_owned(),
                spec.proof.to_owned(),
                spec.rule_name().map_or_else(String::new, |rule| format!("`{rule}`")),
                spec.source.to_owned(),
            ];
            writeln!(
                text,
                "| {} |",
                cells.map(|cell| cell.replace('|', "\\|").replace('*', "\\*")).join(" | ")
            )
            .unwrap();
        }
    }
    text.push_str("\n## What to change\n");
    for spec in all().filter(|spec| !spec.advice.is_empty()) {
        writeln!(text, "\n`{}`:\n", spec.cause).unwrap();
        spec.advice.iter().for_each(|sentence| writeln!(text, "- {}", sentence.replace('*', "\\*")).unwrap());
    }
    text
}

#[test]
fn the_reference_says_what_is_declared() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, reference()).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == reference(),
        "docs/reference/causes.md is not as declared: BLESS=1 cargo test -p diagnose"
    );
}

/// README's table of causes with a row for each area, as declared.
fn with_rows(readme: &str) -> String {
    let row = |line: &str| {
        let area = Area::ALL.into_iter().find(|area| line.starts_with(&format!("| {area} |")))?;
        let names = all().filter(|spec| spec.area == area).map(|spec| format!("`{}`", spec.cause));
        Some(format!("| {area} | {} |", names.collect::<Vec<_>>().join(", ")))
    };
    readme.lines().map(|line| row(line).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

#[test]
fn readme_names_every_cause() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(&path).unwrap();
    let expected = with_rows(&readme);
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(
            readme == expected,
            "README's table of causes is not as declared: BLESS=1 cargo test -p diagnose"
        );
    }
    assert!(
        all()
            .filter(|spec| spec.area != Area::None)
            .all(|spec| expected.contains(&format!("`{}`", spec.cause)))
    );
}
