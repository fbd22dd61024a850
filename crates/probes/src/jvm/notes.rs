//! The probes that a library says it has: the notes of its section `.note.stapsdt`, as systemtap's `sys/sdt.h` writes them
//! for ELF files of 64 bits. Reads names only; where the arguments are is libbpf's to know.

use std::collections::BTreeSet;

/// Name, kind and padding of each note.
const OWNER: &[u8] = b"stapsdt\0";
const KIND: u32 = 3;
const HEADER_BYTES: usize = 12;
/// Place of the probe, base and semaphore, before the names.
const ADDRESSES_BYTES: usize = 24;
/// A libjvm has some 700.
const MAX_PROBES: usize = 8_192;
const MAX_NAME_BYTES: usize = 256;

/// Provider and name of each probe, with a colon between. Ends where the bytes make no sense any more.
pub(super) fn probes(mut section: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    while let Some((description, rest)) = note(section) {
        found.extend(description.and_then(name));
        if found.len() >= MAX_PROBES {
            break;
        }
        section = rest;
    }
    found
}

/// The first note's description if it is one of a probe, and what follows the note.
fn note(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (owner_bytes, description_bytes, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let owner = bytes.get(HEADER_BYTES..HEADER_BYTES.checked_add(owner_bytes)?)?;
    let at = HEADER_BYTES.checked_add(padded(owner_bytes)?)?;
    let description = bytes.get(at..at.checked_add(description_bytes)?)?;
    let rest = bytes.get(at.checked_add(padded(description_bytes)?)?..).unwrap_or_default();
    Some(((owner == OWNER && kind == KIND).then_some(description), rest))
}

/// To four bytes.
fn padded(length: usize) -> Option<usize> {
    length.checked_next_multiple_of(4)
}

fn name(description: &[u8]) -> Option<String> {
    let mut texts = description.get(ADDRESSES_BYTES..)?.split(|&byte| byte == 0);
    let (provider, name) = (texts.next()?, texts.next()?);
    if provider.len() + name.len() > MAX_NAME_BYTES {
        return None;
    }
    // Without the zero that ends it, the name is cut.
    texts.next()?;
    Some(format!("{}:{}", std::str::from_utf8(provider).ok()?, std::str::from_utf8(name).ok()?))
}

#[cfg(test)]
mod tests {
    use super::probes;

    fn note(owner: &[u8], kind: u32, texts: &[u8]) -> Vec<u8> {
        let description = [&[7; 24], texts].concat();
        let mut bytes = [owner.len() as u32, description.len() as u32, kind].map(u32::to_ne_bytes).concat();
        for part in [owner, &description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn probes_are_named_by_their_notes() {
        let mut section = note(b"stapsdt\0", 3, b"hotspot\0gc__end\0\0");
        section.extend(note(b"GNU\0", 3, b"not\0one\0\0"));
        section.extend(note(b"stapsdt\0", 1, b"not\0one\0\0"));
        section.extend(note(b"stapsdt\0", 3, b"hs_private\0safepoint__begin\x008@%rdi\0"));
        let found: Vec<_> = probes(&section).into_iter().collect();
        assert_eq!(found, ["hotspot:gc__end", "hs_private:safepoint__begin"]);
    }

    #[test]
    fn notes_that_end_early_or_lie_name_nothing_more() {
        let whole = note(b"stapsdt\0", 3, b"hotspot\0gc__end\0\0");
        for length in 0..whole.len() - 3 {
            assert!(probes(&whole[..length]).is_empty(), "{length}");
        }
        for at in [0, 4] {
            let mut lying = whole.clone();
            lying[at..at + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
            assert!(probes(&lying).is_empty());
        }
        assert!(probes(&note(b"stapsdt\0", 3, b"no end")).is_empty());
        assert!(probes(&note(b"stapsdt\0", 3, &[0xff; 600])).is_empty());
    }
}
