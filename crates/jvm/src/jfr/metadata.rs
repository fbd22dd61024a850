//! The chunk's description of events and values: classes and their fields. Does not read values.
//!
//! The metadata event is its size, type 0, start, duration and number, then a table of strings, then a tree of
//! elements, in which every name is the index of a string: name, attributes as pairs, children
//! (`jdk.jfr.internal.MetadataReader`). Below `root`, `metadata` has a `class` (`id`, `name`, `superType`) for each
//! type, and a class has a `field` (`name`, `class`, `constantPool`, `dimension`) for each of its fields, in the order
//! in which values have them. Annotations and settings describe the display of values and do not matter here.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::{Bytes, Text};
use super::error::{Error, ErrorKind};

/// Nesting of elements: a JVM writes root, metadata, class, field, annotation.
const MAX_DEPTH: usize = 12;

/// More than any JVM has, and few enough to hold.
const MAX_CLASSES: usize = 20_000;

/// Memory limit of strings, classes and fields: a JVM's take less than a megabyte, but each may take only a byte or two
/// of a file.
const MAX_MEMORY_BYTES: usize = 16 << 20;

/// Overhead of an allocation.
const ALLOCATION_BYTES: usize = 32;

/// Longer strings are cut: they are descriptions, which are not used here.
const MAX_NAME_BYTES: usize = 512;

/// The encoding of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `boolean` and `byte`.
    Byte,
    /// `short`, `char`, `int` and `long`, all written as one compressed integer.
    Integer,
    /// `float` and `double`, with their size in bytes.
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
    /// Whether its value is a key of a pool.
    pub(super) pooled: bool,
    /// Whether it is an array: a count, then values.
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
    /// Reads a metadata event, starting after its type.
    pub(super) fn parse(mut event: Bytes<'_>) -> Result<Self, Error> {
        let at = event.at;
        for _start_duration_number in 0..3 {
            event.varint()?;
        }
        let mut tree = Tree { strings: Vec::new(), classes: Vec::new(), room: MAX_MEMORY_BYTES };
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
    /// Bytes of memory that may still be used.
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

    /// Charges memory that is about to be used.
    fn keep(&mut self, bytes: usize, event: &Bytes<'_>) -> Result<(), Error> {
        let left = self.room.checked_sub(bytes + ALLOCATION_BYTES);
        self.room = left.ok_or(event.error(ErrorKind::TooLarge(MAX_MEMORY_BYTES as u64)))?;
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
        let attributes = self.read_attributes(event)?;
        match &*name {
            "class" => self.class(attributes, event)?,
            "field" => self.field(attributes, event)?,
            _ => {}
        }
        for _child in 0..event.count()? {
            self.element(event, depth + 1)?;
        }
        Ok(())
    }

    fn read_attributes(&self, event: &mut Bytes<'_>) -> Result<Attributes, Error> {
        let mut attributes = Attributes::default();
        for _attribute in 0..event.count()? {
            let key = self.string(event)?;
            let at = event.at;
            let value = self.string(event)?;
            match &**key {
                "name" => attributes.name = Arc::clone(value),
                "id" => attributes.id = Some(number(value, at)?),
                "class" => attributes.class = Some(number(value, at)?),
                "constantPool" => attributes.pooled = &**value == "true",
                "dimension" => attributes.array = &**value != "0",
                _ => {}
            }
        }
        Ok(attributes)
    }

    fn class(&mut self, attributes: Attributes, event: &Bytes<'_>) -> Result<(), Error> {
        let id = attributes.id.ok_or(event.error(ErrorKind::BadMetadata))?;
        if self.classes.len() >= MAX_CLASSES {
            return Err(event.error(ErrorKind::BadMetadata));
        }
        let shape = match &*attributes.name {
            "boolean" | "byte" => Shape::Byte,
            "char" | "short" | "int" | "long" => Shape::Integer,
            "float" => Shape::Fixed(4),
            "double" => Shape::Fixed(8),
            "java.lang.String" => Shape::Text,
            _ => Shape::Fields,
        };
        self.keep(2 * size_of::<Class>(), event)?;
        self.classes.push(Class { id, name: attributes.name, shape, fields: Vec::new() });
        Ok(())
    }

    fn field(&mut self, attributes: Attributes, event: &Bytes<'_>) -> Result<(), Error> {
        let bad = event.error(ErrorKind::BadMetadata);
        self.keep(2 * size_of::<Field>(), event)?;
        let class = self.classes.last_mut().ok_or(bad)?;
        let type_id = attributes.class.ok_or(bad)?;
        class.fields.push(Field {
            name: attributes.name,
            type_id,
            pooled: attributes.pooled,
            array: attributes.array,
        });
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

// Values of the types that a chunk describes: skips them, and picks named fields out of them. Does not look into pools.

/// A JVM nests a frame's values in a stack, and no deeper.
const MAX_VALUE_DEPTH: usize = 16;

/// One field's value.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Value<'a> {
    /// The event has no such field, for example in another version of the JVM.
    #[default]
    Absent,
    /// A boolean or integer, to be truncated to its type's width.
    Integer(i64),
    Text(Text<'a>),
    /// The value that a pool has for this key.
    Pooled {
        type_id: u64,
        key: u64,
    },
    /// Several values of a type, without a pool.
    Array {
        count: usize,
        bytes: Bytes<'a>,
    },
    /// A value that is not needed here.
    Other,
}

impl Value<'_> {
    /// The number; 0 if there is none.
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

/// The positions of N named fields in the values of a type: found once, used for each event.
#[derive(Clone, Debug)]
pub(super) struct Selection<const N: usize> {
    type_id: u64,
    /// For each field up to the last one that is read: its index among the names.
    places: Box<[Option<u8>]>,
}

impl<const N: usize> Selection<N> {
    /// Selects the fields with these names.
    pub(super) fn of(class: &Class, names: [&str; N]) -> Self {
        let whole = Self::of_element(class, names);
        let count = whole.places.iter().rposition(Option::is_some).map_or(0, |last| last + 1);
        Self { places: whole.places.iter().take(count).copied().collect(), ..whole }
    }

    /// Like [`Selection::of`], for a value that another one follows: it is read to its end.
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
                None => types.skip_field(field, bytes, 0)?,
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
            self.skip_field(field, bytes, 0)?;
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
                self.skip(type_id, bytes, 0)?;
                Value::Other
            }
        })
    }

    fn skip_field(&self, field: &Field, bytes: &mut Bytes<'_>, depth: usize) -> Result<(), Error> {
        // Each element takes at least a byte, so that a false count cannot keep this loop busy for longer than there
        // are bytes.
        let count = if field.array { bytes.count()? } else { 1 };
        for _ in 0..count {
            if field.pooled {
                bytes.varint()?;
            } else {
                self.skip(field.type_id, bytes, depth)?;
            }
        }
        Ok(())
    }

    /// Skips a value of a type.
    pub(super) fn skip(&self, type_id: u64, bytes: &mut Bytes<'_>, depth: usize) -> Result<(), Error> {
        let class = self.class(type_id).ok_or(unknown(type_id, bytes))?;
        match class.shape {
            Shape::Byte => bytes.byte().map(drop),
            Shape::Integer => bytes.varint().map(drop),
            Shape::Fixed(length) => bytes.take(length).map(drop),
            Shape::Text => bytes.text().map(drop),
            // A value of no bytes could occur any number of times.
            Shape::Fields if class.fields.is_empty() => Err(unknown(type_id, bytes)),
            Shape::Fields if depth >= MAX_VALUE_DEPTH => Err(bytes.error(ErrorKind::TooDeep)),
            Shape::Fields => {
                class.fields.iter().try_for_each(|field| self.skip_field(field, bytes, depth + 1))
            }
        }
    }
}
