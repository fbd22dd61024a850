//! How much a live watch observes, and so what it costs the broker: `--watch`, and its meaning for a command on this
//! host.

use clap::{Args, ValueEnum};

use crate::quantity;

#[cfg(feature = "live")]
pub(crate) use live::{FullFlag, Preference};

/// `--watch`.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct WatchMode {
    /// Watch in this mode (live). auto: full. always-on observes less, and each verdict appears about 11 s after its
    /// request.
    #[arg(long, value_name = "MODE", value_enum, default_value_t)]
    watch: Mode,
    /// Stop sources one after the other once watching has taken more than this share of the broker's CPU time for a
    /// minute (live): 3%, or none. Without it, 3% in always-on mode, and none in full mode.
    #[arg(long, value_name = "SHARE", value_parser = quantity::share)]
    max_cost: Option<f64>,
}

/// Mode of a live watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// The mode that suits the command, its other flags and this host
    #[default]
    Auto,
    /// Everything that can be observed
    Full,
    /// A watch that can stay on for months: the kernel counts requests and keeps what bears on slow ones, and is read
    /// once per second and when a request took as long as --slower-than
    AlwaysOn,
}

impl WatchMode {
    /// A flag that the user gave for live input, if any.
    pub(crate) fn explicit_flag(self) -> Option<&'static str> {
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

    /// The mode that a command prefers with `auto`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(crate) enum Preference {
        Full,
        AlwaysOn,
    }

    /// Default of `--max-cost` for an always-on watch.
    const MAX_COST: f64 = 0.03;

    impl WatchMode {
        /// The share of the broker's CPU time above which sources are shed.
        /// By default there is no bound for a full watch.
        pub(crate) fn max_cost(self, always_on: Option<Nanos>) -> f64 {
            let default = if always_on.is_some() { MAX_COST } else { f64::INFINITY };
            self.max_cost.unwrap_or(default)
        }

        /// Chooses the mode: the threshold of an always-on watch, or `None` for a full one.
        /// Logs the choice of `auto` if that depends on flags or the host.
        ///
        /// # Errors
        /// `always-on` was requested and is not possible: with these flags, or on this host.
        pub(crate) fn choose(
            self,
            default: Preference,
            only_full: &[FullFlag],
            slow: Slow,
        ) -> anyhow::Result<Option<Nanos>> {
            let flag = only_full.iter().find(|(_, is_given)| *is_given).map(|(flag, _)| *flag);
            let flag = flag.or((slow.slower_than <= Nanos::ZERO).then_some("--slower-than 0"));
            let survey = || always_on::Plan::choose(&Facts::survey()).unavailable().cloned();
            let is_always_on = match (self.watch, default) {
                (Mode::Full, _) | (Mode::Auto, Preference::Full) => false,
                (Mode::AlwaysOn, _) => demand(flag, survey)?,
                (Mode::Auto, Preference::AlwaysOn) => {
                    let why_full = why_full(flag, survey);
                    tracing::info!("{}", describe(why_full.as_deref()));
                    why_full.is_none()
                }
            };
            Ok(is_always_on.then_some(slow.slower_than))
        }
    }

    /// Checks that always-on mode is possible.
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

    /// Why the full mode is used although always-on is preferred; `None` if always-on is possible.
    fn why_full(flag: Option<&str>, unavailable: impl Fn() -> Option<State>) -> Option<String> {
        let of_flag = flag.map(|flag| format!("because of {flag}"));
        of_flag.or_else(|| Some(format!("always-on is not possible: {}", reason(&unavailable()?))))
    }

    fn describe(why_full: Option<&str>) -> String {
        let always_on = "--watch always-on by default: --watch full sees more and costs the broker more";
        why_full.map_or_else(|| always_on.to_owned(), |why| format!("--watch full: {why}"))
    }

    /// Formats what is missing, and what to do about it.
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
        fn max_cost_defaults_to_3_percent_if_always_on_and_none_if_full() {
            let always_on = Some(Nanos::from_millis(100));
            assert_eq!(
                (mode(Mode::Auto).max_cost(always_on), mode(Mode::Full).max_cost(None)),
                (0.03, f64::INFINITY)
            );
            let half = WatchMode { watch: Mode::Full, max_cost: Some(0.5) };
            assert_eq!((half.max_cost(None), half.explicit_flag()), (0.5, Some("--watch")));
        }

        #[test]
        fn always_on_errors_name_the_flag_or_the_missing_feature() {
            assert!(demand(None, available).unwrap());
            let error = demand(Some("--interface"), available).unwrap_err();
            assert!(error.is::<analysis::Usage>());
            let message = error.to_string();
            assert!(message.contains("--watch always-on") && message.contains("--interface"), "{message}");
            let error = demand(None, || Some(no_btf())).unwrap_err().to_string();
            assert_eq!(error, "--watch always-on: no BTF; load it; or use --watch full");
        }

        #[test]
        fn auto_mode_is_full_for_an_incompatible_flag_or_kernel() {
            assert_eq!(why_full(None, available), None);
            assert_eq!(why_full(Some("--interface"), available).unwrap(), "because of --interface");
            let kernel = why_full(None, || Some(no_btf())).unwrap();
            assert_eq!(kernel, "always-on is not possible: no BTF; load it");
        }

        #[test]
        fn full_mode_or_a_zero_threshold_skips_the_host_check() {
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
