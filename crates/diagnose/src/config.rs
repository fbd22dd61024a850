//! The engine's configuration: which requests it judges, and its bounds.

use model::{Nanos, api_key};

/// Maximum lateness of the JVM's Flight Recorder.
/// It passes its threads' buffers on once a second, reports a wait when it has ended, and is read several times a
/// second.
const JVM_LATENESS: Nanos = Nanos::from_millis(3_000);

/// APIs that a broker answers as soon as it can.
/// The only exception is a fetch's intended wait for data. Other APIs cannot be judged: members of groups wait for
/// each other (`JoinGroup`, and `SyncGroup` until the group's assignment is written), the requests of a raft leader or
/// a share group wait for data, and many administrative requests take arbitrarily long. Requests to the controller are
/// judged if they are answered once their records are in the cluster's metadata.
const DEFAULT_APIS: [i16; 28] = [
    api_key::PRODUCE,
    api_key::FETCH,
    api_key::LIST_OFFSETS,
    api_key::METADATA,
    api_key::OFFSET_COMMIT,
    api_key::OFFSET_FETCH,
    api_key::FIND_COORDINATOR,
    api_key::HEARTBEAT,
    api_key::LEAVE_GROUP,
    api_key::DESCRIBE_GROUPS,
    api_key::LIST_GROUPS,
    api_key::API_VERSIONS,
    api_key::INIT_PRODUCER_ID,
    api_key::OFFSET_FOR_LEADER_EPOCH,
    api_key::ADD_PARTITIONS_TO_TXN,
    api_key::ADD_OFFSETS_TO_TXN,
    api_key::END_TXN,
    api_key::TXN_OFFSET_COMMIT,
    api_key::SYNC_GROUP,
    api_key::CREATE_TOPICS,
    api_key::DELETE_TOPICS,
    api_key::CREATE_PARTITIONS,
    api_key::INCREMENTAL_ALTER_CONFIGS,
    api_key::ALTER_CLIENT_QUOTAS,
    api_key::ALTER_PARTITION,
    api_key::ENVELOPE,
    api_key::BROKER_HEARTBEAT,
    api_key::ALLOCATE_PRODUCER_IDS,
];

/// How the engine works. Every bound limits memory or delay, never correctness: the verdict reports what fell out of
/// the window.
#[derive(Clone, Debug)]
pub struct Config {
    /// Requests at least this slow get a verdict.
    pub slower_than: Nanos,
    /// How far events may be out of the order of their times.
    /// They are put in order before they are used, so that the same events give the same verdicts in whichever order
    /// they arrive. Events that arrive even later are used as they come.
    pub disorder: Nanos,
    /// How long after its end a request is decided, in event time: a journal commit is known only when it ends, which
    /// can be long after the write that it stalled.
    pub lateness: Nanos,
    /// How long events are retained behind the newest; a request that took longer is decided on what is left.
    pub retention: Nanos,
    /// Approximate maximum of retained events of any age; a large request counts as several ([`Config::EVENT_BYTES`]
    /// each). Beyond it, requests are decided early, before events that may explain them are dropped.
    pub max_events: usize,
    /// Whether the broker's file writes were watched at all.
    pub file_ops_observed: bool,
    /// Gives verdicts only to requests with this correlation id. All of them get one, of any latency and API.
    pub only_request: Option<i32>,
    /// The Kafka names of the APIs that get verdicts.
    pub apis: Vec<&'static str>,
    /// Kafka names of the APIs whose requests get stages even if they are not slow.
    /// See [`crate::engine::Engine::take_request_stages`]. Empty by default, because most of the work would be for
    /// quick requests.
    pub stages_of: Vec<&'static str>,
}

impl Config {
    /// Memory of an event and its allocations, generously.
    pub const EVENT_BYTES: usize = 400;

    /// For a recording: all events are there, so waiting costs nothing but memory.
    pub fn replay(slower_than: Nanos) -> Self {
        Self {
            slower_than,
            disorder: Nanos::from_millis(1_000),
            lateness: Nanos::from_millis(10_000),
            retention: Nanos::from_millis(60_000),
            max_events: 1_000_000,
            file_ops_observed: true,
            only_request: None,
            apis: DEFAULT_APIS.map(api_key::name).to_vec(),
            stages_of: Vec::new(),
        }
    }

    /// Waits longer for the JVM's reports of its locks and pauses, which come later.
    #[must_use]
    pub fn with_jvm(self) -> Self {
        Self { lateness: self.lateness + JVM_LATENESS, ..self }
    }

    /// Allows events to be out of order by this much.
    #[must_use]
    pub fn with_disorder(self, disorder: Nanos) -> Self {
        Self { disorder, ..self }
    }

    /// For a live watch: verdicts follow within two seconds.
    pub fn live(slower_than: Nanos) -> Self {
        Self {
            disorder: Nanos::from_millis(400),
            lateness: Nanos::from_millis(1_000),
            max_events: 300_000,
            ..Self::replay(slower_than)
        }
    }
}
