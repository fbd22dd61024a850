//! The upper bounds of classic buckets. Native ones need none.

/// Of times, in seconds.
pub(crate) const SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Of sizes, in bytes.
pub(crate) const BYTES: &[f64] =
    &[256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];
/// Of numbers of records.
pub(crate) const RECORDS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];
