//! libFuzzer's entry to [`fuzz::http`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::http::TARGET.run(data));
