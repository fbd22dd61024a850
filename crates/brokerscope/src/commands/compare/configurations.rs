//! Configurations to compare, with their repetitions and parts. The command line names them. Reads no recording.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use analysis::{Usage, file_error};
use compare::Part;
use model::Nanos;
use recording::MANIFEST;
use serde::Deserialize;

use crate::failure::usage;
use crate::quantity;

/// File with a configuration's name and a sentence about it. Lies next to the repetitions.
const ABOUT: &str = "configuration.json";
/// Size limit of that file. It holds two short texts: a longer file is not ours.
const MAX_BYTES: u64 = 64 << 10;

/// A configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Configuration {
    pub(super) name: String,
    pub(super) note: Option<String>,
    pub(super) runs: Vec<RunPath>,
}

/// A recording, or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunPath {
    pub(super) path: PathBuf,
    pub(super) part: Part,
    /// The part as the user wrote it.
    suffix: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct About {
    name: Option<String>,
    note: Option<String>,
}

impl RunPath {
    /// The path and part as the user named them.
    pub(super) fn name(&self) -> String {
        format!("{}{}", self.path.display(), self.suffix)
    }
}

/// Finds the named configurations; those with the same name are repetitions of one.
pub(super) fn find(named: &[String], skip: Nanos) -> anyhow::Result<Vec<Configuration>> {
    let mut found: Vec<Configuration> = Vec::new();
    for (text, (name, places)) in named.iter().zip(named.iter().map(|text| split(text))) {
        let mut one = Configuration { name: name.clone().unwrap_or_default(), note: None, runs: Vec::new() };
        for place in places {
            let recorded = recorded(place, skip)?;
            let about = about(&recorded.path)?;
            if one.name.is_empty() {
                one.name = about.name.unwrap_or_else(|| own_name(&recorded));
            }
            one.note = one.note.or(about.note);
            one.runs.extend(repetitions(recorded)?);
        }
        match found.iter_mut().find(|other| other.name == one.name) {
            Some(same) if name.is_some() => same.runs.extend(one.runs),
            Some(_) => found.push(Configuration { name: text.clone(), ..one }),
            None => found.push(one),
        }
    }
    if found.len() < 2 {
        return usage("compare needs at least two configurations; the first is the base");
    }
    check_names(&found)?;
    Ok(found)
}

/// Returns the named paths.
pub(super) fn paths(named: &[String]) -> anyhow::Result<Vec<PathBuf>> {
    let places = named.iter().flat_map(|text| split(text).1);
    places.map(|place| Ok(recorded(place, Nanos::ZERO)?.path)).collect()
}

/// Fails if a recording is named twice: it would be compared with itself.
fn check_names(found: &[Configuration]) -> Result<(), Usage> {
    let mut seen: HashMap<String, &str> = HashMap::new();
    for (run, of) in found.iter().flat_map(|one| one.runs.iter().map(|run| (run.name(), one.name.as_str()))) {
        if let Some(other) = seen.insert(run.clone(), of) {
            return Err(Usage::new(format!("{run} is named twice, in {other} and {of}")));
        }
    }
    Ok(())
}

/// Splits an argument into its name, if any, and its directories. An existing path is not split.
fn split(text: &str) -> (Option<String>, Vec<&str>) {
    let (name, places) = match text.split_once('=') {
        Some((name, places)) if !Path::new(text).exists() && !name.is_empty() && !name.contains('/') => {
            (Some(name.to_owned()), places)
        }
        _ => (None, text),
    };
    if Path::new(places).exists() {
        return (name, vec![places]);
    }
    (name, places.split(',').filter(|place| !place.is_empty()).collect())
}

/// Parses a path; text after the last @ is a part, unless the whole path exists.
fn recorded(place: &str, skip: Nanos) -> anyhow::Result<RunPath> {
    let whole = Part { from: skip, ..Part::WHOLE };
    if let (false, Some((path, span))) = (Path::new(place).exists(), place.rsplit_once('@')) {
        let part = part(span).map_err(Usage::new)?;
        return Ok(RunPath { path: path.into(), part, suffix: format!("@{span}") });
    }
    Ok(RunPath { path: place.into(), part: whole, suffix: String::new() })
}

fn part(span: &str) -> Result<Part, String> {
    let wrong = || format!("@{span} is not a part of a run; write it as @10s-20s, @10s- or @-20s");
    let (from, until) = span.split_once('-').ok_or_else(wrong)?;
    let from = if from.is_empty() { Nanos::ZERO } else { quantity::time(from).map_err(|_| wrong())? };
    let until = if until.is_empty() { Nanos::MAX } else { quantity::time(until).map_err(|_| wrong())? };
    if from < until { Ok(Part { from, until }) } else { Err(wrong()) }
}

/// Returns the recording, or all recordings in a directory, sorted by name. A directory with a manifest is a
/// recording.
fn repetitions(recorded: RunPath) -> anyhow::Result<Vec<RunPath>> {
    let path = &recorded.path;
    let there = std::fs::metadata(path).map_err(|error| file_error(path, &error))?;
    if !there.is_dir() || path.join(MANIFEST).exists() {
        return Ok(vec![recorded]);
    }
    let inside = std::fs::read_dir(path).map_err(|error| file_error(path, &error))?;
    let mut inside: Vec<PathBuf> =
        inside.flatten().map(|entry| entry.path()).filter(|path| path.join(MANIFEST).exists()).collect();
    inside.sort();
    if inside.is_empty() {
        anyhow::bail!("{}: it is not a recording (it has no {MANIFEST}) and contains none", path.display());
    }
    Ok(inside.into_iter().map(|path| RunPath { path, ..recorded.clone() }).collect())
}

/// The directory's name with the part.
fn own_name(recorded: &RunPath) -> String {
    let path = std::fs::canonicalize(&recorded.path).unwrap_or_else(|_| recorded.path.clone());
    let name =
        path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into());
    format!("{name}{}", recorded.suffix)
}

fn about(path: &Path) -> anyhow::Result<About> {
    let path = path.join(ABOUT);
    let Ok(file) = File::open(&path) else { return Ok(About::default()) };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text).map_err(|error| file_error(&path, &error))?;
    serde_json::from_str(&text).map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::{find, part, split};
    use compare::Part;
    use model::Nanos;

    #[test]
    fn splits_configuration_names_from_paths() {
        for (text, name, places) in [
            ("a/b", None, &["a/b"][..]),
            ("xfs=a,b", Some("xfs"), &["a", "b"]),
            ("a=b=c", Some("a"), &["b=c"]),
            ("./a=b", None, &["./a=b"]),
            ("/tmp", None, &["/tmp"]),
            ("x=/tmp", Some("x"), &["/tmp"]),
        ] {
            assert_eq!(split(text), (name.map(str::to_owned), places.to_vec()), "{text}");
        }
    }

    #[test]
    fn parses_parts_of_a_recording() {
        let seconds = |n: i64| Nanos::from_millis(n * 1_000);
        for (text, from, until) in [
            ("10s-20s", seconds(10), seconds(20)),
            ("1m-", seconds(60), Nanos::MAX),
            ("-5s", Nanos::ZERO, seconds(5)),
        ] {
            assert_eq!(part(text), Ok(Part { from, until }), "{text}");
        }
        for text in ["", "10s", "5s-5s", "20s-10s", "a-b"] {
            assert!(part(text).is_err(), "{text}");
        }
    }

    #[test]
    fn finds_and_names_repetitions() {
        let dir = tempfile::tempdir().unwrap();
        for run in ["ext4/2", "ext4/1", "xfs/1", "other/xfs"] {
            let run = dir.path().join(run);
            std::fs::create_dir_all(&run).unwrap();
            std::fs::write(run.join("manifest.json"), "{}").unwrap();
        }
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(dir.path().join("ext4/configuration.json"), r#"{"name":"ext4 ordered","note":"n"}"#)
            .unwrap();
        let found = find(&[path("ext4"), path("xfs"), path("other/xfs")], Nanos(5)).unwrap();
        let summary: Vec<_> = found.iter().map(|one| (one.name.clone(), one.runs.len())).collect();
        assert_eq!(summary, [("ext4 ordered".to_owned(), 2), ("xfs".to_owned(), 1), (path("other/xfs"), 1)]);
        assert_eq!(found[0].note.as_deref(), Some("n"));
        assert!(found[0].runs[0].path.ends_with("1") && found[0].runs[0].part.from == Nanos(5));
        let named = [
            format!("a={}", path("ext4/1")),
            format!("b={}@-2s", path("xfs/1")),
            format!("a={}", path("ext4/2")),
        ];
        let found = find(&named, Nanos::ZERO).unwrap();
        assert_eq!((found.len(), found[0].runs.len(), found[1].name.as_str()), (2, 2, "b"));
        assert_eq!(found[1].runs[0].part.until, Nanos::from_millis(2_000));
        for wrong in [vec![path("ext4")], vec![path("xfs/1"), path("xfs/1")], vec![path("no"), path("xfs")]] {
            assert!(find(&wrong, Nanos::ZERO).is_err(), "{wrong:?}");
        }
        std::fs::create_dir(dir.path().join("empty")).unwrap();
        assert!(
            find(&[path("empty"), path("xfs")], Nanos::ZERO)
                .unwrap_err()
                .to_string()
                .contains("contains none")
        );
    }
}
