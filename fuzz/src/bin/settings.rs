//! libFuzzer's entry to [`fuzz::settings`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::settings::TARGET.run(data));
