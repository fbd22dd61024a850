//! libFuzzer's entry to [`fuzz::dump`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::dump::TARGET.run(data));
