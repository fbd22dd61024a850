//! The chunk's description of its own events and values: classes and their fields. Does not read values.
//!
//! The metadata event is its size, type 0, start, duration and number, then a table of strings, then a tree of
//! elements, every name in it being an index of a string: name, attributes as pairs, children
//! (`jdk.jfr.internal.MetadataReader`). Below `root`, `metadata` has a `class` (`id`, `name`, `superType`) for each
//! type, and that a `field` (`name`, `class`, `constantPool`, `dimension`) for each of its fields, in the order in
//! which values have them. Annotations and settings say how values are shown and do not matter here.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::Bytes;
use super::{Error, ErrorKind};

/// A JVM writes root, metadata, class, field, annotation.
const MAX_DEPTH: usize = 12;

/// More than any JVM has, and few enough to be held.
const MAX_CLASSES: usize = 20_000;

/// Longer strings are cut: they are descriptions, which nobody here reads.
const MAX_NAME_BYTES: usize = 512;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Boolean,
    Byte,
    /// `short`, `char`, `int` and `long`, which are all written as one compressed integer.
    Integer,
    Float,
    Double,
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
        let at = event.at();
        for _start_duration_number in 0..3 {
            event.varint()?;
        }
        let strings = strings(&mut event)?;
        let mut tree = Tree { strings, classes: Vec::new() };
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

fn strings(event: &mut Bytes<'_>) -> Result<Vec<Arc<str>>, Error> {
    let count = event.count()?;
    let mut strings = Vec::new();
    for _ in 0..count {
        let mut string = String::new();
        event.text()?.append_to(&mut string, MAX_NAME_BYTES);
        strings.push(string.into());
    }
    Ok(strings)
}

/// The classes found so far.
struct Tree {
    strings: Vec<Arc<str>>,
    classes: Vec<Class>,
}

impl Tree {
    fn string(&self, event: &mut Bytes<'_>) -> Result<&str, Error> {
        let at = event.at();
        let index = event.varint()?;
        let string = usize::try_from(index).ok().and_then(|index| self.strings.get(index));
        string.map(AsRef::as_ref).ok_or(Error::new(ErrorKind::BadLength { length: index }, at))
    }

    fn element(&mut self, event: &mut Bytes<'_>, depth: usize) -> Result<(), Error> {
        if depth > MAX_DEPTH {
            return Err(event.error(ErrorKind::TooDeep));
        }
        let is = match self.string(event)? {
            "class" => Is::Class,
            "field" => Is::Field,
            _ => Is::Other,
        };
        self.attributes(event, is)?;
        for _child in 0..event.count()? {
            self.element(event, depth + 1)?;
        }
        Ok(())
    }

    fn attributes(&mut self, event: &mut Bytes<'_>, is: Is) -> Result<(), Error> {
        let mut said = Said::default();
        for _attribute in 0..event.count()? {
            let key = self.string(event)?;
            let at = event.at();
            let value = self.string(event)?;
            match key {
                "name" => said.name = value.into(),
                "id" => said.id = Some(number(value, at)?),
                "class" => said.class = Some(number(value, at)?),
                "constantPool" => said.pooled = value == "true",
                "dimension" => said.array = value != "0",
                _ => {}
            }
        }
        match is {
            Is::Class => self.class(said, event),
            Is::Field => self.field(said, event),
            Is::Other => Ok(()),
        }
    }

    fn class(&mut self, said: Said, event: &Bytes<'_>) -> Result<(), Error> {
        let id = said.id.ok_or(event.error(ErrorKind::BadMetadata))?;
        if self.classes.len() >= MAX_CLASSES {
            return Err(event.error(ErrorKind::BadMetadata));
        }
        let shape = match &*said.name {
            "boolean" => Shape::Boolean,
            "byte" => Shape::Byte,
            "char" | "short" | "int" | "long" => Shape::Integer,
            "float" => Shape::Float,
            "double" => Shape::Double,
            "java.lang.String" => Shape::Text,
            _ => Shape::Fields,
        };
        self.classes.push(Class { id, name: said.name, shape, fields: Vec::new() });
        Ok(())
    }

    fn field(&mut self, said: Said, event: &Bytes<'_>) -> Result<(), Error> {
        let bad = event.error(ErrorKind::BadMetadata);
        let class = self.classes.last_mut().ok_or(bad)?;
        let type_id = said.class.ok_or(bad)?;
        class.fields.push(Field { name: said.name, type_id, pooled: said.pooled, array: said.array });
        Ok(())
    }
}

#[derive(Clone, Copy)]
enum Is {
    Class,
    Field,
    Other,
}

/// The attributes of an element.
#[derive(Default)]
struct Said {
    name: Arc<str>,
    id: Option<u64>,
    class: Option<u64>,
    pooled: bool,
    array: bool,
}

fn number(text: &str, at: u64) -> Result<u64, Error> {
    text.parse().map_err(|_| Error::new(ErrorKind::BadMetadata, at))
}
