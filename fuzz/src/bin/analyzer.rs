//! libFuzzer's entry to [`fuzz::analyzer`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::analyzer::TARGET.run(data));
