//! What every experiment starts with: an account on stderr, a flag for Ctrl-C, and a machine on which no killed lab has left
//! anything.

use std::path::Path;

use crate::clean;
use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::observer::Observer;
use crate::steps::Steps;

/// A running experiment's own.
pub(crate) struct Session {
    pub(crate) steps: Steps,
    pub(crate) interrupt: Interrupt,
}

impl Session {
    /// Catches signals and takes down what killed labs left; with it the `brokerscope` to run.
    pub(crate) fn start(brokerscope: Option<&Path>) -> Result<(Self, Observer), Error> {
        let (steps, interrupt) = (Steps::aloud(), Interrupt::catch()?);
        clean::sweep(steps)?;
        let observer = Observer::new(brokerscope, &interrupt)?;
        Ok((Self { steps, interrupt }, observer))
    }
}

/// Draws a seed that is short enough to be typed.
pub(crate) fn draw_seed() -> u64 {
    fastrand::u32(..).into()
}
