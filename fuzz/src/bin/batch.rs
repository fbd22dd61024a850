//! libFuzzer's entry to [`fuzz::batch`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::batch::TARGET.run(data));
