//! Generates the pages of the reference that are lists in the code: stages, rules of `advise`, settings, exit codes, the
//! manifest, environment variables.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use advise::{Layer, RULES};
use analysis::recorder::{broker_settings, host_facts, settings};
use model::STAGE_COLUMNS;
use recording::{Broker, Jvm, Manifest};
use serde_json::Value;

use super::{cell, hold, project};

/// Checks that the part of a page between the comments `begin: NAME` and `end` is this text.
pub(crate) fn hold_part(page: &str, name: &str, text: &str) {
    let written = fs::read_to_string(project(page)).unwrap();
    let begin = format!("<!-- begin: {name} -->\n");
    let (before, rest) = written.split_once(&begin).unwrap();
    let (_, after) = rest.split_once("<!-- end -->").unwrap();
    hold(page, &[before, &begin, "\n", text, "\n<!-- end -->", after].concat());
}

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
fn the_reference_has_every_recorded_broker_setting() {
    let names = broker_settings::names().iter().map(|name| format!("- `{name}`\n")).collect::<Vec<_>>();
    hold_part("docs/reference/settings.md", "settings", &names.concat());
}

#[test]
fn the_reference_has_every_exit_code() {
    let mut text = "| code | meaning |\n|--:|---|\n".to_owned();
    for (code, meaning) in brokerscope::EXIT_CODES {
        writeln!(text, "| {code} | {} |", cell(meaning)).unwrap();
    }
    hold_part("docs/reference/exit-codes.md", "exit codes", &text);
}

#[test]
fn the_reference_has_every_manifest_setting() {
    let mut text = "| key | meaning |\n|---|---|\n".to_owned();
    for (key, meaning) in settings::KEYS {
        writeln!(text, "| `{key}` | {} |", cell(meaning.trim())).unwrap();
    }
    let of_host = host_facts::NAMES.iter().map(|name| format!("`runs_on.{name}`")).collect::<Vec<_>>();
    writeln!(text, "| {} | What the broker ran on: a value each |", of_host.join(", ")).unwrap();
    hold_part("docs/reference/settings.md", "manifest settings", &text);
    // Includes everything that a recorder notes about a whole host.
    let mut noted = BTreeMap::new();
    host_facts::note(&whole_host(), &mut noted);
    let page = fs::read_to_string(project("docs/reference/settings.md")).unwrap();
    for key in noted.keys() {
        let key =
            key.split('.').map(|part| if part == "0" { "N" } else { part }).collect::<Vec<_>>().join(".");
        let key = if key.starts_with("runs_on.sysctl.") { "runs_on.sysctl.*".to_owned() } else { key };
        assert!(page.contains(&format!("`{key}`")), "settings.md does not name {key}");
    }
    // Each setting is written through the constant that declares it.
    let recorder = project("crates/brokerscope/src/commands/record");
    for source in rust_files(&recorder) {
        assert!(!fs::read_to_string(&source).unwrap().contains("settings.insert(\""), "{}", source.display());
    }
}

fn whole_host() -> model::HostFacts {
    use model::{Ext4, HostFacts, Interface, Limits, Volume};
    HostFacts {
        cpus: Ok(8),
        sysctls: Ok(BTreeMap::from([("vm.swappiness".into(), 60)])),
        volumes: Ok(vec![Volume {
            log_dir: "/a".into(),
            device: "sda".into(),
            fs: "ext4".into(),
            options: Ok(vec!["rw".into()]),
            disks: Ok(1),
            ext4: Ok(Some(Ext4 { journal: true, fast_commit: false })),
        }]),
        interfaces: Ok(vec![Interface {
            name: "eth0".into(),
            mtu_bytes: 1_500,
            speed_bits_per_second: Some(1),
        }]),
        limits: Ok(Limits { open_files: Some(1_024) }),
        ..HostFacts::unknown("not asked")
    }
}

/// Fields and doc comments of the manifest's structs. Serde shows that none is missing.
#[test]
fn the_reference_has_every_field_of_a_manifest() {
    let source = fs::read_to_string(project("crates/recording/src/manifest.rs")).unwrap();
    let mut text = "| field | meaning |\n|---|---|\n".to_owned();
    let jvm = serde_json::to_value(Jvm::default()).unwrap();
    let process = serde_json::to_value(recording::BrokerProcess::default()).unwrap();
    let broker = serde_json::to_value(Broker::default()).unwrap();
    let manifest = serde_json::to_value(Manifest::default()).unwrap();
    let source_health = serde_json::to_value(recording::SourceHealth::default()).unwrap();
    let structures: [(&str, &str, &Value); 7] = [
        ("Manifest", "", &manifest),
        ("Host", "host.", &manifest["host"]),
        ("Broker", "broker.", &broker),
        ("BrokerProcess", "broker.processes.", &process),
        ("Jvm", "broker.jvm.", &jvm),
        ("Clock", "clock.", &manifest["clock"]),
        ("SourceHealth", "sources.*.", &source_health),
    ];
    for (name, prefix, object) in structures {
        let documented = field_docs(&source, name);
        let fields: BTreeSet<&str> = object.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(
            documented.iter().map(|(field, _)| field.as_str()).collect::<BTreeSet<_>>(),
            fields,
            "{name}"
        );
        for (field, doc) in documented {
            writeln!(text, "| `{prefix}{field}` | {} |", cell(&doc)).unwrap();
        }
    }
    hold_part("docs/reference/recording.md", "manifest", &text);
}

/// The fields of a struct in a source text, in order, each with its doc comment.
fn field_docs(source: &str, structure: &str) -> Vec<(String, String)> {
    let (_, body) = source.split_once(&format!("pub struct {structure} {{")).unwrap();
    let (mut fields, mut doc) = (Vec::new(), Vec::new());
    for line in body.lines().map(str::trim).take_while(|line| *line != "}") {
        if let Some(text) = line.strip_prefix("/// ") {
            doc.push(text.replace("[`", "`").replace("`]", "`"));
        } else if let Some((name, _)) = line.strip_prefix("pub ").and_then(|field| field.split_once(':')) {
            fields.push((name.to_owned(), std::mem::take(&mut doc).join(" ")));
        }
    }
    fields
}

/// Variables read by libraries and by `std`, not by name in our sources.
const READ_BY_LIBRARIES: [&str; 3] = ["TZ", "TMPDIR", "SSL_CERT_FILE"];

/// Exactly the variables that the product's sources read. A test of `stores` checks which `AWS_` variables its library
/// knows.
#[test]
fn the_reference_has_every_environment_variable() {
    let page = fs::read_to_string(project("docs/reference/settings.md")).unwrap();
    let (_, part) = page.split_once("## Environment").unwrap();
    let part = part.split("\n## ").next().unwrap();
    let named: BTreeSet<String> = part
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split(" | ").next())
        .flat_map(|names| names.split('`').filter(|name| name.starts_with(|c: char| c.is_ascii_uppercase())))
        .map(str::to_owned)
        .collect();
    let mut read = BTreeSet::from(READ_BY_LIBRARIES.map(str::to_owned));
    let of_product = fs::read_dir(project("crates")).unwrap().map(|entry| entry.unwrap().path());
    for source in
        of_product.filter(|path| !path.ends_with("lab")).flat_map(|path| rust_files(&path.join("src")))
    {
        let text = fs::read_to_string(source).unwrap();
        for call in ["env::var_os(\"", "env::var(\""] {
            read.extend(
                text.split(call).skip(1).filter_map(|rest| rest.split('"').next()).map(str::to_owned),
            );
        }
    }
    // Read by unit tests.
    read.remove("BLESS");
    let of_store = |name: &&String| name.starts_with("AWS_");
    assert_eq!(
        named.iter().filter(|name| !of_store(name)).collect::<Vec<_>>(),
        read.iter().filter(|name| !of_store(name)).collect::<Vec<_>>(),
        "docs/reference/settings.md and the sources"
    );
    // Variables that messages of the store name are in the table.
    for source in rust_files(&project("crates/stores/src")) {
        let text = fs::read_to_string(source).unwrap();
        let words = text.split(|c: char| !c.is_ascii_uppercase() && c != '_');
        for word in words.filter(|word| word.len() > "AWS_".len() && word.starts_with("AWS_")) {
            assert!(named.contains(word), "docs/reference/settings.md does not name {word}");
        }
    }
    assert!(named.iter().any(|name| of_store(&name)), "{named:?}");
}

fn rust_files(directory: &Path) -> Vec<std::path::PathBuf> {
    let (mut files, mut directories) = (Vec::new(), vec![directory.to_owned()]);
    while let Some(directory) = directories.pop() {
        let Ok(entries) = fs::read_dir(directory) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()) {
            match path.extension() {
                None => directories.push(path),
                Some(extension) if extension == "rs" => files.push(path),
                Some(_) => {}
            }
        }
    }
    files
}

/// The capabilities that `doctor` examines, and those of the service.
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
