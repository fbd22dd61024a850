//! What the engine is asked for, and its bounds.

use model::Nanos;

/// The JVM's flight recorder hands its threads' buffers on once a second, tells of a wait when it has ended, and is read
/// several times a second.
const JVM_LATENESS: Nanos = Nanos::from_millis(3_000);

/// How the engine works. Every bound is a ceiling on memory or delay, never on correctness: what falls
/// out of the window is said in the verdict.
#[derive(Clone, Debug)]
pub struct Config {
    /// Requests at least this slow get a verdict.
    pub slower_than: Nanos,
    /// How late an event may arrive behind the newest one: a request is decided this long after its end.
    /// A journal's commit is known only when it ends, which can be long after the write it stalled.
    pub lateness: Nanos,
    /// How long events are kept behind the newest one; a request that took longer is decided on what is left.
    pub retention: Nanos,
    /// At most this many file operations are kept, whatever their age.
    pub most_file_ops: usize,
    /// Whether the broker's file writes were watched at all.
    pub file_ops_observed: bool,
    /// The Kafka names of the APIs that get verdicts.
    pub apis: Vec<&'static str>,
}

impl Config {
    /// For a recording: events are all there, so waiting costs nothing but memory.
    pub fn replay(slower_than: Nanos) -> Self {
        Self {
            slower_than,
            lateness: Nanos::from_millis(10_000),
            retention: Nanos::from_millis(60_000),
            most_file_ops: 2_000_000,
            file_ops_observed: true,
            // Fetch, JoinGroup and the like wait on purpose; telling that from slowness needs their bodies.
            apis: vec!["PRODUCE"],
        }
    }

    /// The same, where the JVM tells of its locks and pauses too, which is later.
    #[must_use]
    pub fn with_jvm(self) -> Self {
        Self { lateness: self.lateness + JVM_LATENESS, ..self }
    }

    /// For a live watch: verdicts follow within two seconds.
    pub fn live(slower_than: Nanos) -> Self {
        Self { lateness: Nanos::from_millis(2_000), most_file_ops: 500_000, ..Self::replay(slower_than) }
    }
}
