//! libFuzzer's entry to [`fuzz::pcapng`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pcapng::TARGET.run(data));
