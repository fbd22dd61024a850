//! `explain`: why requests were slow, from a recording, live, or, as far as packets say, from a capture.

mod judged;
mod keep;
#[cfg(feature = "live")]
mod live;
#[cfg(feature = "live")]
mod timeliness;

use std::path::PathBuf;

use diagnose::Config;

use crate::cli::Explain;
use crate::failure::Usage;
use crate::grounds::Grounds;
use crate::output::Pace;
use crate::packets;
use crate::stop::Stop;
use judged::Judged;

/// Explains the slow requests.
pub(crate) fn run(args: &Explain) -> anyhow::Result<()> {
    packets::check_apis(&args.filter)?;
    if let Some(interface) = live_interface(&args.inputs) {
        if args.follow || args.save {
            return Err(Usage("--follow and --save go with a recording".to_owned()).into());
        }
        return live(args, interface);
    }
    if args.duration.is_some() && !args.follow {
        return Err(
            Usage("--for is for live input and --follow; a recording is read to its end".to_owned()).into()
        );
    }
    from_files(args)
}

/// The interface to capture on, where the broker that runs here is meant.
fn live_interface(inputs: &[PathBuf]) -> Option<&str> {
    let [input] = inputs else { return None };
    match input.to_str()? {
        "live" => Some("any"),
        other => other.strip_prefix("live:"),
    }
}

#[cfg(feature = "live")]
fn live(args: &Explain, interface: &str) -> anyhow::Result<()> {
    if !args.beside.jfr.is_empty() {
        return Err(Usage("--jfr goes with a recording; live there is --flight-recorder".to_owned()).into());
    }
    live::run(args, interface)
}

#[cfg(not(feature = "live"))]
fn live(_args: &Explain, _interface: &str) -> anyhow::Result<()> {
    Err(Usage("name a recording: this brokerscope was built without the feature `live`".to_owned()).into())
}

/// How the engine works, with what the user asked for.
fn config(args: &Explain, config: Config) -> Config {
    Config { only_request: args.request, ..config }
}

fn from_files(args: &Explain) -> anyhow::Result<()> {
    let mut grounds = Grounds::open(&args.inputs, &args.beside.jfr, &args.filter, &args.target)?;
    let kept = if args.save { Some(keep::in_recording(&grounds, args.slower_than)?) } else { None };
    let config = config(args, grounds.config(args.slower_than));
    let pace = if args.follow { Pace::AsTheyCome } else { Pace::AllThere };
    let mut judged = Judged::new(args, config.clone(), grounds.watched(), pace)?.keeping(kept);
    let mut sink = |event| judged.event(event);
    if args.follow {
        grounds.follow(&Stop::after(args.duration)?, &args.presentation, &mut sink)?;
    } else {
        grounds.read_for_verdicts(&config, &mut sink)?;
    }
    judged.finish(grounds.known(args.slower_than, &args.presentation))?;
    grounds.check()
}
