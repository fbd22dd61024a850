//! Typing words to search or filter by: every letter takes effect at once. Does not draw.

use super::{Mode, Ui};
use crate::keys::Key;
use crate::state::State;

/// Maximum number of letters.
const MAX: usize = 100;

/// The words being typed.
pub(crate) struct Prompt {
    pub(crate) purpose: Purpose,
    pub(crate) words: String,
    /// Whether nothing matches.
    pub(crate) is_nowhere: bool,
}

/// The purpose of typed words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Search,
    Filter,
}

impl Prompt {
    pub(super) fn new(purpose: Purpose, words: String) -> Self {
        Self { purpose, words, is_nowhere: false }
    }
}

impl Ui {
    pub(super) fn type_key(&mut self, key: Key, state: &State) {
        let Mode::Typing(Prompt { purpose, words, .. }) = &mut self.mode else { return };
        let purpose = *purpose;
        match key {
            Key::Char(c) if words.chars().count() < MAX => words.push(c),
            Key::Backspace => drop(words.pop()),
            Key::F(3) if purpose == Purpose::Search => {}
            Key::Esc | Key::Enter => {
                if (key, purpose) == (Key::Esc, Purpose::Filter) {
                    self.listing_mut().filter.clear();
                }
                self.mode = Mode::Browse;
                return;
            }
            _ => return,
        }
        let words = words.clone();
        match purpose {
            Purpose::Search => self.search_typed(words, state, key == Key::F(3)),
            Purpose::Filter => self.listing_mut().filter = words,
        }
    }

    fn search_typed(&mut self, words: String, state: &State, further: bool) {
        let rows = self.listing().rows(state);
        let found = self.listing_mut().find(&rows, &words, further);
        self.search = words;
        if let Mode::Typing(typed) = &mut self.mode {
            typed.is_nowhere = !found;
        }
    }
}
