//! Typing words to search or filter by: every letter shows at once. Does not draw what was typed.

use super::{Mode, Ui};
use crate::keys::Key;
use crate::state::State;

/// Letters that may be typed.
const MAX: usize = 100;

/// Words that are being typed.
pub(crate) struct Prompt {
    pub(crate) purpose: Purpose,
    pub(crate) words: String,
    /// Whether nothing has them.
    pub(crate) is_nowhere: bool,
}

/// What words are typed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Search,
    Filter,
}

impl Purpose {
    /// What is said before the words.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Search => "Search",
            Self::Filter => "Filter",
        }
    }

    /// The keys that mean something then.
    pub(crate) fn keys(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Search => &[("F3", "Next"), ("↵", "Done"), ("Esc", "Done")],
            Self::Filter => &[("↵", "Done"), ("Esc", "Clear")],
        }
    }
}

impl Prompt {
    pub(super) fn search() -> Self {
        Self { purpose: Purpose::Search, words: String::new(), is_nowhere: false }
    }

    pub(super) fn filter(words: String) -> Self {
        Self { purpose: Purpose::Filter, words, is_nowhere: false }
    }
}

impl Ui {
    pub(super) fn type_key(&mut self, key: Key, state: &State) {
        let Mode::Typing(typed) = &mut self.mode else { return };
        let purpose = typed.purpose;
        match key {
            Key::Char(c) if typed.words.chars().count() < MAX => typed.words.push(c),
            Key::Backspace => {
                typed.words.pop();
            }
            Key::F(3) if purpose == Purpose::Search => return self.search_typed(state, true),
            Key::Esc => {
                if purpose == Purpose::Filter {
                    self.listing_mut().filter.clear();
                }
                self.mode = Mode::Browse;
                return;
            }
            Key::Enter => {
                self.mode = Mode::Browse;
                return;
            }
            _ => return,
        }
        match purpose {
            Purpose::Search => self.search_typed(state, false),
            Purpose::Filter => self.filter_typed(),
        }
    }

    fn search_typed(&mut self, state: &State, further: bool) {
        let Mode::Typing(Prompt { words, .. }) = &self.mode else { return };
        let words = words.clone();
        self.search.clone_from(&words);
        let rows = self.listing().rows(state);
        let found = self.listing_mut().find(&rows, &words, further);
        if let Mode::Typing(typed) = &mut self.mode {
            typed.is_nowhere = !found;
        }
    }

    fn filter_typed(&mut self) {
        let Mode::Typing(Prompt { words, .. }) = &self.mode else { return };
        let words = words.clone();
        self.listing_mut().filter = words;
    }
}
