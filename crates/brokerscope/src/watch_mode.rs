//! How much a live watch sees, and so what it costs the broker: `--watch`, and what a command makes of it on this host.

use clap::{Args, ValueEnum};

use crate::quantity;

#[cfg(feature = "live")]
pub(crate) use live::{FullFlag, Preference};

/// `--watch`.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct WatchMode {
    /// Watch in this mode (live). auto: full. With always-on, what is not seen is unobserved, and each verdict comes about
    /// 11 s after its request.
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    watch: Mode,
    /// Leave sources off once watching has taken more than this share of the broker's CPU time for a minute (live), one
    /// after the other: 3%, or none. Without it, 3% where the watch is always-on, and none where it is full.
    #[arg(long, value_name = "SHARE", value_parser = quantity::share)]
    max_cost: Option<f64>,
}

/// How much to watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// What suits the command, its other flags and this host
    #[default]
    Auto,
    /// All that can be seen
    Full,
    /// What can stay on for months: the kernel counts requests and keeps what bears on slow ones, and is read once a
    /// second and when a request took as long as --slower-than
    AlwaysOn,
}

impl WatchMode {
    /// A flag that was given.
    pub(crate) fn given(self) -> Option<&'static str> {
        let watch = (self.watch != Mode::Auto).then_some("--watch");
        watch.or(self.max_cost.map(|_| "--max-cost"))
    }
}

#[cfg(feature = "live")]
mod live {
    use analysis::Usage;
    use model::Nanos;
    use probes::{Facts, State, always_on};

    use super::{Mode, WatchMode};
    use crate::args::Slow;

    /// A flag that only the full watch can serve, and whether it was given.
    pub(crate) type FullFlag = (&'static str, bool);

    /// What a command's `auto` prefers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Preference {
        Full,
        AlwaysOn,
    }

    /// Of the broker's CPU time.
    const MAX_COST: f64 = 0.03;

    impl WatchMode {
        /// The share of the broker's CPU time above which sources are given up. Who asks for everything pays for it.
        pub(crate) fn max_cost(self, always_on: Option<Nanos>) -> f64 {
            let default = if always_on.is_some() { MAX_COST } else { f64::INFINITY };
            self.max_cost.unwrap_or(default)
        }

        /// What is slow to a watch that is always on; none if everything is to be watched. Says what `auto` chose, where
        /// that depends on something.
        ///
        /// # Errors
        /// `always-on` was asked for and is not possible: with these flags, or on this host.
        pub(crate) fn choose(
            self,
            default: Preference,
            only_full: &[FullFlag],
            slow: Slow,
        ) -> anyhow::Result<Option<Nanos>> {
            let given = only_full.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag);
            let given = given.or((slow.slower_than <= Nanos::ZERO).then_some("--slower-than 0"));
            let survey = || always_on::Plan::choose(&Facts::survey()).unavailable().cloned();
            let is_always_on = match (self.watch, default) {
                (Mode::Full, _) | (Mode::Auto, Preference::Full) => false,
                (Mode::AlwaysOn, _) => demand(given, survey)?,
                (Mode::Auto, Preference::AlwaysOn) => {
                    let why_full = why_full(given, survey);
                    tracing::info!("{}", describe(why_full.as_deref()));
                    why_full.is_none()
                }
            };
            Ok(is_always_on.then_some(slow.slower_than))
        }
    }

    /// Refuses to be always on where it cannot be.
    fn demand(flag: Option<&str>, unavailable: impl Fn() -> Option<State>) -> anyhow::Result<bool> {
        if let Some(flag) = flag {
            return Err(Usage::new(format!(
                "--watch always-on does not go with {flag}, which only --watch full can serve"
            ))
            .into());
        }
        match unavailable() {
            Some(state) => anyhow::bail!("--watch always-on: {}; or use --watch full", reason(&state)),
            None => Ok(true),
        }
    }

    /// Why everything is to be watched, although a watch that is always on is preferred; none if nothing speaks against it.
    fn why_full(flag: Option<&str>, unavailable: impl Fn() -> Option<State>) -> Option<String> {
        let of_flag = flag.map(|flag| format!("because of {flag}"));
        of_flag.or_else(|| Some(format!("always-on is not possible: {}", reason(&unavailable()?))))
    }

    fn describe(why_full: Option<&str>) -> String {
        let always_on = "--watch always-on by default: --watch full sees more and costs the broker more";
        why_full.map_or_else(|| always_on.to_owned(), |why| format!("--watch full: {why}"))
    }

    /// What is missing, and what to do about it.
    fn reason(state: &State) -> String {
        match state {
            State::Use => String::new(),
            State::Missing { why, remedy: None } => why.clone(),
            State::Missing { why, remedy: Some(remedy) } => format!("{why}; {remedy}"),
        }
    }

    #[cfg(test)]
    mod tests {
        use probes::State;

        use super::{Mode, Nanos, Preference, Slow, WatchMode, demand, why_full};

        fn available() -> Option<State> {
            None
        }

        fn no_btf() -> State {
            State::Missing { why: "no BTF".to_owned(), remedy: Some("load it".to_owned()) }
        }

        fn mode(watch: Mode) -> WatchMode {
            WatchMode { watch, max_cost: None }
        }

        #[test]
        fn what_is_asked_for_is_paid_for() {
            let always_on = Some(Nanos::from_millis(100));
            assert_eq!(
                (mode(Mode::Auto).max_cost(always_on), mode(Mode::Full).max_cost(None)),
                (0.03, f64::INFINITY)
            );
            let half = WatchMode { watch: Mode::Full, max_cost: Some(0.5) };
            assert_eq!((half.max_cost(None), half.given()), (0.5, Some("--watch")));
        }

        #[test]
        fn always_on_says_what_it_does_not_go_with() {
            assert!(demand(None, available).unwrap());
            let error = demand(Some("--interface"), available).unwrap_err();
            assert!(error.is::<analysis::Usage>());
            let said = error.to_string();
            assert!(said.contains("--watch always-on") && said.contains("--interface"), "{said}");
            let error = demand(None, || Some(no_btf())).unwrap_err().to_string();
            assert_eq!(error, "--watch always-on: no BTF; load it; or use --watch full");
        }

        #[test]
        fn auto_is_full_for_a_flag_or_a_kernel_that_takes_it() {
            assert_eq!(why_full(None, available), None);
            assert_eq!(why_full(Some("--interface"), available).unwrap(), "because of --interface");
            let kernel = why_full(None, || Some(no_btf())).unwrap();
            assert_eq!(kernel, "always-on is not possible: no BTF; load it");
        }

        #[test]
        fn a_mode_that_is_full_asks_nothing_of_the_host() {
            let slow = Slow { slower_than: Nanos::from_millis(100) };
            for (watch, default) in [(Mode::Full, Preference::AlwaysOn), (Mode::Auto, Preference::Full)] {
                assert_eq!(mode(watch).choose(default, &[], slow).unwrap(), None);
            }
            // Everything would be slow.
            let every = Slow { slower_than: Nanos::ZERO };
            assert_eq!(mode(Mode::Auto).choose(Preference::AlwaysOn, &[], every).unwrap(), None);
            let demanded = mode(Mode::AlwaysOn).choose(Preference::Full, &[], every);
            assert!(demanded.unwrap_err().to_string().contains("--slower-than"));
        }
    }
}
