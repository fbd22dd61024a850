//! Text as `report` paints it for terminals, in pieces. Understands what `report::paint` writes and nothing else: text from
//! outside has no control characters left by then.

use report::paint::Role;

use crate::item::Cell;
use crate::palette::Tone;

const ESCAPE: &str = "\x1b[";

/// A line in pieces.
pub(super) fn pieces(line: &str) -> Cell {
    let mut parts = line.split(ESCAPE);
    let mut pieces = vec![(parts.next().unwrap_or_default().to_owned(), Tone::Plain)];
    for part in parts {
        let (code, text) = part.split_once('m').unwrap_or(("", part));
        pieces.push((text.to_owned(), tone(code)));
    }
    pieces.retain(|(text, _)| !text.is_empty());
    pieces
}

fn tone(code: &str) -> Tone {
    let of = |role: Role| code == role.code();
    match () {
        () if of(Role::Heading) => Tone::Strong,
        () if of(Role::Bad) => Tone::Bad,
        () if of(Role::Good) => Tone::Good,
        () if of(Role::Faint) => Tone::Faint,
        () => Tone::Plain,
    }
}

#[cfg(test)]
mod tests {
    use report::paint::{Role, paint};

    use super::pieces;
    use crate::palette::Tone;

    #[test]
    fn what_was_painted_has_its_tone_and_no_codes() {
        let line = format!("a {}b{}", paint(true, Role::Bad, "bad"), paint(true, Role::Faint, " faint"));
        let expected = [("a ", Tone::Plain), ("bad", Tone::Bad), ("b", Tone::Plain), (" faint", Tone::Faint)];
        let expected = expected.map(|(text, tone)| (text.to_owned(), tone));
        assert_eq!(pieces(&line), expected);
        assert_eq!(pieces(""), []);
    }
}
