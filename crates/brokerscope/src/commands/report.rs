//! `report`: recordings, or a capture, as a page. Reads each input once and reaches the verdicts that `explain` does.

mod about;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context as _;
use capture::Captures;
use diagnose::{Config, Engine, Summary};
use model::{Event, LossKind, Nanos};
use recording::{Recording, Table};
use report::explanation::{Conclusion, Unobservable};
use report::numbers::{counted, size};
use report::page::{About, Collector, Page, RecordingData, html, markdown, perfetto};

use crate::cli::{PageFormat, Report};
use crate::commands::{explain, record};
use crate::failure;
use crate::input::{self, Evidence};
use crate::options::{Filter, Format, Presentation};
use crate::output::{self, Pace};
use crate::packets;
use crate::stop::Stop;

/// Writes the page.
pub(crate) fn run(args: &Report) -> anyhow::Result<()> {
    let presentation = Presentation { format: Format::Table, utc: args.utc, quiet: args.quiet, wide: false };
    let page = Page::of(read(args, &presentation)?);
    write(args, &page)?;
    if args.output != Path::new("-") {
        let bytes = std::fs::metadata(&args.output).map_or(0, |file| file.len());
        let slow: u64 = page.recordings.iter().map(|recording| recording.slow.slow).sum();
        let told: usize = page.recordings.iter().map(|recording| recording.requests.len()).sum();
        presentation.say(&format!(
            "{} written to {}: {}, {told} of them in detail",
            size(bytes),
            args.output.display(),
            counted(slow, "slow request"),
        ));
    }
    Ok(())
}

fn read(args: &Report, presentation: &Presentation) -> anyhow::Result<Vec<RecordingData>> {
    if let Some(file) = args.inputs.iter().find(|input| !input.is_dir()) {
        std::fs::metadata(file).map_err(|error| failure::of_file(file, &error))?;
        return Ok(vec![from_packets(args, input::open_files(&args.inputs)?)?]);
    }
    let one = |dir| match Evidence::open(std::slice::from_ref(dir))? {
        Evidence::Recording(recording) => Ok(from_recording(args, presentation, &recording)),
        Evidence::Packets(captures) => from_packets(args, captures),
    };
    args.inputs.iter().map(one).collect()
}

fn from_recording(args: &Report, presentation: &Presentation, recording: &Recording) -> RecordingData {
    let manifest = recording.manifest();
    let partial = record::partial::threshold(&manifest.settings);
    // Of a partial recording, joins of requests that were not slow would find nothing and say nothing.
    let files_seen = partial.is_none() && recording.events_of(&[Table::FileOps]).next().is_some();
    let jvm_seen = recording.events_of(&[Table::LockWaits, Table::GcPauses]).next().is_some();
    let origin = (manifest.started_ns > 0).then_some(Nanos(manifest.started_ns));
    let mut judged = Judged::new(args, files_seen, origin);
    for event in recording.events() {
        match event {
            Ok(event) => judged.event(event),
            // The part is named again in the notes; the other parts still tell.
            Err(error) => output::warn(&error.to_string()),
        }
    }
    let mut unobservable = record::missing(&manifest.plan);
    let (what, why) = if jvm_seen {
        (explain::QUEUES, explain::NO_QUEUE_SOURCE)
    } else {
        (explain::JVM, explain::NO_JVM_SOURCE)
    };
    unobservable.push(Unobservable { what: what.to_owned(), why: why.to_owned() });
    let mut notes = recording.notes();
    notes.extend(record::notes(manifest, presentation));
    judged.finish(about::recording(recording), unobservable, notes, &[])
}

fn from_packets(args: &Report, mut captures: Captures) -> anyhow::Result<RecordingData> {
    let stop = Stop::after(None)?;
    let mut analyzer = packets::analyzer(&Filter::default(), &args.target)?;
    let mut judged = Judged::new(args, false, None);
    packets::read_files(&mut captures, &mut analyzer, &stop, &mut |request| {
        judged.event(Event::Request(Box::new(request)));
        Ok(())
    })?;
    packets::check(&captures)?;
    let counters = analyzer.counters();
    let losses = [
        (LossKind::PacketsDropped, counters.kernel_drops),
        (LossKind::StreamGapBytes, counters.gap_bytes),
        (LossKind::FramesUndecodable, counters.undecodable_frames),
    ];
    let unobservable = vec![Unobservable {
        what: "what the broker, its kernel and its disk did".to_owned(),
        why: "a packet capture holds no kernel events".to_owned(),
    }];
    let notes = packets::notes(&captures, false);
    Ok(judged.finish(about::capture(&args.inputs), unobservable, notes, &losses))
}

/// The engine, and the page that is being made of what goes through it.
struct Judged {
    engine: Engine,
    collector: Collector,
    slower_than: Nanos,
}

impl Judged {
    fn new(args: &Report, file_ops_observed: bool, origin: Option<Nanos>) -> Self {
        let config = Config { file_ops_observed, ..Config::replay(args.slower_than) };
        let collector = Collector::new(origin, args.slower_than);
        Self { engine: Engine::new(config), collector, slower_than: args.slower_than }
    }

    fn event(&mut self, event: Event) {
        self.collector.event(&event);
        self.engine.push(event);
        self.decided();
    }

    fn decided(&mut self) {
        for verdict in self.engine.take_verdicts() {
            self.collector.verdict(&verdict);
        }
    }

    fn finish(
        mut self,
        about: About,
        unobservable: Vec<Unobservable>,
        notes: Vec<String>,
        losses: &[(LossKind, u64)],
    ) -> RecordingData {
        let mut summary: Summary = self.engine.finish();
        self.decided();
        summary.losses.extend(losses.iter().filter(|(_, count)| *count > 0));
        let conclusion =
            Conclusion { summary, slower_than: self.slower_than, unobservable, agreement: None, notes };
        self.collector.finish(about, &conclusion)
    }
}

fn write(args: &Report, page: &Page) -> anyhow::Result<()> {
    let mut out: Box<dyn Write> = if args.output == Path::new("-") {
        output::stdout(Pace::AllThere)
    } else {
        let created = File::create(&args.output);
        Box::new(BufWriter::new(created.with_context(|| format!("{}: cannot write", args.output.display()))?))
    };
    let written = match args.format {
        PageFormat::Html => html::write(&mut out, page),
        PageFormat::Json => html::write_json(&mut out, page),
        PageFormat::Perfetto => perfetto::write(&mut out, page),
        PageFormat::Md => markdown::write(&mut out, page),
    };
    written.and_then(|()| out.flush()).with_context(|| format!("{}: cannot write", args.output.display()))
}
