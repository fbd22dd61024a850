//! libFuzzer's entry to [`fuzz::produce`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::produce::TARGET.run(data));
