//! A column of numbers under construction. Does not write it.
//!
//! Every event appends to some thirty of these, so an append is a push: room is taken once a batch, as much as the
//! last one needed, and which values are absent is not noted as long as none is, or all are.

use std::sync::Arc;

use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, PrimitiveArray};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, ScalarBuffer};

/// Appends numbers; [`NumberBuilder::finish`] hands the column out and starts anew.
pub(crate) struct NumberBuilder<T: ArrowPrimitiveType> {
    /// One for each row, or none as long as all are absent.
    values: Vec<T::Native>,
    absent: usize,
    /// Which rows have a value, once some have and some have not.
    present: Option<BooleanBufferBuilder>,
}

impl<T: ArrowPrimitiveType> Default for NumberBuilder<T> {
    fn default() -> Self {
        Self { values: Vec::new(), absent: 0, present: None }
    }
}

impl<T: ArrowPrimitiveType> NumberBuilder<T> {
    /// Appends a number.
    #[inline]
    pub(crate) fn append_value(&mut self, value: T::Native) {
        if self.absent == 0 {
            self.values.push(value);
        } else {
            self.append_to_some(Some(value));
        }
    }

    /// Appends none.
    #[inline]
    pub(crate) fn append_null(&mut self) {
        if self.values.is_empty() {
            self.absent += 1;
        } else {
            self.append_to_some(None);
        }
    }

    /// Appends a number or none.
    #[inline]
    pub(crate) fn append_option(&mut self, value: Option<T::Native>) {
        match value {
            Some(value) => self.append_value(value),
            None => self.append_null(),
        }
    }

    /// Where some are absent and some are not, from now on or already.
    fn append_to_some(&mut self, value: Option<T::Native>) {
        let Self { values, absent, present } = self;
        let present = present.get_or_insert_with(|| {
            let mut present = BooleanBufferBuilder::new(values.capacity());
            present.append_n(*absent, false);
            present.append_n(values.len(), true);
            values.resize(*absent + values.len(), T::Native::default());
            present
        });
        present.append(value.is_some());
        *absent += usize::from(value.is_none());
        values.push(value.unwrap_or_default());
    }

    /// The column as appended so far.
    pub(crate) fn column(&mut self) -> PrimitiveArray<T> {
        let room = Vec::with_capacity(self.values.len());
        let mut values = std::mem::replace(&mut self.values, room);
        let absent = std::mem::take(&mut self.absent);
        let nulls = match self.present.take() {
            Some(mut present) => Some(NullBuffer::new(present.finish())),
            None if absent > 0 => {
                values.resize(absent, T::Native::default());
                Some(NullBuffer::new_null(absent))
            }
            None => None,
        };
        PrimitiveArray::new(ScalarBuffer::from(values), nulls)
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

    #[test]
    fn a_column_without_values_is_as_long_as_it_is_and_one_may_come_last() {
        let mut builder = NumberBuilder::<Int64Type>::default();
        (0..3).for_each(|_| builder.append_null());
        let column = builder.column();
        assert_eq!((column.len(), column.null_count()), (3, 3));
        (0..2).for_each(|_| builder.append_option(None));
        builder.append_value(7);
        builder.append_null();
        assert_eq!(builder.column().iter().collect::<Vec<_>>(), [None, None, Some(7), None]);
        builder.append_value(8);
        assert_eq!(builder.column().iter().collect::<Vec<_>>(), [Some(8)]);
    }
}
