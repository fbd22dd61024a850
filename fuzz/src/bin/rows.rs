//! libFuzzer's entry to [`fuzz::rows`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::rows::TARGET.run(data));
