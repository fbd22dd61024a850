//! libFuzzer's entry to [`fuzz::recording`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::recording::TARGET.run(data));
