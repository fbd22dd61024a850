//! libFuzzer's entry to [`fuzz::log`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::log::TARGET.run(data));
