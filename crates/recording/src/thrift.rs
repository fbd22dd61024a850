//! Checks Thrift's compact protocol before Parquet's own code reads it.
//! Parquet's footers and page headers are encoded in it. Parquet's code allocates as many elements as a list claims.
//! Does not know what fields mean.
//!
//! Fuzzed by: recording.

/// Nesting of structs and lists: a footer has five levels.
const MAX_DEPTH: u32 = 8;
/// Size of the shortest struct in a list: Parquet's shortest holds an empty struct.
const MIN_STRUCT_BYTES: u64 = 3;

/// Reads a struct at the start of `bytes` and passes its numbers to `out` by field.
/// `None` if the struct is incomplete, if fields are out of order, so that one might occur twice, or if a list claims
/// more elements than fit.
pub(crate) fn read_struct(mut bytes: &[u8], mut out: impl FnMut(u8, i64)) -> Option<()> {
    fields(&mut bytes, MAX_DEPTH, &mut out)
}

fn fields(bytes: &mut &[u8], depth: u32, out: &mut dyn FnMut(u8, i64)) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    let mut field = 0_u8;
    loop {
        let head = byte(bytes)?;
        if head == 0 {
            return Some(());
        }
        let step = head >> 4;
        field = field.checked_add(step).filter(|_| step > 0)?;
        match head & 0xf {
            // Booleans: the head holds the value.
            1 | 2 => {}
            kind => value(kind, bytes, depth, &mut |number| out(field, number))?,
        }
    }
}

/// Reads a value of a kind; passes it to `out` if it is a number.
fn value(kind: u8, bytes: &mut &[u8], depth: u32, out: &mut dyn FnMut(i64)) -> Option<()> {
    match kind {
        // A boolean, which takes a byte only in lists, and an 8-bit number.
        1..=3 => drop(byte(bytes)?),
        // Numbers of 16, 32 and 64 bits.
        4..=6 => {
            let number = varint(bytes)?;
            out((number >> 1) as i64 ^ -((number & 1) as i64));
        }
        7 => *bytes = bytes.get(8..)?,
        8 => {
            let length = usize::try_from(varint(bytes)?).ok()?;
            *bytes = bytes.get(length..)?;
        }
        9 | 10 => list(bytes, depth.checked_sub(1)?)?,
        12 => fields(bytes, depth, &mut |_, _| ())?,
        _ => return None,
    }
    Some(())
}

fn list(bytes: &mut &[u8], depth: u32) -> Option<()> {
    let head = byte(bytes)?;
    let kind = head & 0xf;
    let count = if head >> 4 == 0xf { varint(bytes)? } else { u64::from(head >> 4) };
    let least = if kind == 12 { MIN_STRUCT_BYTES } else { 1 };
    if count.checked_mul(least)? > bytes.len() as u64 {
        return None;
    }
    (0..count).try_for_each(|_| value(kind, bytes, depth, &mut |_| ()))
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let next = byte(bytes)?;
        number |= u64::from(next & 0x7f) << shift;
        if next < 0x80 {
            return Some(number);
        }
    }
    None
}

fn byte(bytes: &mut &[u8]) -> Option<u8> {
    let (first, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::read_struct;

    /// A data page (0) of 5 bytes that unpack to 300, with 7 values and statistics.
    const PAGE: [u8; 25] = [
        0x15, 0, 0x15, 0xd8, 0x04, 0x15, 10, 0x2c, 0x15, 14, 0x15, 0, 0x15, 6, 0x15, 6, 0x1c, 0x38, 1, b'a',
        0x11, 0, 0, 0, 0xff,
    ];

    fn numbers(bytes: &[u8]) -> Option<Vec<(u8, i64)>> {
        let mut numbers = Vec::new();
        read_struct(bytes, |field, number| numbers.push((field, number)))?;
        Some(numbers)
    }

    #[test]
    fn reads_numbers_of_the_outer_struct_only() {
        assert_eq!(numbers(&PAGE), Some(vec![(1, 0), (2, 300), (3, 5)]));
        for end in 0..PAGE.len() - 1 {
            assert_eq!(numbers(&PAGE[..end]), None, "cut at {end}");
        }
        assert_eq!(numbers(&[0x16, 3, 0]), Some(vec![(1, -2)]));
        // A list of two numbers, one of two structs, a boolean, and bytes.
        let lists = [0x19, 0x25, 2, 4, 0x19, 0x2c, 0x15, 2, 0, 0x15, 2, 0, 0x11, 0x18, 1, 9, 0x15, 6, 0];
        assert_eq!(numbers(&lists), Some(vec![(5, 3)]));
    }

    #[test]
    fn refuses_repeated_fields_deep_nesting_and_excessive_lists() {
        // A field twice: a step of zero says that the field's full number follows.
        assert_eq!(numbers(&[0x15, 0, 0x15, 2, 0x05, 4, 9, 0]), None);
        let endless = [0x25, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(numbers(&endless), None);
        assert_eq!((numbers(&[0x1c; 100]), numbers(&[0x19; 100])), (None, None));
        // Four structs in ten bytes, and two billion numbers.
        assert_eq!(numbers(&[0x19, 0x4c, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        assert_eq!(numbers(&[0x19, 0xf5, 0xff, 0xff, 0xff, 0xff, 7, 0]), None);
    }
}
