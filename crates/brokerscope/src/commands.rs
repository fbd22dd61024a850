//! The commands, one file each.

mod advise;
mod compare;
pub(crate) mod doctor;
mod explain;
mod export;
mod files;
mod fleet;
mod io;
mod kernel;
mod locks;
mod logs;
mod record;
mod report;
mod requests;
mod segment;
mod stacks;
mod top;

use clap::ArgMatches;

use crate::args::Flags;

/// A command.
trait Run: clap::Args {
    /// How the command treats shared flags.
    const FLAGS: Flags = Flags::NONE;

    fn run(&self) -> anyhow::Result<()>;
}

/// Declares the commands: the first line of help, the module and its arguments.
macro_rules! commands {
    ($($(#[$help:meta])* $variant:ident($arguments:path),)+) => {
        /// What to do.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum Command {$(
            $(#[$help])*
            #[command(mut_args(|flag| <$arguments as Run>::FLAGS.adapt(flag)))]
            $variant($arguments),
        )+}

        impl Command {
            /// Runs the command, after reporting or refusing flags that do not apply to it.
            pub(crate) fn run(&self, matches: &ArgMatches) -> anyhow::Result<()> {
                match self {
                    $(Self::$variant(arguments) => {
                        <$arguments as Run>::FLAGS.check(matches)?;
                        arguments.run()
                    })+
                }
            }
        }
    };
}

commands! {
    /// List requests.
    Requests(requests::Requests),
    /// List file operations of the broker.
    Io(io::Io),
    /// Rank files by bytes read and written.
    Files(files::Files),
    /// List journal commits and the kernel functions that waited for them.
    Kernel(kernel::Kernel),
    /// List waits for locks, with their holders.
    Locks(locks::Locks),
    /// Draw where threads spend their time, on and off the CPU.
    Stacks(stacks::Stacks),
    /// List the batches of a segment file.
    Segment(segment::Segment),
    /// Record a broker, to explain it later.
    Record(record::Record),
    /// Explain slow requests.
    Explain(explain::Explain),
    /// Export metrics to Prometheus.
    Export(export::Export),
    /// Write a page that explains slow requests, to look at and pass on.
    Report(report::Report),
    /// Compare configurations.
    Compare(compare::Compare),
    /// Advise what to change.
    Advise(advise::Advise),
    /// Compare the brokers of a fleet.
    Fleet(fleet::Fleet),
    /// Read slow events from the broker's own logs.
    Logs(logs::Logs),
    /// Watch a broker full-screen.
    Top(top::Top),
    /// Check what can be observed on this host, and what is missing.
    Doctor(doctor::Doctor),
}
