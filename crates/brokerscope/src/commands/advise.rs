//! `advise`: what to change about a broker, and why. Collects what rules may look at, as far as it can be had, and shows what
//! they say; changes nothing and judges nothing itself.

mod dumps;
mod recorded;
#[cfg(feature = "live")]
mod running;
mod seen;

use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use advise::{Advice, Inputs, RULES, Rule, Settings};
use anyhow::Context as _;
use report::advice::{AdviceReport, Views, explained, json, text};
use report::blocked::BlockedRow;

use crate::cli::Advise;
use crate::failure::{self, Usage};
use crate::options::Format;
use crate::output::{self, Pace};

/// A command line has no limit below this.
const MOST_OPTION_BYTES: u64 = 4 << 20;

/// What was found of the broker that advice is asked for.
struct Gathered {
    inputs: Inputs,
    /// Locks that thread dumps show threads to be blocked on, for people.
    blocked: Vec<BlockedRow>,
    /// What it is, for people.
    subject: String,
    notes: Vec<String>,
    /// What could not be read, for when everything else was shown.
    whole: anyhow::Result<()>,
}

/// Advises.
pub(crate) fn run(args: &Advise) -> anyhow::Result<()> {
    let rule = args.explain.as_deref().and_then(|name| RULES.iter().find(|rule| rule.name == name));
    if args.presentation.format == Format::Csv {
        return Err(Usage("advise has no csv; use --format json".to_owned()).into());
    }
    if let Some(rule) = rule {
        return explain(args, rule);
    }
    let Gathered { inputs, blocked, subject, notes, whole } = gather(args)?;
    let watched = inputs.costs.as_ref().ok().map(|costs| (costs.window, costs.slow()));
    let advised = AdviceReport {
        subject,
        watched,
        slower_than: inputs.slower_than,
        advice: Advice::of(&inputs),
        views: views(&inputs, blocked),
        comparison: inputs.comparison(),
        all: args.all,
        notes,
    };
    let out = output::stdout(Pace::AllThere);
    let written = match args.presentation.format {
        Format::Table => text::write(out, &args.presentation.look(Pace::AllThere), &advised),
        Format::Json | Format::Csv => json::write(out, &advised),
    };
    written.context(output::CANNOT_WRITE)?;
    args.presentation.say_each(&advised.notes);
    whole
}

/// What advice rests on, as far as it is something to look at.
fn views(inputs: &Inputs, blocked: Vec<BlockedRow>) -> Views {
    let in_dumps = inputs.dumps.as_ref().ok().map(|dumps| (dumps.dumps, dumps.running.clone()));
    Views { blocked, in_dumps, on_cpu: inputs.profile.as_ref().ok().cloned() }
}

/// One rule; of an input only where one is named, because a rule can be explained anywhere.
fn explain(args: &Advise, rule: &Rule) -> anyhow::Result<()> {
    if args.presentation.format != Format::Table {
        return Err(Usage(
            "--explain is for people to read; --format json has each rule's source".to_owned(),
        )
        .into());
    }
    let named = args.input.is_some() || args.duration.is_some() || args.target.pid.is_some();
    let gathered = if named { Some(gather(args)?) } else { None };
    let judged = gathered.as_ref().map(|gathered| rule.evaluate(&gathered.inputs));
    let look = args.presentation.look(Pace::AllThere);
    let out = output::stdout(Pace::AllThere);
    explained::write(out, &look, rule, judged.as_ref()).context(output::CANNOT_WRITE)?;
    gathered.map_or(Ok(()), |gathered| gathered.whole)
}

/// All that is known, with what the user gave beside it.
fn gather(args: &Advise) -> anyhow::Result<Gathered> {
    let mut gathered = match &args.input {
        Some(input) if is_properties(input) => of_properties(input)?,
        Some(input) => recorded::gather(args, input)?,
        None => of_running(args)?,
    };
    let inputs = &mut gathered.inputs;
    inputs.slower_than = args.slower_than;
    if let Some(file) = &args.properties {
        inputs.settings = Ok(settings(file)?);
    }
    if let Some(file) = &args.jvm_options {
        inputs.surroundings.jvm_arguments = Ok(jvm_options(file)?);
    }
    if !args.dump.is_empty() {
        let (series, blocked) = dumps::read(&args.dump, &mut gathered.notes)?;
        inputs.dumps = Ok(series);
        gathered.blocked = blocked;
    }
    Ok(gathered)
}

#[cfg(feature = "live")]
fn of_running(args: &Advise) -> anyhow::Result<Gathered> {
    running::gather(args)
}

#[cfg(not(feature = "live"))]
fn of_running(_args: &Advise) -> anyhow::Result<Gathered> {
    let why =
        "name a recording or a server.properties: this brokerscope was built without the feature `live`";
    Err(Usage(why.to_owned()).into())
}

fn is_properties(input: &Path) -> bool {
    input.extension().is_some_and(|extension| extension == "properties") && !input.is_dir()
}

fn of_properties(file: &Path) -> anyhow::Result<Gathered> {
    let why = "only server.properties was given: name a recording, or run advise beside the broker";
    let settings = Ok(settings(file)?);
    let inputs = Inputs { settings, dumps: Err(dumps::NONE.into()), ..Inputs::unknown(why) };
    let subject = file.display().to_string();
    let notes = vec![FILE_ONLY.to_owned()];
    Ok(Gathered { inputs, blocked: Vec::new(), subject, notes, whole: Ok(()) })
}

/// What a file of settings does not hold.
const FILE_ONLY: &str =
    "settings that were changed while the broker runs (kafka-configs) are not in its file and not known here";

fn settings(file: &Path) -> anyhow::Result<Settings> {
    // What is no file at all is told as everywhere.
    failure::open(file)?;
    let properties = broker::properties::read(file)?;
    Ok(Settings::from(properties))
}

/// Options of the JVM among the words of a file.
fn jvm_options(file: &Path) -> anyhow::Result<Vec<Arc<str>>> {
    let mut bytes = Vec::new();
    let read = failure::open(file)?.take(MOST_OPTION_BYTES).read_to_end(&mut bytes);
    read.map_err(|error| failure::of_file(file, &error))?;
    let text = String::from_utf8_lossy(&bytes);
    let words = text.split(|c: char| c.is_whitespace() || c == '\0' || c == '"' || c == '\'');
    Ok(words.filter(|word| word.starts_with("-X")).map(Into::into).collect())
}
