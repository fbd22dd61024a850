//! libFuzzer's entry to [`fuzz::tail`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tail::TARGET.run(data));
