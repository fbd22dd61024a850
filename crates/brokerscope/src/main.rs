//! The program; the library beside it is its command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    brokerscope::run()
}
