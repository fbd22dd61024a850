//! `requests`: every request of a capture, with its latency.

use anyhow::Context as _;
use capture::{Analyzer, Counters, PacketFile};
use model::Request;
use report::requests::{RequestCsv, RequestJson, RequestReport, RequestTable};

use crate::cli::Requests;
use crate::failure::Usage;
use crate::filter::Wanted;
use crate::input::Packets;
use crate::options::Format;
use crate::output::{self, Pace};
use crate::packets;
use crate::stop::Stop;

/// Shows the requests.
pub(crate) fn run(args: &Requests) -> anyhow::Result<()> {
    let input = Packets::of(&args.input);
    if args.duration.is_some() && matches!(input, Packets::File(_)) {
        return Err(Usage("--for is for live input and `-`; a file is read to its end".to_owned()).into());
    }
    // A file is opened before anything is written: one that cannot be read leaves no headings behind.
    let stop = Stop::after(args.duration)?;
    let mut analyzer = packets::analyzer(&args.filter, &args.target)?;
    let (counters, shown, notes) = match input {
        Packets::File(path) => {
            let mut file = packets::open_file(&path)?;
            read(args, &mut file, &mut analyzer, &stop, Pace::AllThere)?
        }
        Packets::Stdin => {
            let mut file = packets::from_stdin(&stop)?;
            read(args, &mut file, &mut analyzer, &stop, Pace::AsTheyCome)?
        }
        Packets::Live(interface) => live(args, &interface, &mut analyzer, &stop)?,
    };
    shown.finish(args, &counters, notes)
}

type Outcome<'a> = (Counters, Shown<'a>, Vec<String>);

fn read<'a>(
    args: &'a Requests,
    file: &mut PacketFile,
    analyzer: &mut Analyzer,
    stop: &Stop,
    pace: Pace,
) -> anyhow::Result<Outcome<'a>> {
    let mut shown = Shown::new(args, pace);
    packets::read_file(file, analyzer, stop, &mut |request| shown.request(request))?;
    Ok((analyzer.counters(), shown, packets::notes(file)))
}

#[cfg(feature = "live")]
fn live<'a>(
    args: &'a Requests,
    interface: &str,
    analyzer: &mut Analyzer,
    stop: &Stop,
) -> anyhow::Result<Outcome<'a>> {
    let mut shown = Shown::new(args, Pace::AsTheyCome);
    let ports = args.filter.ports.clone();
    let drops = packets::read_live(interface, ports, analyzer, stop, &mut |request| shown.request(request))?;
    Ok((Counters { kernel_drops: drops, ..analyzer.counters() }, shown, Vec::new()))
}

#[cfg(not(feature = "live"))]
fn live<'a>(
    _args: &'a Requests,
    interface: &str,
    _analyzer: &mut Analyzer,
    _stop: &Stop,
) -> anyhow::Result<Outcome<'a>> {
    anyhow::bail!(
        "live:{interface}: this brokerscope was built without live capture; pipe `tcpdump -U -w -` into \
         `brokerscope requests -`"
    )
}

/// The output and how many requests went to it.
struct Shown<'a> {
    report: Box<dyn RequestReport>,
    args: &'a Requests,
    count: u64,
}

impl<'a> Shown<'a> {
    fn new(args: &'a Requests, pace: Pace) -> Self {
        let out = output::stdout(pace);
        let report: Box<dyn RequestReport> = match args.presentation.format {
            Format::Table => Box::new(RequestTable::new(out, &args.presentation.look(pace))),
            Format::Json => Box::new(RequestJson(out)),
            Format::Csv => Box::new(RequestCsv::new(out)),
        };
        Self { report, args, count: 0 }
    }

    fn request(&mut self, mut request: Request) -> anyhow::Result<()> {
        let args = self.args;
        if Wanted::new(&args.filter, &args.selection, args.slower_than).admit(&mut request) {
            self.count += 1;
            self.report.request(&request).context("cannot write to standard output")?;
        }
        Ok(())
    }

    fn finish(mut self, args: &Requests, counters: &Counters, notes: Vec<String>) -> anyhow::Result<()> {
        let summary = packets::summary(counters, self.count, notes);
        self.report.finish(&summary).context("cannot write to standard output")?;
        if args.presentation.format != Format::Json {
            for sentence in summary.sentences() {
                args.presentation.say(&sentence);
            }
        }
        Ok(())
    }
}
