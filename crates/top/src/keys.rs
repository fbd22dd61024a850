//! Keys, independent of the terminal that sends them. Does not say what they do.

use ratatui::crossterm::event::{Event, KeyEventKind, KeyModifiers};

pub use ratatui::crossterm::event::KeyCode as Key;

/// Ctrl-C: raw terminals send no signal.
pub(crate) const INTERRUPT: Key = Key::Char('\u{3}');
/// Ctrl-Z, likewise.
pub(crate) const SUSPEND: Key = Key::Char('\u{1a}');
/// Ctrl-L: redraws everything.
pub(crate) const REDRAW: Key = Key::Char('\u{c}');
/// The terminal was resized.
pub(crate) const RESIZED: Key = Key::Null;

/// The key of a terminal event, including a resize.
pub(crate) fn key_of(event: &Event) -> Option<Key> {
    let key = match event {
        Event::Key(key) if key.kind != KeyEventKind::Release => key,
        Event::Resize(..) => return Some(RESIZED),
        _ => return None,
    };
    match key.code {
        code if is_without_meaning(code) => None,
        code if !key.modifiers.contains(KeyModifiers::CONTROL) => Some(code),
        Key::Char('c') => Some(INTERRUPT),
        Key::Char('z') => Some(SUSPEND),
        Key::Char('l') => Some(REDRAW),
        Key::Char('h') => Some(Key::Backspace),
        _ => None,
    }
}

/// Whether a key has no meaning anywhere: "any key" does not include it.
fn is_without_meaning(key: Key) -> bool {
    use Key::{
        CapsLock, Delete, Insert, KeypadBegin, Media, Menu, Modifier, NumLock, Pause, PrintScreen, ScrollLock,
    };
    let locks = matches!(key, CapsLock | NumLock | ScrollLock | Modifier(_));
    locks || matches!(key, Insert | Delete | Menu | Pause | PrintScreen | KeypadBegin | Media(_))
}
