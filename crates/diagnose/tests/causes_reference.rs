//! Compares `docs/reference/causes.md` with the causes' declarations. `BLESS=1 cargo test -p diagnose` writes it.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use diagnose::causes::{
    all,
    spec::{Area, CauseSpec},
};

const FILE: &str = "../../docs/reference/causes.md";

fn reference() -> String {
    let mut text = String::from(
        "# Causes\n\n\
         What `explain` names as the cause of a slow request, by where the time goes. A *root* ends a chain, a *link* may have \
         something deeper behind it, a *queue* is a wait behind other requests or threads.\n\n\
         Generated from the declarations in `crates/diagnose/src/causes`: `BLESS=1 cargo test -p diagnose`.\n",
    );
    for area in Area::ALL {
        writeln!(text, "\n## {}{}", area.as_str()[..1].to_uppercase(), &area.as_str()[1..]).unwrap();
        all().filter(|spec| spec.area == area).for_each(|spec| write_cause(&mut text, spec));
    }
    text
}

fn write_cause(text: &mut String, spec: &CauseSpec) {
    let changes = spec.advice.iter().fold(String::new(), |list, sentence| list + "\n  - " + sentence);
    let rule = spec.rule_name().map_or_else(String::new, |rule| format!("`{rule}`"));
    writeln!(text, "\n### `{}`\n\n{}\n", spec.cause, spec.cause.doc()).unwrap();
    for (name, fact) in [
        ("Role", spec.role.as_str()),
        ("Evidence", spec.needs),
        ("Where only the time ties it to a request, it would take", spec.proof),
        ("What to change", &changes),
        ("Rule of `advise`", &rule),
        ("Source", spec.source),
    ] {
        if !fact.is_empty() {
            let line = format!("- **{name}**: {}", fact.replace('*', "\\*"));
            writeln!(text, "{}", line.replace(": \n", ":\n")).unwrap();
        }
    }
}

#[test]
fn causes_reference_matches_the_declarations() {
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

/// README's table of causes, with a row for each area as declared.
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
