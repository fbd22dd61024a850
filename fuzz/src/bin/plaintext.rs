//! libFuzzer's entry to [`fuzz::plaintext`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::plaintext::TARGET.run(data));
