//! libFuzzer's entry to [`fuzz::frame`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::frame::TARGET.run(data));
