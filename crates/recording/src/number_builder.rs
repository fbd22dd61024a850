//! A column of numbers under construction. Does not write it.
//!
//! Every event appends to some thirty of these, so an append is a push: room is taken once a batch, as much as the
//! last one needed, and which values are absent is not noted as long as none is.

use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::{NullBufferBuilder, ScalarBuffer};

/// Appends numbers; [`NumberBuilder::finish`] hands the column out and starts anew.
pub(crate) struct NumberBuilder<T: ArrowPrimitiveType> {
    values: Vec<T::Native>,
    absent: NullBufferBuilder,
}

impl<T: ArrowPrimitiveType> Default for NumberBuilder<T> {
    fn default() -> Self {
        Self { values: Vec::new(), absent: NullBufferBuilder::new(0) }
    }
}

impl<T: ArrowPrimitiveType> NumberBuilder<T> {
    /// Appends a number.
    #[inline]
    pub(crate) fn append_value(&mut self, value: T::Native) {
        self.values.push(value);
        self.absent.append_non_null();
    }

    /// Appends none.
    #[inline]
    pub(crate) fn append_null(&mut self) {
        self.values.push(T::Native::default());
        self.absent.append_null();
    }

    /// Appends a number or none.
    #[inline]
    pub(crate) fn append_option(&mut self, value: Option<T::Native>) {
        match value {
            Some(value) => self.append_value(value),
            None => self.append_null(),
        }
    }

    /// The column as appended so far.
    pub(crate) fn column(&mut self) -> PrimitiveArray<T> {
        let room = Vec::with_capacity(self.values.len());
        let values = std::mem::replace(&mut self.values, room);
        PrimitiveArray::new(ScalarBuffer::from(values), self.absent.finish())
    }

    /// The same, of any type.
    pub(crate) fn finish(&mut self) -> ArrayRef {
        Arc::new(self.column())
    }
}

#[cfg(test)]
mod tests {
    use super::NumberBuilder;
    use arrow_array::Array as _;
    use arrow_array::types::Int64Type;

    #[test]
    fn absences_are_noted_from_the_first_one_on_and_forgotten_with_the_column() {
        let mut builder = NumberBuilder::<Int64Type>::default();
        builder.append_value(1);
        builder.append_null();
        builder.append_option(Some(3));
        builder.append_option(None);
        let column = builder.column();
        assert_eq!(column.iter().collect::<Vec<_>>(), [Some(1), None, Some(3), None]);
        builder.append_value(5);
        let column = builder.column();
        assert_eq!((column.len(), column.null_count(), column.value(0)), (1, 0, 5));
        assert_eq!(builder.column().len(), 0);
    }
}
