//! What every format has to be able to say of metrics. Formats are [`crate::text`] and [`crate::protobuf`].

use crate::catalog::Family;
use crate::exemplar::Exemplar;
use crate::histogram::Histogram;

/// Writes metrics, family after family. Labels' values are given in the order of the family's labels; each series of a family
/// is given once.
pub(crate) trait Encoder {
    /// A family begins; what follows is of it.
    fn family(&mut self, family: &'static Family);

    /// A counter or a gauge, with an example where there is one.
    fn number(&mut self, labels: &[&str], value: f64, example: Option<&Exemplar>);

    /// A histogram.
    fn histogram(&mut self, labels: &[&str], histogram: &Histogram);

    /// All that was written.
    fn finish(self: Box<Self>) -> Vec<u8>;
}

impl dyn Encoder + '_ {
    /// A family of one number.
    pub(crate) fn one(&mut self, family: &'static Family, value: f64) {
        self.family(family);
        self.number(&[], value, None);
    }

    /// A family of one label.
    pub(crate) fn each<'a>(
        &mut self,
        family: &'static Family,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) {
        self.family(family);
        for (label, value) in values {
            self.number(&[label], value, None);
        }
    }
}
