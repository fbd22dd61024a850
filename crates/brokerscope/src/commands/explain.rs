//! `explain`: why requests were slow, from a recording, live, or, as far as packets say, from a capture.

mod judged;
#[cfg(feature = "live")]
mod live;

use std::path::PathBuf;

use diagnose::Config;

use crate::cli::Explain;
use crate::failure::Usage;
use crate::grounds::Grounds;
use crate::output::Pace;
use crate::packets;
use judged::Judged;

/// Explains the slow requests.
pub(crate) fn run(args: &Explain) -> anyhow::Result<()> {
    packets::check_apis(&args.filter)?;
    if let Some(interface) = live_interface(&args.inputs) {
        return live(args, interface);
    }
    if args.duration.is_some() {
        return Err(Usage("--for is for live input; a recording is read to its end".to_owned()).into());
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
    if !args.jfr.is_empty() {
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
    Config { asked: args.request, ..config }
}

fn from_files(args: &Explain) -> anyhow::Result<()> {
    let mut grounds = Grounds::open(&args.inputs, &args.jfr, &args.filter, &args.target)?;
    let config = config(args, grounds.config(args.slower_than));
    let mut judged = Judged::new(args, config, grounds.watched(), Pace::AllThere)?;
    grounds.read(&mut |event| judged.event(event))?;
    judged.finish(grounds.known(args.slower_than, &args.presentation))?;
    grounds.check()
}
