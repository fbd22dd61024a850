//! The chunk's description of events and values: classes and their fields. Does not read values.
//!
//! The metadata event is its size, type 0, start, duration and number, then a table of strings, then a tree of
//! elements, every name in it being an index of a string: name, attributes as pairs, children
//! (`jdk.jfr.internal.MetadataReader`). Below `root`, `metadata` has a `class` (`id`, `name`, `superType`) for each
//! type, and that a `field` (`name`, `class`, `constantPool`, `dimension`) for each of its fields, in the order in
//! which values have them. Annotations and settings say how values are shown and do not matter here.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::{Bytes, Text};
use super::error::{Error, ErrorKind};

/// A JVM writes root, metadata, class, field, annotation.
const MAX_DEPTH: usize = 12;

/// More than any JVM has, and few enough to be held.
const MAX_CLASSES: usize = 20_000;

/// What strings, classes and fields may take in memory: a JVM's take less than a megabyte, and each may be a byte or two of the
/// file.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// What an allocation takes beside its bytes.
const ALLOCATION_BYTES: usize = 32;

/// Longer strings are cut: they are descriptions, which nobody here reads.
const MAX_NAME_BYTES: usize = 512;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `boolean` and `byte`.
    Byte,
    /// `short`, `char`, `int` and `long`, which are all written as one compressed integer.
    Integer,
    /// `float` and `double`: so many bytes.
    Fixed(usize),
    Text,
    /// Its fields, one after another.
    Fields,
}

/// A type of values or events.
#[derive(Debug)]
pub(super) struct Class {
    pub(super) id: u64,
    pub(super) name: Arc<str>,
    pub(super) shape: Shape,
    pub(super) fields: Vec<Field>,
}

/// A field of a [`Class`].
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: Arc<str>,
    /// Its type's number.
    pub(super) type_id: u64,
    /// Whether a key of a pool stands in its place.
    pub(super) pooled: bool,
    /// Whether it is several, after their number.
    pub(super) array: bool,
}

/// All types of a chunk.
#[derive(Debug, Default)]
pub(super) struct Types {
    classes: Vec<Class>,
    by_id: HashMap<u64, usize>,
    by_name: HashMap<Arc<str>, usize>,
}

impl Types {
    /// Reads a metadata event, from after its type.
    pub(super) fn parse(mut event: Bytes<'_>) -> Result<Self, Error> {
        let at = event.at;
        for _start_duration_number in 0..3 {
            event.varint()?;
        }
        let mut tree = Tree { strings: Vec::new(), classes: Vec::new(), room: MAX_KEPT_BYTES };
        tree.read_strings(&mut event)?;
        tree.element(&mut event, 0)?;
        if tree.classes.is_empty() {
            return Err(Error::new(ErrorKind::BadMetadata, at));
        }
        Ok(Self::index(tree.classes))
    }

    fn index(classes: Vec<Class>) -> Self {
        let by_id = classes.iter().enumerate().map(|(i, class)| (class.id, i)).collect();
        let by_name = classes.iter().enumerate().map(|(i, class)| (class.name.clone(), i)).collect();
        Self { classes, by_id, by_name }
    }

    pub(super) fn class(&self, id: u64) -> Option<&Class> {
        self.by_id.get(&id).and_then(|&i| self.classes.get(i))
    }

    pub(super) fn named(&self, name: &str) -> Option<&Class> {
        self.by_name.get(name).and_then(|&i| self.classes.get(i))
    }
}

/// The classes found so far.
struct Tree {
    strings: Vec<Arc<str>>,
    classes: Vec<Class>,
    /// Bytes of memory that may still be kept.
    room: usize,
}

impl Tree {
    fn read_strings(&mut self, event: &mut Bytes<'_>) -> Result<(), Error> {
        for _ in 0..event.count()? {
            let mut string = String::new();
            event.text()?.append_to(&mut string, MAX_NAME_BYTES);
            self.keep(2 * size_of::<Arc<str>>() + string.len(), event)?;
            self.strings.push(string.into());
        }
        Ok(())
    }

    /// Counts what is about to be kept.
    fn keep(&mut self, bytes: usize, event: &Bytes<'_>) -> Result<(), Error> {
        let left = self.room.checked_sub(bytes + ALLOCATION_BYTES);
        self.room = left.ok_or(event.error(ErrorKind::TooLarge(MAX_KEPT_BYTES as u64)))?;
        Ok(())
    }

    fn string(&self, event: &mut Bytes<'_>) -> Result<&Arc<str>, Error> {
        let at = event.at;
        let index = event.varint()?;
        let string = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        string.ok_or(Error::new(ErrorKind::BadLength(index), at))
    }

    fn element(&mut self, event: &mut Bytes<'_>, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(event.error(ErrorKind::TooDeep));
        }
        let name = Arc::clone(self.string(event)?);
        let said = self.attributes(event)?;
        match &*name {
            "class" => self.class(said, event)?,
            "field" => self.field(said, event)?,
            _ => {}
        }
        for _child in 0..event.count()? {
            self.element(event, depth + 1)?;
        }
        Ok(())
    }

    fn attributes(&self, event: &mut Bytes<'_>) -> Result<Attributes, Error> {
        let mut said = Attributes::default();
        for _attribute in 0..event.count()? {
            let key = self.string(event)?;
            let at = event.at;
            let value = self.string(event)?;
            match &**key {
                "name" => said.name = Arc::clone(value),
                "id" => said.id = Some(number(value, at)?),
                "class" => said.class = Some(number(value, at)?),
                "constantPool" => said.pooled = &**value == "true",
                "dimension" => said.array = &**value != "0",
                _ => {}
            }
        }
        Ok(said)
    }

    fn class(&mut self, said: Attributes, event: &Bytes<'_>) -> Result<(), Error> {
        let id = said.id.ok_or(event.error(ErrorKind::BadMetadata))?;
        if self.classes.len() >= MAX_CLASSES {
            return Err(event.error(ErrorKind::BadMetadata));
        }
        let shape = match &*said.name {
            "boolean" | "byte" => Shape::Byte,
            "char" | "short" | "int" | "long" => Shape::Integer,
            "float" => Shape::Fixed(4),
            "double" => Shape::Fixed(8),
            "java.lang.String" => Shape::Text,
            _ => Shape::Fields,
        };
        self.keep(2 * size_of::<Class>(), event)?;
        self.classes.push(Class { id, name: said.name, shape, fields: Vec::new() });
        Ok(())
    }

    fn field(&mut self, said: Attributes, event: &Bytes<'_>) -> Result<(), Error> {
        let bad = event.error(ErrorKind::BadMetadata);
        self.keep(2 * size_of::<Field>(), event)?;
        let class = self.classes.last_mut().ok_or(bad)?;
        let type_id = said.class.ok_or(bad)?;
        class.fields.push(Field { name: said.name, type_id, pooled: said.pooled, array: said.array });
        Ok(())
    }
}

/// The attributes of an element.
#[derive(Default)]
struct Attributes {
    name: Arc<str>,
    id: Option<u64>,
    class: Option<u64>,
    pooled: bool,
    array: bool,
}

fn number(text: &str, at: u64) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::new(ErrorKind::BadMetadata, at))
}

// Values of the types that a chunk describes: passing over them, and picking named fields out of them. Does not look
// into pools.

/// A JVM nests a frame's in a stack, and no deeper.
const MAX_VALUE_DEPTH: usize = 16;

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
    bytes.error(ErrorKind::UnknownType(id))
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
            Shape::Byte => Value::Integer(i64::from(bytes.byte()? as i8)),
            Shape::Integer => Value::Integer(bytes.varint()? as i64),
            Shape::Text => Value::Text(bytes.text()?),
            Shape::Fixed(_) | Shape::Fields => {
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
            Shape::Byte => bytes.byte().map(drop),
            Shape::Integer => bytes.varint().map(drop),
            Shape::Fixed(length) => bytes.take(length).map(drop),
            Shape::Text => bytes.text().map(drop),
            // A value of no bytes could be there any number of times.
            Shape::Fields if class.fields.is_empty() => Err(unknown(type_id, bytes)),
            Shape::Fields if depth >= MAX_VALUE_DEPTH => Err(bytes.error(ErrorKind::TooDeep)),
            Shape::Fields => {
                class.fields.iter().try_for_each(|field| self.pass_field(field, bytes, depth + 1))
            }
        }
    }
}
