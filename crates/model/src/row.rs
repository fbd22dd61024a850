//! Rows and names, each declared once: a declaration generates the struct, its columns with their docs, the visitor
//! that prints a row, and (in `recording`) the Arrow schema, the builders and the readers.
//!
//! [`row!`](crate::row!) declares a row; it also exports the declaration as a macro that passes it to another macro, so
//! that a crate that stores rows generates its static code from the same list. [`named!`](crate::named!) declares an
//! enum whose values have names.

use std::fmt::Display;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::{Nanos, TopicId};

/// One column of a table, or of a list of rows within a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, unique within the row.
    pub name: &'static str,
    /// The type of its values.
    pub column_type: ColumnType,
    /// Whether values may be absent.
    pub nullable: bool,
    /// Whether other columns determine it: written for queries, never read back.
    pub derived: bool,
    /// Its meaning.
    pub doc: &'static str,
}

/// The type of a column's values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum ColumnType {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U32,
    U64,
    F64,
    /// Text that repeats: names, addresses, stacks.
    Text,
    /// A list of texts.
    Texts,
    /// A list of rows with columns.
    Rows(Vec<Column>),
}

impl Column {
    /// The unit of its values, by the end of its name.
    pub fn unit(&self) -> Option<&'static str> {
        let unit = self.name.rsplit('_').next()?;
        ["ns", "ms", "bytes", "pages"].into_iter().find(|known| *known == unit)
    }
}

/// A value in a row.
pub enum Value<'a> {
    /// Absent.
    Null,
    /// Yes or no.
    Bool(bool),
    /// A number that may be negative.
    Int(i64),
    /// A number that cannot be negative.
    Uint(u64),
    /// A number with a fraction.
    Float(f64),
    /// A length of time or a moment.
    Nanos(Nanos),
    /// Text; may contain anything.
    Text(&'a str),
    /// An address or an id, printed as text.
    Display(&'a dyn Display),
    /// A list of texts.
    Texts(&'a mut dyn Iterator<Item = &'a str>),
    /// A list of rows.
    Rows(&'a dyn Rows),
}

/// Receives the values of a row, in the order of [`Row::columns`]: the column's name and the value.
pub type ValueVisitor<'v> = &'v mut dyn FnMut(&'static str, Value<'_>);

/// A row of a table, or a group of columns in one.
pub trait Row {
    /// A row of zeros, empty texts and the first value of each enum: for literals that name only the fields that
    /// matter.
    fn empty() -> Self;
    /// Its columns, in order; a group's columns take its place.
    fn columns() -> Vec<Column>;
    /// Passes the value of each column to `out`, in order.
    fn visit(&self, out: ValueVisitor<'_>);
}

/// A list of rows within a row.
pub trait Rows {
    /// The number of rows.
    fn count(&self) -> usize;
    /// Passes the values of the row at an index to `out`; nothing if there is none.
    fn visit(&self, at: usize, out: ValueVisitor<'_>);
}

impl<R: Row> Rows for Vec<R> {
    fn count(&self) -> usize {
        self.len()
    }

    fn visit(&self, at: usize, out: ValueVisitor<'_>) {
        if let Some(row) = self.get(at) {
            row.visit(out);
        }
    }
}

/// The type of a field, and how it is stored unless its declaration says otherwise.
pub trait FieldType {
    /// How it is stored: as itself, or as its name.
    type Kind: Field<Value = Self>;
    /// Its value in [`Row::empty`].
    fn empty() -> Self;
}

/// A field of a row: a value in one column, or a group of columns.
pub trait Field {
    /// The type of the field.
    type Value;
    /// Adds its column, given everything but the type, or the columns of its group.
    fn add_columns(column: Column, to: &mut Vec<Column>);
    /// Passes its value to `out` under its name, or the values of its group; `Value::Null` if it is absent.
    fn visit(value: Option<&Self::Value>, name: &'static str, out: ValueVisitor<'_>);
}

impl<T: FieldType> FieldType for Option<T> {
    type Kind = Option<T::Kind>;

    fn empty() -> Self {
        None
    }
}

impl<F: Field> Field for Option<F> {
    type Value = Option<F::Value>;

    fn add_columns(column: Column, to: &mut Vec<Column>) {
        F::add_columns(Column { nullable: true, ..column }, to);
    }

    fn visit(value: Option<&Self::Value>, name: &'static str, out: ValueVisitor<'_>) {
        F::visit(value.and_then(Option::as_ref), name, out);
    }
}

impl<R: Row> FieldType for Vec<R> {
    type Kind = Self;

    fn empty() -> Self {
        Self::new()
    }
}

impl<R: Row> Field for Vec<R> {
    type Value = Self;

    fn add_columns(column: Column, to: &mut Vec<Column>) {
        to.push(Column { column_type: ColumnType::Rows(R::columns()), ..column });
    }

    fn visit(rows: Option<&Self>, name: &'static str, out: ValueVisitor<'_>) {
        out(name, rows.map_or(Value::Null, |rows| Value::Rows(rows)));
    }
}

/// A value with a name; [`named!`](crate::named!) declares its type.
pub trait NamedValue: Copy {
    /// The name in tables and JSON.
    fn name(self) -> &'static str;
    /// The value with this name.
    fn of_name(name: &str) -> Option<Self>;
}

/// A value that is stored as its name.
pub struct ByName<T>(std::marker::PhantomData<T>);

impl<T: NamedValue> Field for ByName<T> {
    type Value = T;

    fn add_columns(column: Column, to: &mut Vec<Column>) {
        to.push(Column { column_type: ColumnType::Text, ..column });
    }

    fn visit(value: Option<&T>, name: &'static str, out: ValueVisitor<'_>) {
        out(name, value.map_or(Value::Null, |value| Value::Text(value.name())));
    }
}

/// Text that is stored as absent if it is empty.
pub struct NonEmpty;

/// A value that is stored as its printed text and not read back.
pub struct AsText<T>(std::marker::PhantomData<T>);

/// Declares fields of one column: their type, the column's type, and how a value is passed on.
macro_rules! fields {
    (@empty) => { Self::default() };
    (@empty $empty:expr) => { $empty };
    ($($Field:ty: $Type:ident $(= $empty:expr)?, $value:ident => $out:expr;)*) => {$(
        impl FieldType for $Field {
            type Kind = Self;

            fn empty() -> Self {
                fields!(@empty $($empty)?)
            }
        }

        impl Field for $Field {
            type Value = Self;

            fn add_columns(column: Column, to: &mut Vec<Column>) {
                to.push(Column { column_type: ColumnType::$Type, ..column });
            }

            fn visit(value: Option<&Self::Value>, name: &'static str, out: ValueVisitor<'_>) {
                match value {
                    Some($value) => out(name, $out),
                    None => out(name, Value::Null),
                }
            }
        }
    )*};
}

fields! {
    bool: Bool, value => Value::Bool(*value);
    i8: I8, value => Value::Int((*value).into());
    i16: I16, value => Value::Int((*value).into());
    i32: I32, value => Value::Int((*value).into());
    i64: I64, value => Value::Int(*value);
    u32: U32, value => Value::Uint((*value).into());
    u64: U64, value => Value::Uint(*value);
    f64: F64, value => Value::Float(*value);
    Nanos: I64, value => Value::Nanos(*value);
    &'static str: Text, value => Value::Text(value);
    String: Text, value => Value::Text(value);
    Arc<str>: Text, value => Value::Text(value);
    SocketAddr: Text = ([0; 4], 0).into(), value => Value::Display(value);
    TopicId: Text, value => Value::Display(value);
    Vec<Arc<str>>: Texts, texts => Value::Texts(&mut texts.iter().map(AsRef::as_ref));
    Vec<&'static str>: Texts, texts => Value::Texts(&mut texts.iter().copied());
    Vec<crate::Cause>: Texts, causes => Value::Texts(&mut causes.iter().map(|c| c.as_str()));
}

impl Field for NonEmpty {
    type Value = Arc<str>;

    fn add_columns(column: Column, to: &mut Vec<Column>) {
        <Option<Arc<str>>>::add_columns(column, to);
    }

    fn visit(text: Option<&Arc<str>>, name: &'static str, out: ValueVisitor<'_>) {
        Arc::<str>::visit(text.filter(|text| !text.is_empty()), name, out);
    }
}

impl<T: Display> Field for AsText<T> {
    type Value = T;

    fn add_columns(column: Column, to: &mut Vec<Column>) {
        to.push(column);
    }

    fn visit(value: Option<&T>, name: &'static str, out: ValueVisitor<'_>) {
        out(name, value.map_or(Value::Null, |value| Value::Display(value)));
    }
}

/// Declares a row: `row! { request_row => /// … pub struct Request { /// … arrival: Nanos as "arrival_ns", … } }`.
///
/// Each field is public, and documented except in a subset of another row. `as "…"` gives its column another name than
/// the field's; `in Kind` says how it is stored if its type does not; `=> latency: Option<Nanos> as "latency_ns" "…"`
/// adds a column that the method `latency` computes. A field that is a row itself is a group: its columns take its
/// place. The first name is the exported macro's: `request_row!(m)` expands to `m! { … }` with the declaration in it.
#[macro_export]
macro_rules! row {
    ($export:ident => $($row:tt)*) => {
        $crate::declare_row! { $($row)* }
        $crate::export_row! { ($) $export $($row)* }
    };
}

/// The struct of a row and its columns; part of [`row!`](crate::row!).
#[doc(hidden)]
#[macro_export]
macro_rules! declare_row {
    ($(#[$meta:meta])* pub struct $Row:ident { $(
        $(#[doc = $doc:literal])*
        $field:ident: $ty:ty $(as $column:literal $(in $kind:ty)? $(
            => $derived:ident: $derived_ty:ty as $derived_column:literal $derived_doc:literal
        )?)?,
    )* }) => {
        $(#[$meta])*
        pub struct $Row { $($(#[doc = $doc])* pub $field: $ty,)* }

        impl $crate::Row for $Row {
            fn columns() -> Vec<$crate::Column> {
                let mut columns = Vec::new();
                <Self as $crate::row::Field>::add_columns($crate::column!("", false, ""), &mut columns);
                columns
            }

            fn empty() -> Self {
                Self { $($field: <$ty as $crate::row::FieldType>::empty(),)* }
            }

            fn visit(&self, out: $crate::ValueVisitor<'_>) {
                <Self as $crate::row::Field>::visit(Some(self), "", out);
            }
        }

        impl $crate::row::FieldType for $Row {
            type Kind = Self;

            fn empty() -> Self {
                $crate::Row::empty()
            }
        }

        impl $crate::row::Field for $Row {
            type Value = Self;

            fn add_columns(group: $crate::Column, to: &mut Vec<$crate::Column>) {
                $(
                    let column = $crate::column!(
                        $crate::column_name!($field $($column)?), group.nullable, concat!($($doc,)*)
                    );
                    <$crate::field_kind!($ty $($(, $kind)?)?) as $crate::row::Field>::add_columns(column, to);
                    $($(
                        let column = $crate::column!($derived_column, group.nullable, $derived_doc);
                        let column = $crate::Column { derived: true, ..column };
                        <$derived_ty as $crate::row::Field>::add_columns(column, to);
                    )?)?
                )*
            }

            fn visit(row: Option<&Self>, _: &'static str, out: $crate::ValueVisitor<'_>) {
                $(
                    <$crate::field_kind!($ty $($(, $kind)?)?) as $crate::row::Field>::visit(
                        row.map(|row| &row.$field), $crate::column_name!($field $($column)?), out,
                    );
                    $($(
                        let derived = row.map(Self::$derived);
                        <$derived_ty as $crate::row::Field>::visit(derived.as_ref(), $derived_column, out);
                    )?)?
                )*
            }
        }
    };
}

/// A column without its type; part of [`row!`](crate::row!).
#[doc(hidden)]
#[macro_export]
macro_rules! column {
    ($name:expr, $nullable:expr, $doc:expr) => {
        $crate::Column {
            name: $name,
            column_type: $crate::ColumnType::Text,
            nullable: $nullable,
            derived: false,
            doc: str::trim_start($doc),
        }
    };
}

/// The name of a field's column; part of [`row!`](crate::row!).
#[doc(hidden)]
#[macro_export]
macro_rules! column_name {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $column:literal) => {
        $column
    };
}

/// How a field is stored: like its type, unless declared otherwise; part of [`row!`](crate::row!).
#[doc(hidden)]
#[macro_export]
macro_rules! field_kind {
    ($ty:ty) => {
        <$ty as $crate::row::FieldType>::Kind
    };
    ($ty:ty, $kind:ty) => {
        $kind
    };
}

/// A declaration as a macro that passes it on; part of [`row!`](crate::row!).
#[doc(hidden)]
#[macro_export]
macro_rules! export_row {
    (($d:tt) $export:ident $($row:tt)*) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $export {
            ($d callback:ident) => {
                $d callback! { $($row)* }
            };
        }
    };
}

/// Declares an enum whose values have names: `named! { /// … pub enum FileKind { /// … Log = "log", … } }`.
///
/// It has `ALL` (in order), `as_str` and `parse`, and `Display` prints its name, padded as requested.
#[macro_export]
macro_rules! named {
    ($(#[$meta:meta])* $vis:vis enum $Name:ident { $($(#[$about:meta])* $Value:ident = $name:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis enum $Name { $($(#[$about])* $Value,)+ }

        #[allow(dead_code, reason = "not every enum needs all of it")]
        impl $Name {
            /// Every value, in order.
            $vis const ALL: [Self; [$($name),+].len()] = [$(Self::$Value),+];

            /// The name in tables and JSON.
            $vis const fn as_str(self) -> &'static str {
                match self { $(Self::$Value => $name),+ }
            }

            /// The value with this name.
            $vis fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$Value),)+ _ => None }
            }
        }

        impl $crate::row::FieldType for $Name {
            type Kind = $crate::row::ByName<Self>;

            fn empty() -> Self {
                Self::ALL[0]
            }
        }

        impl $crate::row::NamedValue for $Name {
            fn name(self) -> &'static str {
                self.as_str()
            }

            fn of_name(name: &str) -> Option<Self> {
                Self::parse(name)
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }
    };
}

/// Declares how long events took: from their start to their end.
macro_rules! lengths {
    ($(#[doc = $doc:literal] $Row:ident::$length:ident;)*) => {$(
        impl $Row {
            #[doc = $doc]
            pub fn $length(&self) -> Nanos {
                self.end - self.start
            }
        }
    )*};
}
