//! libFuzzer's entry to [`fuzz::fetch`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::fetch::TARGET.run(data));
