//! Recordings that hold kernel events only around slow requests and operations: how they are made, and a note for readers.

use std::collections::BTreeMap;

use model::Nanos;
use report::quantity::format_count;

use super::settings::{LEFT_OUT, PARTIAL};

/// How long the flight recorder keeps events: the beginning of anything that took longer is missing.
#[cfg(feature = "live")]
const FLIGHT_MEMORY: Nanos = Nanos::from_millis(30_000);

/// Creates the flight recorder, which decides what is kept.
#[cfg(feature = "live")]
pub fn flight(slower_than: Nanos, memory: watch::Memory) -> watch::FlightRecorder {
    watch::FlightRecorder::new(watch::Flight {
        slower_than,
        apis: diagnose::Config::replay(slower_than).apis,
        hold: FLIGHT_MEMORY,
        max_bytes: memory.flight_bytes,
    })
}

/// Threshold of a partial recording; `None` if the recording is not partial.
/// A partial recording holds kernel events only around what took at least as long.
pub fn threshold(settings: &BTreeMap<String, String>) -> Option<Nanos> {
    settings.get(PARTIAL)?.parse().ok().map(Nanos)
}

/// A note for readers of a partial recording.
pub(super) fn note(settings: &BTreeMap<String, String>) -> Option<String> {
    let threshold = threshold(settings)?;
    let left_out = settings.get(LEFT_OUT).and_then(|count| count.parse().ok()).unwrap_or(0);
    let count = if left_out > 0 {
        format!("; {} others were left out", format_count(left_out))
    } else {
        String::new()
    };
    Some(format!(
        "the recording holds kernel events only around requests and file operations that took {threshold} or \
         longer{count}"
    ))
}

#[cfg(test)]
mod tests {
    use super::{LEFT_OUT, PARTIAL, note};

    #[test]
    fn notes_threshold_and_left_out_events_of_a_partial_recording() {
        let settings = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(note(&settings(&[])), None);
        assert_eq!(note(&settings(&[(PARTIAL, "soon")])), None);
        let text = note(&settings(&[(PARTIAL, "100000000"), (LEFT_OUT, "12345")])).unwrap();
        assert!(text.contains("100 ms or longer; 12,345 others"), "{text}");
    }
}
