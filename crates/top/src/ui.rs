//! The user's view, as a function of keys. Does not draw, and does not read keys.

pub(crate) mod typing;

use model::Verdict;

use crate::item::RowKey;
use crate::keys::{INTERRUPT, Key, REDRAW, RESIZED, SUSPEND};
use crate::listing::Listing;
use crate::state::State;
use crate::view::View;
use typing::{Prompt, Purpose};

/// The user's view.
pub struct Ui {
    pub(crate) view: View,
    listings: [Listing; View::ALL.len()],
    pub(crate) mode: Mode,
    /// The last search.
    pub(crate) search: String,
    /// Whether the screen is paused.
    pub paused: bool,
    /// Rows of the list, or lines of a text, when it was last drawn.
    pub(crate) page: usize,
    /// A message to show until the next key.
    pub(crate) message: Option<String>,
}

/// The meaning of keys.
pub(crate) enum Mode {
    /// Browsing rows.
    Browse,
    /// Typing words.
    Typing(Prompt),
    /// Choosing the column to sort by.
    Sort { choice: usize },
    /// Reading the help, from this line on.
    Help { top: usize },
    /// Reading the details of a request, from this line on.
    Chain { verdict: Box<Verdict>, top: usize },
}

/// What the caller must do after a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Draw.
    Draw,
    /// Quit.
    Quit,
    /// Pause or resume.
    Pause,
    /// Double the replay speed.
    Faster,
    /// Halve the replay speed.
    Slower,
    /// Suspend, and return the terminal to the shell.
    Suspend,
    /// Redraw everything.
    Redraw,
}

impl Default for Ui {
    fn default() -> Self {
        Self {
            view: View::Requests,
            listings: View::ALL.map(Listing::of),
            mode: Mode::Browse,
            search: String::new(),
            paused: false,
            page: 1,
            message: None,
        }
    }
}

impl Ui {
    #[expect(clippy::indexing_slicing, reason = "there is a listing for every view")]
    pub(crate) fn listing(&self) -> &Listing {
        &self.listings[self.view as usize]
    }

    #[expect(clippy::indexing_slicing, reason = "there is a listing for every view")]
    pub(crate) fn listing_mut(&mut self) -> &mut Listing {
        &mut self.listings[self.view as usize]
    }

    /// Handles a key.
    pub fn key(&mut self, key: Key, state: &State) -> Outcome {
        self.message = None;
        match key {
            INTERRUPT | Key::F(10) => return Outcome::Quit,
            SUSPEND => return Outcome::Suspend,
            REDRAW => return Outcome::Redraw,
            RESIZED => return Outcome::Draw,
            _ => {}
        }
        match &mut self.mode {
            Mode::Browse => return self.browse(key, state),
            Mode::Typing(_) => self.type_key(key, state),
            Mode::Sort { .. } => self.choose(key),
            Mode::Help { top } | Mode::Chain { top, .. } => {
                if let Some(moved) = scrolled(key, *top, self.page) {
                    *top = moved;
                } else {
                    self.mode = Mode::Browse;
                }
            }
        }
        Outcome::Draw
    }

    fn browse(&mut self, key: Key, state: &State) -> Outcome {
        match key {
            Key::Char('q') => return Outcome::Quit,
            Key::Char('p' | 'Z') => return Outcome::Pause,
            Key::Char('+' | '=') => return Outcome::Faster,
            Key::Char('-') => return Outcome::Slower,
            Key::F(1) | Key::Char('h' | '?') => self.mode = Mode::Help { top: 0 },
            Key::F(3) | Key::Char('/') => {
                self.mode = Mode::Typing(Prompt::new(Purpose::Search, String::new()));
            }
            Key::F(4) | Key::Char('\\') => {
                self.mode = Mode::Typing(Prompt::new(Purpose::Filter, self.listing().filter.clone()));
            }
            Key::F(5 | 6) | Key::Char('>' | '.' | '<' | ',') => {
                self.mode = Mode::Sort { choice: self.listing().sorted_by };
            }
            Key::Tab | Key::Right => self.view = self.view.next(1),
            Key::BackTab | Key::Left => self.view = self.view.next(View::ALL.len() - 1),
            Key::Char(digit @ '1'..='5') => {
                self.view = View::Requests.next(digit as usize - '1' as usize);
            }
            Key::Char('I') => {
                let listing = self.listing_mut();
                listing.descending = !listing.descending;
            }
            Key::Char('t') => self.group(),
            Key::Char('U') => self.listing_mut().tagged.clear(),
            Key::Esc => self.listing_mut().filter.clear(),
            other => self.in_rows(other, state),
        }
        Outcome::Draw
    }

    fn group(&mut self) {
        let listing = self.listing_mut();
        if listing.table().grouping.is_some() {
            listing.group(!listing.grouped);
        } else {
            self.message = Some("requests cannot be grouped; view 2 groups them by cause".to_owned());
        }
    }

    /// Handles keys that need the rows.
    fn in_rows(&mut self, key: Key, state: &State) {
        let page = isize::try_from(self.page.max(1)).unwrap_or(isize::MAX);
        let rows = self.listing().rows(state);
        let last = rows.items.len().saturating_sub(1);
        let selected = self.listing().selected(&rows);
        let search = self.search.clone();
        let listing = self.listing_mut();
        match key {
            Key::Up | Key::Char('k') => listing.step(&rows, -1),
            Key::Down | Key::Char('j') => listing.step(&rows, 1),
            Key::PageUp => listing.step(&rows, -page),
            Key::PageDown => listing.step(&rows, page),
            Key::Home | Key::Char('g') => listing.select(None),
            Key::End | Key::Char('G') => listing.select_index(&rows, last),
            Key::Char('n') if !search.is_empty() => {
                listing.find(&rows, &search, true);
            }
            Key::Char(' ') => {
                if let Some(key) = selected {
                    listing.tag(key);
                }
                listing.step(&rows, 1);
            }
            Key::Enter => {
                drop(rows);
                if let Some(key) = selected {
                    self.enter(key, state);
                }
            }
            _ => {}
        }
    }

    /// Opens a row: a request's chain, a root's victims, the operations on a file or of a thread.
    fn enter(&mut self, key: RowKey, state: &State) {
        match key {
            RowKey::Request(number) => {
                if let Some(request) = state.slow.find(number) {
                    self.mode = Mode::Chain { verdict: Box::new(request.verdict.clone()), top: 0 };
                }
            }
            RowKey::Root(id) => self.show(View::Requests, &id),
            RowKey::Cause(cause) => self.show(View::Requests, cause.as_str()),
            RowKey::FileOfOperations(file) => {
                self.listing_mut().group(false);
                self.show(View::Writes, &file.unwrap_or_default());
            }
            RowKey::Operation(number) => {
                let operation = state.operations.slowest.iter().find(|op| op.number == number);
                if let Some(file) = operation.map(|operation| operation.op.file.clone()) {
                    self.listing_mut().group(true);
                    self.show(View::Writes, &file);
                }
            }
            RowKey::Traffic(report::files::GroupKey::File { file, .. }) => self.show(View::Writes, &file),
            RowKey::Traffic(report::files::GroupKey::Kind(kind)) => {
                self.listing_mut().group(false);
                self.show(View::Files, kind);
            }
            RowKey::Traffic(_) => {}
            RowKey::Thread(tid) => self.show(View::Writes, &tid.to_string()),
            RowKey::Role(role) => {
                self.listing_mut().group(false);
                self.show(View::Threads, role);
            }
        }
    }

    /// Shows another view, filtered by these words.
    fn show(&mut self, view: View, words: &str) {
        self.view = view;
        let listing = self.listing_mut();
        words.clone_into(&mut listing.filter);
        listing.select(None);
        self.message = Some("Esc shows all again".to_owned());
    }

    fn choose(&mut self, key: Key) {
        let last = self.listing().table().columns.len() - 1;
        let Mode::Sort { choice } = &mut self.mode else { return };
        match key {
            Key::Up | Key::Char('k') => *choice = choice.saturating_sub(1),
            Key::Down | Key::Char('j') => *choice = (*choice + 1).min(last),
            Key::Home => *choice = 0,
            Key::End => *choice = last,
            Key::Enter | Key::F(5 | 6) => {
                let choice = *choice;
                self.listing_mut().sort(choice);
                self.mode = Mode::Browse;
            }
            _ => self.mode = Mode::Browse,
        }
    }
}

/// The first visible line of a text after a key; `None` if the key closes it.
fn scrolled(key: Key, top: usize, page: usize) -> Option<usize> {
    Some(match key {
        Key::Up | Key::Char('k') => top.saturating_sub(1),
        Key::Down | Key::Char('j') => top + 1,
        Key::PageUp => top.saturating_sub(page),
        Key::PageDown | Key::Char(' ') => top + page,
        Key::Home | Key::Char('g') => 0,
        // Drawing limits it to the end.
        Key::End | Key::Char('G') => usize::MAX / 2,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
