//! Keys of `settings` in a manifest.
//! The recorder writes them in addition to the manifest's own fields. For keys of host facts, see
//! [`super::host_facts`].

macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $NAME:ident = $key:literal;)+) => {
        $($(#[doc = $doc])+ pub const $NAME: &str = $key;)+

        /// Every key, with its meaning.
        pub const KEYS: &[(&str, &str)] = &[$(($key, concat!($($doc),+))),+];
    };
}

keys! {
    /// `record --max-memory`, bytes.
    MAX_MEMORY = "max_memory_bytes";
    /// `record --max-disk`, bytes.
    MAX_DISK = "max_disk_bytes";
    /// The network interface on which packets were captured.
    INTERFACE = "interface";
    /// The recorder's PID namespace, as named by `/proc/self/ns/pid`: all process and thread ids are in it.
    PID_NAMESPACE = "pid_namespace";
    /// `record --slower-than`, nanoseconds.
    SLOWER_THAN = "slower_than_ns";
    /// Kernel events were only recorded around requests and file operations that took at least this long, nanoseconds.
    /// Without it, all events were recorded.
    PARTIAL = "fine_events_around_slower_than_ns";
    /// Number of events that were left out because nothing slow was near them.
    LEFT_OUT = "fine_events_left_out";
    /// The record header that was recorded as the message id.
    MESSAGE_ID = "message_id";
    /// Why the broker's settings in force are not known.
    SETTINGS_UNKNOWN = "settings_in_force_unknown";
    /// Why the recording ended by itself.
    ENDED_BECAUSE = "ended_because";
}
