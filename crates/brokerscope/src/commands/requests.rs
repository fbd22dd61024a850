//! `requests`: every request of a capture, with its latency.

mod shown;

use capture::{Analyzer, Captures};

use crate::cli::Requests;
use crate::failure::Usage;
use crate::input::{self, Packets};
use crate::output::Pace;
use crate::packets;
use crate::stop::Stop;
use shown::Shown;

/// Shows the requests.
pub(crate) fn run(args: &Requests) -> anyhow::Result<()> {
    let input = Packets::of(&args.inputs)?;
    if args.duration.is_some() && matches!(input, Packets::Files(_)) {
        return Err(Usage("--for is for live input and `-`; a file is read to its end".to_owned()).into());
    }
    check_snaplen(args, &input)?;
    // Files are opened before anything is written: one that cannot be read leaves no headings behind.
    let stop = Stop::after(args.duration)?;
    let analyzer = packets::analyzer(&args.filter, &args.target)?;
    match input {
        Packets::Files(paths) => read(args, input::open_files(&paths)?, analyzer, &stop, Pace::AllThere),
        Packets::Pipe(path) => read(args, input::open_pipe(&path, &stop)?, analyzer, &stop, Pace::AsTheyCome),
        Packets::Stdin => read(args, input::open_stdin(&stop)?, analyzer, &stop, Pace::AsTheyCome),
        Packets::Live(interface) => live(args, &interface, analyzer, &stop),
    }
}

/// A snap length that is not obeyed, or that hides what was asked for, must not look as if it were fine.
fn check_snaplen(args: &Requests, input: &Packets) -> Result<(), Usage> {
    let refuse = |why: &str| Err(Usage(format!("--snaplen {why}")));
    match (args.snaplen, input) {
        (Some(_), Packets::Files(_) | Packets::Pipe(_) | Packets::Stdin) => {
            refuse("is for live input; what tcpdump keeps of a packet, tcpdump's own -s says")
        }
        (Some(_), Packets::Live(_)) if args.filter.message_id.is_some() => {
            refuse("cuts off the records in which --message-id looks; leave one of them out")
        }
        _ => Ok(()),
    }
}

fn read(
    args: &Requests,
    mut captures: Captures,
    mut analyzer: Analyzer,
    stop: &Stop,
    pace: Pace,
) -> anyhow::Result<()> {
    let mut shown = Shown::new(args, pace);
    packets::read_files(&mut captures, &mut analyzer, stop, &mut |request| shown.request(request))?;
    let was_stopped = pace == Pace::AsTheyCome && stop.asked();
    shown.finish(&analyzer.counters(), packets::notes(&captures, was_stopped))?;
    packets::check(&captures)
}

#[cfg(feature = "live")]
fn live(args: &Requests, interface: &str, mut analyzer: Analyzer, stop: &Stop) -> anyhow::Result<()> {
    let mut shown = Shown::new(args, Pace::AsTheyCome);
    let drops = packets::read_live(
        &packets::live_config(interface, &args.filter, args.snaplen),
        &mut analyzer,
        stop,
        &mut |request| shown.request(request),
    )?;
    let counters = capture::Counters { kernel_drops: drops, ..analyzer.counters() };
    shown.finish(&counters, Vec::new())
}

#[cfg(not(feature = "live"))]
fn live(_args: &Requests, interface: &str, _analyzer: Analyzer, _stop: &Stop) -> anyhow::Result<()> {
    anyhow::bail!(
        "live:{interface}: this brokerscope was built without live capture; pipe `tcpdump -U -w -` into \
         `brokerscope requests -`"
    )
}
