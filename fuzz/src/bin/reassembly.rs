//! libFuzzer's entry to [`fuzz::reassembly`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::reassembly::TARGET.run(data));
