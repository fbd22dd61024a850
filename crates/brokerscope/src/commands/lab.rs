//! `lab`: experiments, all of them done by the crate of that name.

use crate::cli::Lab;

/// Runs an experiment.
pub(crate) fn run(args: Lab) -> anyhow::Result<()> {
    lab::run(args.command).map_err(anyhow::Error::from)
}
