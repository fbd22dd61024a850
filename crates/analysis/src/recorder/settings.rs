//! Keys of `settings` in a manifest: what the recorder notes beside the manifest's own fields. Those of the host are
//! [`super::host_facts`]'s.

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
    /// The process-id namespace of the recorder, as `/proc/self/ns/pid` names it: all process and thread ids are its.
    PID_NAMESPACE = "pid_namespace";
    /// `record --slower-than`, nanoseconds.
    SLOWER_THAN = "slower_than_ns";
    /// Kernel events are only there around requests and file operations that took this long, nanoseconds. Without it,
    /// everything was recorded.
    PARTIAL = "fine_events_around_slower_than_ns";
    /// How many events were left out because nothing slow was near them.
    LEFT_OUT = "fine_events_left_out";
    /// The record header that was kept as message id.
    MESSAGE_ID = "message_id";
    /// Why the broker's settings in force are not known.
    SETTINGS_UNKNOWN = "settings_in_force_unknown";
    /// Why the recording ended by itself.
    ENDED_BECAUSE = "ended_because";
}
