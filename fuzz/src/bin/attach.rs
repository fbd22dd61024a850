//! libFuzzer's entry to [`fuzz::attach`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::attach::TARGET.run(data));
