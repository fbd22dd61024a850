//! What the engine is asked for, and its bounds.

use model::{Nanos, api_key};

/// The JVM's flight recorder hands its threads' buffers on once a second, reports a wait when it has ended, and is read
/// several times a second.
const JVM_LATENESS: Nanos = Nanos::from_millis(3_000);

/// What a broker answers as soon as it can, but for a fetch's wait for data, which is no slowness. Of others that
/// cannot be told: members of groups wait for each other (`JoinGroup`, and `SyncGroup` until its group's assignment is written), a raft leader or a share group's for
/// what there is to fetch, and much of what an administrator asks for takes as long as it takes. Of the controller: what is
/// answered when its records are in the cluster's metadata.
const JUDGED: [i16; 28] = [
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

/// How the engine works. Every bound is a ceiling on memory or delay, never on correctness: what falls
/// out of the window is said in the verdict.
#[derive(Clone, Debug)]
pub struct Config {
    /// Requests at least this slow get a verdict.
    pub slower_than: Nanos,
    /// How far events may be out of the order of their times: they are put in order before anything is made of them,
    /// so that the same events give the same verdicts however they come. What comes later still is used as it comes.
    pub disorder: Nanos,
    /// How long after its end a request is decided, in the time of what was seen: a journal's commit is known only when
    /// it ends, which can be long after the write it stalled.
    pub lateness: Nanos,
    /// How long events are kept behind the newest one; a request that took longer is decided on what is left.
    pub retention: Nanos,
    /// At most about this many events are kept, of any age, a large request counting as those that take as much memory
    /// ([`Config::EVENT_BYTES`]). Where there are more, requests are decided on what there is before it is forgotten.
    pub max_events: usize,
    /// Whether the broker's file writes were watched at all.
    pub file_ops_observed: bool,
    /// Only requests with this correlation id get verdicts, and all of them do, however quick they were and of which API.
    pub only_request: Option<i32>,
    /// The Kafka names of the APIs that get verdicts.
    pub apis: Vec<&'static str>,
    /// The Kafka names of the APIs whose requests' stages are wanted of all of them, slow or not
    /// ([`crate::engine::Engine::take_request_stages`]); of none by default, because most of the work is with those that were quick.
    pub stages_of: Vec<&'static str>,
}

impl Config {
    /// What an event and its allocations take, generously.
    pub const EVENT_BYTES: usize = 400;

    /// For a recording: events are all there, so waiting costs nothing but memory.
    pub fn replay(slower_than: Nanos) -> Self {
        Self {
            slower_than,
            disorder: Nanos::from_millis(1_000),
            lateness: Nanos::from_millis(10_000),
            retention: Nanos::from_millis(60_000),
            max_events: 1_000_000,
            file_ops_observed: true,
            only_request: None,
            apis: JUDGED.map(api_key::name).to_vec(),
            stages_of: Vec::new(),
        }
    }

    /// The same, where the JVM reports its locks and pauses too, which is later.
    #[must_use]
    pub fn with_jvm(self) -> Self {
        Self { lateness: self.lateness + JVM_LATENESS, ..self }
    }

    /// The same of events that come out of order by that much.
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
