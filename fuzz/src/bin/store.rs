//! libFuzzer's entry to [`fuzz::store`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::store::TARGET.run(data));
