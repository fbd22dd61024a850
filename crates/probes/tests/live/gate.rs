//! Whether live tests may run. Does not check whether they can.

/// True only with `BROKERSCOPE_LIVE_TESTS=1`; otherwise says loudly that the test did not run.
pub(crate) fn is_open() -> bool {
    let open = std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_some_and(|value| value == "1");
    if !open {
        eprintln!("NOT RUN: needs root, BPF and BROKERSCOPE_LIVE_TESTS=1");
    }
    open
}
