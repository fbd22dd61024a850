//! libFuzzer's entry to [`fuzz::pcap`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::pcap::TARGET.run(data));
