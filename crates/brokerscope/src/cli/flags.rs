//! What the flags that every command takes mean to one command, where that is not what they mean to others.
//! One that means nothing to it is taken, since scripts pass it, but not listed.

use clap::Arg;

/// For input that was captured elsewhere or before.
pub(super) fn read_later(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "pid" => {
            flag.help("Take topic names from this broker's log dirs; without it, from any that runs here")
        }
        "log_dirs" => flag.help("Take topic names from this log dir (repeatable)"),
        _ => flag,
    }
}

/// For what may be a recording, which holds the message ids it was told to record.
pub(super) fn of_explanation(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "message_id" => flag.help("Record header to show as message id (captures; `record` takes it too)"),
        // By itself nothing here holds the broker up.
        "flight_recorder" => flag.default_value("never").help(
            "Have the broker's JVM record who waits for locks, by Flight Recorder (live): verdicts then come 3 s later",
        ),
        _ => read_later(flag),
    }
}

/// For a page, which has everything in it and is narrowed by who reads it.
pub(super) fn of_page(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "topics" | "apis" => flag.hide(true),
        "ports" => {
            flag.help("The broker's port in a capture (repeatable); without it, whatever speaks Kafka")
        }
        _ => of_explanation(flag),
    }
}

/// For file operations, which have no port and no API.
pub(super) fn of_files(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "ports" | "apis" | "flight_recorder" => flag.hide(true),
        _ => flag,
    }
}

/// For time by stack, which has no rows and no files.
pub(super) fn of_stacks(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "log_dirs" | "format" | "wide" | "no_attach" | "flight_recorder" => flag.hide(true),
        "pid" => flag.help("The process, a broker or any other; without it, the broker that runs here"),
        _ => flag,
    }
}

/// For files added up, which have no single message either.
pub(super) fn of_totals(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "message_id" => flag.hide(true),
        _ => of_files(flag),
    }
}

/// For waits for locks, which are as total, and which the JVM records.
pub(super) fn of_locks(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "flight_recorder" => flag,
        _ => of_totals(flag),
    }
}

/// For kernel functions, which know no topic.
pub(super) fn of_kernel(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "topics" => flag.hide(true),
        _ => of_totals(flag),
    }
}

/// For a screen, which shows everything in its own way.
pub(super) fn of_screen(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "format" | "wide" | "quiet" | "message_id" => flag.hide(true),
        "pid" => flag.help("The broker's process; without it, the broker that runs here (live)"),
        "log_dirs" => flag.help("A log dir of the broker (repeatable); without it, the broker's own (live)"),
        "ports" => flag.help("The broker's port (repeatable); without it, the broker's own"),
        "flight_recorder" => of_explanation(flag),
        _ => flag,
    }
}

/// For the recorder: what to show of it is for later.
pub(super) fn of_recorder(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "topics" | "apis" | "format" | "utc" | "wide" => flag.hide(true),
        "ports" => flag.help("Capture this port (repeatable); without it, the broker's own"),
        "message_id" => flag.help("Record header to record as message id"),
        "quiet" => flag.help("Say nothing but what went wrong"),
        _ => flag,
    }
}

/// For the exporter, which tells of everything, and not to people.
pub(super) fn of_exporter(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "message_id" => flag.hide(true),
        // By itself nothing here holds the broker up.
        "flight_recorder" => flag.default_value("never").help(
            "Have the broker's JVM record who waits for locks, by Flight Recorder (live): causes then come 3 s later",
        ),
        _ => of_recorder(flag),
    }
}

/// For brokers compared, which have no times either.
pub(super) fn of_brokers(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "utc" => flag.hide(true),
        "wide" => flag.help("Show more of the files or partitions that make a difference"),
        _ => flag,
    }
}

/// For logs of a broker, which are of one broker and have no payload.
pub(super) fn of_logs(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "ports" | "message_id" => flag.hide(true),
        "topics" => flag.help(
            "Show only this topic (repeatable); Kafka 4.1's request log has ids instead of names in many requests",
        ),
        "apis" => flag.help("Of Kafka's request log, show only this API, for example produce (repeatable)"),
        _ => flag,
    }
}

/// For an examination, which has no times and is not long.
pub(super) fn of_host(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "utc" | "wide" | "quiet" => flag.hide(true),
        _ => flag,
    }
}

/// For advice, which has no times of day and leaves nothing out.
pub(super) fn of_advice(flag: Arg) -> Arg {
    match flag.get_id().as_str() {
        "utc" | "wide" => flag.hide(true),
        _ => flag,
    }
}
