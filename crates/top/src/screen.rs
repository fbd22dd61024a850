//! The terminal: taken over for full-screen output, and always restored. Does not know what is drawn.

use std::io::{self, BufWriter, Stdout, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
    disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{event, execute};
use ratatui::{Frame, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::keys::{Key, key_of};

/// Whether the terminal is taken; there is only one.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Buffer size: a whole screen of the largest terminal is written at once.
const BUFFERED: usize = 256 << 10;

/// The terminal in full-screen mode. It is restored on drop and when any thread panics.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes over the terminal on standard output.
    ///
    /// # Errors
    /// Standard output is not a terminal, or the terminal cannot be taken over.
    pub fn take() -> io::Result<Self> {
        restore_on_panic();
        let out = BufWriter::with_capacity(BUFFERED, stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let mut screen = Self { terminal };
        screen.retake()?;
        Ok(screen)
    }

    /// Takes it over again, after [`Self::restore`].
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn retake(&mut self) -> io::Result<()> {
        TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        self.terminal.clear()
    }

    /// Restores the terminal for others.
    pub fn restore(&mut self) {
        restore();
    }

    /// Whether it is still taken: a panic in a thread restores it.
    pub fn is_taken(&self) -> bool {
        TAKEN.load(Ordering::SeqCst)
    }

    /// Draws all changes at once.
    ///
    /// # Errors
    /// The terminal was closed.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Makes the next `draw` redraw everything.
    ///
    /// # Errors
    /// The terminal was closed.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// Returns the next key, if one is pressed within this time.
    ///
    /// # Errors
    /// The terminal was closed.
    pub fn key(&self, wait: Duration) -> io::Result<Option<Key>> {
        for wait in [Duration::ZERO, wait] {
            await_input(wait)?;
            if event::poll(Duration::ZERO)? {
                return Ok(key_of(&event::read()?));
            }
        }
        Ok(None)
    }
}

/// Waits until there may be input.
/// Polls the kernel itself, because crossterm reads the end of a closed terminal, for example after its window was
/// closed, in a loop and does not return.
fn await_input(wait: Duration) -> io::Result<()> {
    let terminal = stdout();
    let mut ends = [PollFd::new(&terminal, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut ends, Some(&wait)) {
        Err(Errno::INTR) => return Ok(()),
        polled => polled?,
    };
    let is_gone = ends.iter().any(|end| end.revents().intersects(PollFlags::HUP | PollFlags::ERR));
    if is_gone { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Restores the terminal. Nothing can be done if that fails.
fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), EndSynchronizedUpdate, LeaveAlternateScreen, Show);
    }
}

/// Restores the terminal on a panic, so that its message can be read.
fn restore_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            before(info);
        }));
    });
}
