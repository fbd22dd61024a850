//! Writes rows to Arrow columns and reads them back: static code for each row that `model` declares, expanded from the
//! declaration. Does not know the tables.
//!
//! The input is untrusted: a column of the wrong type fails its part, an impossible value fails its row, and nothing
//! panics. A nullable column may be missing altogether, so that an older recording stays readable when a column is
//! added.
//!
//! Not `serde_arrow`: an append must not allocate, and repeated text finds its dictionary key by its address and comes
//! back shared, but a serializer of values does not see addresses.

use std::net::SocketAddr;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, ListBuilder, StringBuilder};
use arrow_array::types::{Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayRef, BooleanArray, ListArray, PrimitiveArray, RecordBatch, StructArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::ArrowError;
use model::row::{AsText, ByName, Field, NamedValue, NonEmpty};
#[allow(clippy::wildcard_imports, reason = "a declaration may name any type of the model")]
use model::*;

use crate::builders::{NumberBuilder, TextBuilder, ValueBuilder};
use crate::cells::{BadRow, Cells, ColumnError, Names, RowLists, Source, Texts, texts};
use crate::columns::{fields, item, schema};
use crate::text::{TextPool, api_name};

/// Capacity that is reserved for a list at once; a longer list grows as it is read.
const MAX_RESERVED_ROWS: usize = 1_024;

/// A field as it is written: builders of its columns.
pub(crate) trait Append: Field {
    /// The builders.
    type Builder: Default;
    /// Appends a value.
    fn append(value: &Self::Value, to: &mut Self::Builder);
    /// Appends a null.
    fn append_null(to: &mut Self::Builder);
    /// Moves the columns as appended so far to `to`.
    fn finish(builder: &mut Self::Builder, to: &mut Vec<ArrayRef>);
    /// Approximate size of a value in memory, in bytes.
    fn bytes(value: &Self::Value) -> usize;
}

/// A field as it is read: cells of its columns.
pub(crate) trait Read: Field {
    /// The cells.
    type Cells;
    /// Finds its columns; nullable ones may be missing.
    fn cells(source: &dyn Source, name: &'static str, nullable: bool) -> Result<Self::Cells, ColumnError>;
    /// The value in row `i`.
    fn read(cells: &Self::Cells, i: usize, pool: &mut TextPool) -> Result<Self::Value, BadRow>;
    /// The value in row `i`, if there is one.
    fn read_option(cells: &Self::Cells, i: usize, pool: &mut TextPool)
    -> Result<Option<Self::Value>, BadRow>;
}

/// A row that is written.
pub(crate) trait AppendRow: Append<Value = Self> + Row {}
/// A row that is read.
pub(crate) trait ReadRow: Read<Value = Self> + Row + Sized {}

/// The rows appended so far, as a batch.
pub(crate) fn batch<R: AppendRow>(builder: &mut R::Builder) -> Result<RecordBatch, ArrowError> {
    let mut columns = Vec::new();
    R::finish(builder, &mut columns);
    RecordBatch::try_new(schema(&R::columns()), columns)
}

impl<F: Append> Append for Option<F> {
    type Builder = F::Builder;

    fn append(value: &Self::Value, to: &mut Self::Builder) {
        match value {
            Some(value) => F::append(value, to),
            None => F::append_null(to),
        }
    }

    fn append_null(to: &mut Self::Builder) {
        F::append_null(to);
    }

    fn finish(builder: &mut Self::Builder, to: &mut Vec<ArrayRef>) {
        F::finish(builder, to);
    }

    fn bytes(value: &Self::Value) -> usize {
        value.as_ref().map_or(size_of::<u64>(), F::bytes)
    }
}

impl<F: Read> Read for Option<F> {
    type Cells = F::Cells;

    fn cells(source: &dyn Source, name: &'static str, _: bool) -> Result<Self::Cells, ColumnError> {
        F::cells(source, name, true)
    }

    fn read(cells: &Self::Cells, i: usize, pool: &mut TextPool) -> Result<Self::Value, BadRow> {
        F::read_option(cells, i, pool)
    }

    fn read_option(
        cells: &Self::Cells,
        i: usize,
        pool: &mut TextPool,
    ) -> Result<Option<Self::Value>, BadRow> {
        F::read_option(cells, i, pool).map(Some)
    }
}

/// Declares fields of one column: how a value and a null are appended, and a value's size.
macro_rules! append {
    ($($({$T:ident: $Bound:ident})? $Field:ty, $Builder:ty: $value:ident, $to:ident => $append:expr, $null:expr, $bytes:expr;)*) => {$(
        impl $(<$T: $Bound>)? Append for $Field {
            type Builder = $Builder;

            fn append($value: &Self::Value, $to: &mut Self::Builder) {
                $append;
            }

            fn append_null($to: &mut Self::Builder) {
                $null;
            }

            fn finish(builder: &mut Self::Builder, to: &mut Vec<ArrayRef>) {
                to.push(Arc::new(builder.finish()));
            }

            fn bytes($value: &Self::Value) -> usize {
                $bytes
            }
        }
    )*};
}

/// Declares fields of one column: how the value in a row is found, if there is one.
macro_rules! read {
    ($($({$T:ident: $Bound:ident})? $Field:ty, $Array:ty: $find:expr, $cells:ident, $i:ident, $pool:ident => $option:expr;)*) => {$(
        impl $(<$T: $Bound>)? Read for $Field {
            type Cells = Cells<$Array>;

            fn cells(source: &dyn Source, name: &'static str, nullable: bool) -> Result<Self::Cells, ColumnError> {
                $find(source, name, nullable)
            }

            fn read(cells: &Self::Cells, i: usize, pool: &mut TextPool) -> Result<Self::Value, BadRow> {
                Self::read_option(cells, i, pool)?.ok_or_else(|| cells.missing_value())
            }

            fn read_option(
                $cells: &Self::Cells,
                $i: usize,
                $pool: &mut TextPool,
            ) -> Result<Option<Self::Value>, BadRow> {
                $option
            }
        }
    )*};
}

/// Numbers of Arrow's type.
macro_rules! numbers {
    ($($Field:ident, $Arrow:ty: $value:ident => $number:expr, $back:expr;)*) => {
        append! {$(
            $Field, NumberBuilder<$Arrow>: $value, to => to.append_value($number), to.append_null(), size_of_val($value);
        )*}
        read! {$(
            $Field, PrimitiveArray<$Arrow>: Cells::find, cells, i, _pool => Ok(cells.number(i).map($back));
        )*}
    };
}

numbers! {
    i8, Int8Type: value => *value, std::convert::identity;
    i16, Int16Type: value => *value, std::convert::identity;
    i32, Int32Type: value => *value, std::convert::identity;
    i64, Int64Type: value => *value, std::convert::identity;
    u32, UInt32Type: value => *value, std::convert::identity;
    u64, UInt64Type: value => *value, std::convert::identity;
    f64, Float64Type: value => *value, std::convert::identity;
    Nanos, Int64Type: value => value.0, Nanos;
}

append! {
    bool, BooleanBuilder: value, to => to.append_value(*value), to.append_null(), size_of_val(value);
    Arc<str>, TextBuilder: text, to => to.append_value(text), to.append_null(), 4 + text.len();
    String, TextBuilder: text, to => to.append_value(text), to.append_null(), 4 + text.len();
    &'static str, TextBuilder: text, to => to.append_value(text), to.append_null(), 4 + text.len();
    SocketAddr, ValueBuilder<SocketAddr>: value, to => to.append(*value), to.append_null(), size_of_val(value);
    TopicId, ValueBuilder<TopicId>: value, to => to.append(*value), to.append_null(), size_of_val(value);
    {T: NamedValue} ByName<T>, TextBuilder: value, to => to.append_value(value.name()), to.append_null(), size_of_val(value).max(4);
    AsText<TopicPartition>, TextBuilder: value, to => to.append_value(value.to_string()), to.append_null(), 8 + value.topic.len();
    Vec<Arc<str>>, ListBuilder<StringBuilder>:
        texts, to => append_texts(to, texts.iter().map(AsRef::as_ref)), to.append(false), 4 + texts.iter().map(|text| 4 + text.len()).sum::<usize>();
    Vec<&'static str>, ListBuilder<StringBuilder>:
        texts, to => append_texts(to, texts.iter().copied()), to.append(false), 4 + texts.iter().map(|text| 4 + text.len()).sum::<usize>();
    Vec<Cause>, ListBuilder<StringBuilder>:
        causes, to => append_texts(to, causes.iter().map(|cause| cause.as_str())), to.append(false), 4 + 16 * causes.len();
    NonEmpty, TextBuilder: text, to => to.append_option(Some(text).filter(|text| !text.is_empty())), to.append_null(), 4 + text.len();
}

fn append_texts<'t>(to: &mut ListBuilder<StringBuilder>, texts: impl Iterator<Item = &'t str>) {
    for text in texts {
        to.values().append_value(text);
    }
    to.append(true);
}

read! {
    bool, BooleanArray: Cells::find, cells, i, _pool => Ok(cells.flag(i));
    Arc<str>, Texts: texts, cells, i, pool => Ok(cells.text(i, pool));
    SocketAddr, Names<SocketAddr>: texts, cells, i, _pool => cells.named(i, |text| text.parse().ok());
    TopicId, Names<TopicId>: texts, cells, i, _pool => cells.named(i, TopicId::parse);
    &'static str, Names<&'static str>: texts, cells, i, _pool => cells.named(i, api_name);
    {T: NamedValue} ByName<T>, Names<T>: texts, cells, i, _pool => cells.named(i, T::of_name);
    Vec<Arc<str>>, ListArray: Cells::find, cells, i, _pool => cells.texts(i);
}

impl Read for NonEmpty {
    type Cells = Cells<Texts>;

    fn cells(source: &dyn Source, name: &'static str, _: bool) -> Result<Self::Cells, ColumnError> {
        texts(source, name, true)
    }

    fn read(cells: &Self::Cells, i: usize, pool: &mut TextPool) -> Result<Arc<str>, BadRow> {
        Ok(cells.text(i, pool).unwrap_or_else(|| Arc::from("")))
    }

    fn read_option(cells: &Self::Cells, i: usize, pool: &mut TextPool) -> Result<Option<Arc<str>>, BadRow> {
        Self::read(cells, i, pool).map(Some)
    }
}

/// Builds a list column whose elements are rows.
#[derive(Default)]
pub(crate) struct RowsBuilder<B> {
    /// The elements of all lists.
    rows: B,
    lengths: Vec<usize>,
}

impl<R: AppendRow> Append for Vec<R> {
    type Builder = RowsBuilder<R::Builder>;

    fn append(rows: &Self, to: &mut Self::Builder) {
        for row in rows {
            R::append(row, &mut to.rows);
        }
        to.lengths.push(rows.len());
    }

    fn append_null(to: &mut Self::Builder) {
        <Self as Append>::append(&Self::new(), to);
    }

    fn finish(builder: &mut Self::Builder, to: &mut Vec<ArrayRef>) {
        let (columns, mut arrays) = (R::columns(), Vec::new());
        R::finish(&mut builder.rows, &mut arrays);
        let rows = Arc::new(StructArray::new(fields(&columns), arrays, None));
        let ends = OffsetBuffer::from_lengths(builder.lengths.drain(..));
        to.push(Arc::new(ListArray::new(item(&columns), ends, rows, None)));
    }

    fn bytes(rows: &Self) -> usize {
        4 + rows.iter().map(R::bytes).sum::<usize>()
    }
}

impl<R: ReadRow> Read for Vec<R> {
    type Cells = RowLists<R::Cells>;

    fn cells(source: &dyn Source, name: &'static str, _: bool) -> Result<Self::Cells, ColumnError> {
        RowLists::find(source, name, |rows| R::cells(rows, "", false))
    }

    /// Reserves capacity for as many rows as there are and no more.
    fn read(cells: &Self::Cells, i: usize, pool: &mut TextPool) -> Result<Self, BadRow> {
        let rows = cells.range(i)?;
        let mut all = Vec::with_capacity(rows.len().min(MAX_RESERVED_ROWS));
        for row in rows {
            all.push(R::read(&cells.rows, row, pool)?);
        }
        Ok(all)
    }

    fn read_option(cells: &Self::Cells, i: usize, pool: &mut TextPool) -> Result<Option<Self>, BadRow> {
        Self::read(cells, i, pool).map(Some)
    }
}

impl Append for Stages {
    type Builder = [NumberBuilder<Int64Type>; Stage::ALL.len()];

    fn append(stages: &Self, to: &mut Self::Builder) {
        stages.iter().zip(to).for_each(|((_, time), column)| column.append_value(time.0));
    }

    fn append_null(to: &mut Self::Builder) {
        to.iter_mut().for_each(NumberBuilder::append_null);
    }

    fn finish(builder: &mut Self::Builder, to: &mut Vec<ArrayRef>) {
        to.extend(builder.iter_mut().map(|column| Arc::new(column.finish()) as ArrayRef));
    }

    fn bytes(stages: &Self) -> usize {
        size_of_val(stages)
    }
}

/// Builders of a row that `model` declares.
macro_rules! append_row {
    ($(#[$meta:meta])* pub struct $Row:ident { $(
        $(#[doc = $doc:literal])*
        $field:ident: $ty:ty $(as $column:literal $(in $kind:ty)? $(
            => $derived:ident: $derived_ty:ty as $derived_column:literal $derived_doc:literal
        )?)?,
    )* }) => {
        const _: () = {
            #[derive(Default)]
            pub(crate) struct Builder {
                $(
                    $field: <model::field_kind!($ty $($(, $kind)?)?) as Append>::Builder,
                    $($($derived: <$derived_ty as Append>::Builder,)?)?
                )*
            }

            impl Append for $Row {
                type Builder = Builder;

                fn append(row: &Self, to: &mut Builder) {
                    $(
                        <model::field_kind!($ty $($(, $kind)?)?) as Append>::append(&row.$field, &mut to.$field);
                        $($(<$derived_ty as Append>::append(&row.$derived(), &mut to.$derived);)?)?
                    )*
                }

                fn append_null(to: &mut Builder) {
                    $(
                        <model::field_kind!($ty $($(, $kind)?)?) as Append>::append_null(&mut to.$field);
                        $($(<$derived_ty as Append>::append_null(&mut to.$derived);)?)?
                    )*
                }

                fn finish(builder: &mut Builder, to: &mut Vec<ArrayRef>) {
                    $(
                        <model::field_kind!($ty $($(, $kind)?)?) as Append>::finish(&mut builder.$field, to);
                        $($(<$derived_ty as Append>::finish(&mut builder.$derived, to);)?)?
                    )*
                }

                fn bytes(row: &Self) -> usize {
                    0 $(+ <model::field_kind!($ty $($(, $kind)?)?) as Append>::bytes(&row.$field))*
                }
            }

            impl AppendRow for $Row {}
        };
    };
}

/// Cells of a row that `model` or a projection declares.
/// A nullable group is present if each of its non-nullable columns has a value.
macro_rules! read_row {
    ($(#[$meta:meta])* pub struct $Row:ident { $(
        $(#[doc = $doc:literal])*
        $field:ident: $ty:ty $(as $column:literal $(in $kind:ty)? $(
            => $derived:ident: $derived_ty:ty as $derived_column:literal $derived_doc:literal
        )?)?,
    )* }) => {
        const _: () = {
            use $crate::cells::{BadRow, ColumnError, Source};
            use $crate::rows::{Read, ReadRow};
            use $crate::text::TextPool;

            pub(crate) struct Columns {
                $($field: <model::field_kind!($ty $($(, $kind)?)?) as Read>::Cells,)*
            }

            impl Read for $Row {
                type Cells = Columns;

                fn cells(source: &dyn Source, _: &'static str, nullable: bool) -> Result<Columns, ColumnError> {
                    Ok(Columns { $(
                        $field: <model::field_kind!($ty $($(, $kind)?)?) as Read>::cells(
                            source, model::column_name!($field $($column)?), nullable,
                        )?,
                    )* })
                }

                fn read(cells: &Columns, i: usize, pool: &mut TextPool) -> Result<Self, BadRow> {
                    Ok(Self { $(
                        $field: <model::field_kind!($ty $($(, $kind)?)?) as Read>::read(&cells.$field, i, pool)?,
                    )* })
                }

                fn read_option(cells: &Columns, i: usize, pool: &mut TextPool) -> Result<Option<Self>, BadRow> {
                    Ok(Some(Self { $(
                        $field: match <model::field_kind!($ty $($(, $kind)?)?) as Read>::read_option(&cells.$field, i, pool)? {
                            Some(value) => value,
                            None => return Ok(None),
                        },
                    )* }))
                }
            }

            impl ReadRow for $Row {}
        };
    };
}
pub(crate) use read_row;

/// Rows that are written and read.
macro_rules! stored {
    ($($row:ident)*) => {
        $(model::$row!(append_row); model::$row!(read_row);)*
    };
}

stored! {
    request_row partition_row batch_row request_latencies_row latency_count_row
    file_op_row topic_partition_row device_row batch_head_row
    off_cpu_row waker_row
    journal_commit_row commit_phases_row
    block_io_row dirty_throttle_row reclaim_row kernel_span_row
    socket_op_row tcp_event_row tls_traffic_row partition_state_row
    host_sample_row cpu_sample_row
    lock_wait_row lock_row lock_holder_row handler_call_row jvm_pause_row process_stop_row cpu_gap_row
    broker_change_row loss_row
}

// Verdicts follow from the events and are not read back.
model::verdict_row!(append_row);
model::stage_span_row!(append_row);
model::evidence_row!(append_row);
model::waiter_row!(append_row);
model::doubt_row!(append_row);
model::kafka_times_row!(append_row);
