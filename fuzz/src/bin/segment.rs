//! libFuzzer's entry to [`fuzz::segment`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::segment::TARGET.run(data));
