//! Text from outside, escaped and cut to columns of a terminal. Does not wrap.

use report::escape::escape;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

const CUT: char = '…';

/// The width of a text in columns.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to its first columns, safe to show.
pub(crate) fn clip(text: &str, columns: usize) -> String {
    let safe = escape(text);
    if width(&safe) <= columns {
        return safe.into_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let mut clipped = beginning(safe.chars(), room);
    clipped.push(CUT);
    clipped
}

/// Cuts out the middle of a text whose start and end both matter: `orders-3/0000…17.log`.
/// Safe to show.
pub(crate) fn clip_middle(text: &str, columns: usize) -> String {
    let safe = escape(text);
    if width(&safe) <= columns {
        return safe.into_owned();
    }
    let Some(room) = columns.checked_sub(1) else { return String::new() };
    let head = beginning(safe.chars(), room - room / 3);
    let tail = beginning(safe.chars().rev(), room / 3);
    head.chars().chain([CUT]).chain(tail.chars().rev()).collect()
}

fn beginning(chars: impl Iterator<Item = char>, columns: usize) -> String {
    let mut room = columns;
    let fits = chars.take_while(|c| {
        let needed = c.width().unwrap_or(0);
        let fits = needed <= room;
        room = room.saturating_sub(needed);
        fits
    });
    fits.collect()
}

#[cfg(test)]
mod tests {
    use super::{clip, clip_middle, width};

    #[test]
    fn clipped_text_has_an_ellipsis_and_fits_the_width() {
        for (text, columns, expected) in [
            ("orders", 6, "orders"),
            ("orders", 5, "orde…"),
            ("orders", 1, "…"),
            ("orders", 0, ""),
            ("", 0, ""),
            ("\x1b[2J", 9, "\\x1b[2J"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
        ] {
            assert_eq!(clip(text, columns), expected, "{text:?}");
            assert!(width(&clip(text, columns)) <= columns);
        }
        assert_eq!(clip_middle("orders-3/00000000000000000017.log", 20), "orders-3/0000…17.log");
        for columns in 0..40 {
            assert!(width(&clip_middle("日本語-0/00000000000000000017.log", columns)) <= columns);
        }
    }
}
