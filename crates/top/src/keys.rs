//! The keys, apart from the terminal that they come from. Does not say what they do.

use ratatui::crossterm::event::{Event, KeyCode, KeyEventKind, KeyModifiers};

/// A key that was pressed, or what else the terminal told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A function key.
    F(u8),
    /// An arrow.
    Up,
    /// An arrow.
    Down,
    /// An arrow.
    Left,
    /// An arrow.
    Right,
    /// A page back.
    PageUp,
    /// A page on.
    PageDown,
    /// To the beginning.
    Home,
    /// To the end.
    End,
    /// Return.
    Enter,
    /// Escape.
    Esc,
    /// The key that takes back a character.
    Backspace,
    /// Tab.
    Tab,
    /// Tab with shift.
    BackTab,
    /// Ctrl-C: raw terminals send no signal.
    Interrupt,
    /// Ctrl-Z, likewise.
    Suspend,
    /// Ctrl-L: draw everything again.
    Redraw,
    /// The terminal has another size now.
    Resized,
}

impl Key {
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let key = match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => key,
            Event::Resize(..) => return Some(Self::Resized),
            _ => return None,
        };
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return match key.code {
                KeyCode::Char('c') => Some(Self::Interrupt),
                KeyCode::Char('z') => Some(Self::Suspend),
                KeyCode::Char('l') => Some(Self::Redraw),
                KeyCode::Char('h') => Some(Self::Backspace),
                _ => None,
            };
        }
        Some(match key.code {
            KeyCode::Char(c) => Self::Char(c),
            KeyCode::F(n) => Self::F(n),
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Esc,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Tab => Self::Tab,
            KeyCode::BackTab => Self::BackTab,
            _ => return None,
        })
    }
}
