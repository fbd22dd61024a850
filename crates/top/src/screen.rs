//! The terminal: taken for the whole screen, and given back as it was, however that ends. Does not know what is drawn.

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

/// Whether the terminal is taken: there is but one.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// A whole screen of the largest terminal goes out in one piece.
const BUFFERED: usize = 256 << 10;

/// The whole terminal. Dropped, or when any thread panics, the terminal is what it was before.
pub struct Screen {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
}

impl Screen {
    /// Takes the terminal that standard output is.
    ///
    /// # Errors
    /// Where it is none, or cannot be had.
    pub fn take() -> io::Result<Self> {
        give_back_on_panic();
        let out = BufWriter::with_capacity(BUFFERED, stdout());
        let terminal = Terminal::new(CrosstermBackend::new(out))?;
        let mut screen = Self { terminal };
        screen.take_again()?;
        Ok(screen)
    }

    /// Takes it once more, after [`Self::give_back`].
    ///
    /// # Errors
    /// As [`Self::take`].
    pub fn take_again(&mut self) -> io::Result<()> {
        TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        execute!(stdout(), EnterAlternateScreen, Hide)?;
        self.terminal.clear()
    }

    /// Lets others have it.
    pub fn give_back(&mut self) {
        give_back();
    }

    /// Whether it is still taken: a thread that panicked has given it back.
    pub fn is_taken(&self) -> bool {
        TAKEN.load(Ordering::SeqCst)
    }

    /// Draws what has changed, at once.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        execute!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        self.terminal.draw(draw)?;
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)
    }

    /// Draws everything again the next time.
    ///
    /// # Errors
    /// Where the terminal is gone.
    pub fn clear(&mut self) -> io::Result<()> {
        self.terminal.clear()
    }

    /// The next key, if one comes within this time.
    ///
    /// # Errors
    /// Where the terminal is gone.
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

/// Waits until there may be something to read. Asks the kernel itself: of a terminal that is gone, as when its window was closed,
/// crossterm reads the end again and again and does not return.
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
        give_back();
    }
}

/// Nothing is left to do where that fails.
fn give_back() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = disable_raw_mode();
        let _ = execute!(stdout(), EndSynchronizedUpdate, LeaveAlternateScreen, Show);
    }
}

/// What a panic says is to be read on the terminal as it was.
fn give_back_on_panic() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            give_back();
            before(info);
        }));
    });
}
