//! A fence around third-party decoders that are fed bytes from outside. Does not decode.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a decoder; its panic, should it have one, becomes an error. The caller drops the decoder then.
pub(crate) fn fenced<T>(decode: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(decode)).map_err(|_| "its decoder gave up on it".to_owned())
}
