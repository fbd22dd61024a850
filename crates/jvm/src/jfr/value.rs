//! Values of the types that a chunk describes: passing over them, and picking named fields out of them. Does not look
//! into pools.

use super::bytes::{Bytes, Text};
use super::metadata::{Class, Field, Shape, Types};
use super::{Error, ErrorKind};

/// A JVM nests a frame's in a stack, and no deeper.
const MAX_DEPTH: usize = 16;

/// One field's value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Value<'a> {
    /// The event has no such field, as in another version of the JVM.
    #[default]
    Absent,
    /// A boolean or integer. Cut it to its type's width.
    Integer(i64),
    Text(Text<'a>),
    /// What a pool has for this key.
    Pooled {
        type_id: u64,
        key: u64,
    },
    /// Several values of a type, without a pool.
    Array {
        count: usize,
        bytes: Bytes<'a>,
    },
    /// Something whose value nobody here needs.
    Other,
}

impl Value<'_> {
    /// The number; 0 where there is none.
    pub(super) fn integer(self) -> i64 {
        match self {
            Self::Integer(value) => value,
            _ => 0,
        }
    }

    /// The pool's type and the key in it.
    pub(super) fn key(self) -> Option<(u64, u64)> {
        match self {
            Self::Pooled { type_id, key } => Some((type_id, key)),
            _ => None,
        }
    }
}

/// Where the fields of N names are in the values of a type: found once, used for each event.
#[derive(Clone, Debug)]
pub(super) struct Selection<const N: usize> {
    type_id: u64,
    /// For each field up to the last that is read: its place among the names.
    places: Box<[Option<u8>]>,
}

impl<const N: usize> Selection<N> {
    /// The fields of these names.
    pub(super) fn of(class: &Class, names: [&str; N]) -> Self {
        let whole = Self::of_element(class, names);
        let wanted = whole.places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        Self { places: whole.places.iter().take(wanted).copied().collect(), ..whole }
    }

    /// The same for a value that another follows: it is read to its end.
    pub(super) fn of_element(class: &Class, names: [&str; N]) -> Self {
        let place = |field: &Field| names.iter().position(|&name| name == &*field.name).map(|i| i as u8);
        Self { type_id: class.id, places: class.fields.iter().map(place).collect() }
    }

    /// The values of these fields, in the order of the names.
    pub(super) fn read<'a>(&self, types: &Types, bytes: &mut Bytes<'a>) -> Result<[Value<'a>; N], Error> {
        let mut values = [Value::Absent; N];
        let class = types.class(self.type_id).ok_or(unknown(self.type_id, bytes))?;
        for (field, place) in class.fields.iter().zip(&self.places) {
            match place.and_then(|place| values.get_mut(usize::from(place))) {
                Some(value) => *value = types.read(field, bytes)?,
                None => types.pass_field(field, bytes, 0)?,
            }
        }
        Ok(values)
    }
}

fn unknown(id: u64, bytes: &Bytes<'_>) -> Error {
    bytes.error(ErrorKind::UnknownType { id })
}

impl Types {
    /// The value of a field.
    pub(super) fn read<'a>(&self, field: &Field, bytes: &mut Bytes<'a>) -> Result<Value<'a>, Error> {
        let type_id = field.type_id;
        if field.array {
            let before = *bytes;
            self.pass_field(field, bytes, 0)?;
            let mut elements = before;
            let count = elements.count()?;
            return Ok(if field.pooled { Value::Other } else { Value::Array { count, bytes: elements } });
        }
        if field.pooled {
            return Ok(Value::Pooled { type_id, key: bytes.varint()? });
        }
        let class = self.class(type_id).ok_or(unknown(type_id, bytes))?;
        Ok(match class.shape {
            Shape::Boolean | Shape::Byte => Value::Integer(i64::from(bytes.byte()? as i8)),
            Shape::Integer => Value::Integer(bytes.varint()? as i64),
            Shape::Text => Value::Text(bytes.text()?),
            Shape::Float | Shape::Double | Shape::Fields => {
                self.pass(type_id, bytes, 0)?;
                Value::Other
            }
        })
    }

    fn pass_field(&self, field: &Field, bytes: &mut Bytes<'_>, depth: usize) -> Result<(), Error> {
        // Each element takes a byte at least, so that a number cannot keep this busy for longer than there are bytes.
        let count = if field.array { bytes.count()? } else { 1 };
        for _ in 0..count {
            if field.pooled {
                bytes.varint()?;
            } else {
                self.pass(field.type_id, bytes, depth)?;
            }
        }
        Ok(())
    }

    /// Passes over a value of a type.
    pub(super) fn pass(&self, type_id: u64, bytes: &mut Bytes<'_>, depth: usize) -> Result<(), Error> {
        let class = self.class(type_id).ok_or(unknown(type_id, bytes))?;
        match class.shape {
            Shape::Boolean | Shape::Byte => bytes.byte().map(drop),
            Shape::Integer => bytes.varint().map(drop),
            Shape::Float => bytes.take(4).map(drop),
            Shape::Double => bytes.take(8).map(drop),
            Shape::Text => bytes.text().map(drop),
            // A value of no bytes could be there any number of times.
            Shape::Fields if class.fields.is_empty() => Err(unknown(type_id, bytes)),
            Shape::Fields if depth >= MAX_DEPTH => Err(bytes.error(ErrorKind::TooDeep)),
            Shape::Fields => {
                class.fields.iter().try_for_each(|field| self.pass_field(field, bytes, depth + 1))
            }
        }
    }
}
