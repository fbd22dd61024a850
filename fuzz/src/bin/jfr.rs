//! libFuzzer's entry to [`fuzz::jfr`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::jfr::TARGET.run(data));
