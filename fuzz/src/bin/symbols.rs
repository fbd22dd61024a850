//! libFuzzer's entry to [`fuzz::symbols`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::symbols::TARGET.run(data));
