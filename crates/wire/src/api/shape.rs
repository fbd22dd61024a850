//! Layouts of bodies, spelled as text, and reading bytes by them. Does not know which API has which.
//!
//! One letter a field, in order: `1`, `2`, `4`, `8` that many bytes, `u` a UUID, `s` a string, `b` bytes, each of
//! which may be null; `(4)` an array of plain values, `[s4]` an array of structures, which in flexible versions end
//! with tagged fields. Fields that are wanted: `t` the throttle time, `e` the error code, `g` a group's id, `x` a
//! transaction's, `k` a coordinator's key and `y` the type of it.

use super::{RequestIds, ResponseStatus};
use crate::Error;
use crate::reader::Reader;

/// Layouts, each from a version on; none before the first.
pub(super) type Shapes = &'static [(i16, &'static str)];

/// The layout of a version.
pub(super) fn of(shapes: Shapes, version: i16) -> Option<&'static str> {
    shapes.iter().rev().find(|(first, _)| *first <= version).map(|(_, shape)| *shape)
}

/// Whether a layout has fields of fixed length only.
pub(super) fn is_short(shape: &str) -> bool {
    shape.bytes().all(|field| b"te1248u".contains(&field))
}

/// What was found by a layout.
#[derive(Clone, Copy, Default)]
pub(super) struct Found<'a> {
    pub(super) answer: ResponseStatus,
    group: Mention<'a>,
    transaction: Mention<'a>,
    key: Mention<'a>,
    key_type: i8,
}

/// Something named once, never, or more than once.
#[derive(Clone, Copy, Default)]
enum Mention<'a> {
    #[default]
    Never,
    Once(&'a str),
    Often,
}

impl<'a> Mention<'a> {
    fn add(&mut self, name: Option<&'a str>) {
        *self = match (*self, name) {
            (Self::Never, Some(name)) => Self::Once(name),
            (known, None) => known,
            _ => Self::Often,
        };
    }

    fn once(self) -> Option<&'a str> {
        if let Self::Once(name) = self { Some(name) } else { None }
    }
}

impl<'a> Found<'a> {
    /// Reads the fields of a layout.
    pub(super) fn read(&mut self, shape: &str, reader: &mut Reader<'a>, flexible: bool) -> Result<(), Error> {
        let mut fields = shape.as_bytes();
        while let Some((&field, rest)) = fields.split_first() {
            fields = rest;
            match field {
                b't' => self.answer.throttle_ms = Some(reader.i32()?),
                b'e' => self.answer.error_code = Some(reader.i16()?),
                b'g' => self.group.add(reader.nullable_string(flexible)?),
                b'x' => self.transaction.add(reader.nullable_string(flexible)?),
                b'k' => self.key.add(reader.nullable_string(flexible)?),
                b'y' => self.key_type = reader.i8()?,
                b's' => drop(reader.nullable_string(flexible)?),
                b'b' => drop(reader.nullable_bytes(flexible)?),
                b'u' => drop(reader.uuid()?),
                b'[' | b'(' => {
                    let element = element(rest);
                    fields = rest.get(element.len() + 1..).unwrap_or_default();
                    self.read_array(element, reader, flexible, field == b'[')?;
                }
                width => drop(reader.take(usize::from(width.saturating_sub(b'0')))?),
            }
        }
        Ok(())
    }

    fn read_array(
        &mut self,
        element: &[u8],
        reader: &mut Reader<'a>,
        flexible: bool,
        of_structures: bool,
    ) -> Result<(), Error> {
        let element = std::str::from_utf8(element).unwrap_or_default();
        // Every element takes at least a byte: a count that lies ends with the bytes.
        for _ in 0..reader.nullable_array(flexible)?.unwrap_or(0) {
            self.read(element, reader, flexible)?;
            reader.tagged_fields(flexible && of_structures)?;
        }
        Ok(())
    }

    /// `FindCoordinator`'s keys are groups (type 0, and before there were types) or transactions (type 1); those of
    /// share groups (type 2) hold more than a group.
    pub(super) fn named(&self) -> RequestIds<'a> {
        let key_of = |key_type| self.key.once().filter(|_| self.key_type == key_type);
        RequestIds {
            transactional_id: self.transaction.once().or(key_of(1)),
            group_id: self.group.once().or(key_of(0)),
        }
    }
}

/// The layout of an array's elements, up to the bracket that closes it.
fn element(rest: &[u8]) -> &[u8] {
    let mut depth = 0usize;
    let end = rest.iter().position(|field| match field {
        b'[' | b'(' => {
            depth += 1;
            false
        }
        b']' | b')' if depth == 0 => true,
        b']' | b')' => {
            depth -= 1;
            false
        }
        _ => false,
    });
    rest.get(..end.unwrap_or(rest.len())).unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    use super::super::table::APIS;
    use super::Shapes;

    fn is_sound(shapes: Shapes) -> bool {
        let ordered = shapes.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 != pair[1].1);
        let spelled = shapes.iter().all(|(_, shape)| {
            let mut open = Vec::new();
            let fields = shape.bytes().all(|field| match field {
                b'[' => {
                    open.push(b']');
                    true
                }
                b'(' => {
                    open.push(b')');
                    true
                }
                b']' | b')' => open.pop() == Some(field),
                field => b"1248usbtegxky".contains(&field),
            });
            fields && open.is_empty() && !shape.contains("[]") && !shape.contains("()")
        });
        ordered && spelled
    }

    #[test]
    fn every_layout_is_well_spelled() {
        for api in &APIS {
            assert!(is_sound(api.request) && is_sound(api.response), "{}", api.name);
            assert!(api.response.iter().all(|(first, _)| *first <= api.max_version), "{}", api.name);
        }
    }
}
