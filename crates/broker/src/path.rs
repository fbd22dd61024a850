//! Classifies the broker's files by path alone. Does not open them.
//!
//! Names after Kafka's `LogFileUtils`, `UnifiedLog` (directories), `CheckpointFile` users, `Snapshots` (KRaft) and, for
//! `tierstate`, Confluent's tiered storage.

use model::{FileKind, TopicPartition};

/// Returns a file's kind, and its partition if it is in a partition's directory.
/// Only the last two components of the path matter.
pub fn classify(file: &str) -> (FileKind, Option<TopicPartition>) {
    let (directories, name) = file.rsplit_once('/').unwrap_or(("", file));
    let directory = directories.rsplit_once('/').map_or(directories, |(_, last)| last);
    (kind(name), partition_of(directory))
}

/// The partition of a directory in a log dir: `topic-0`, or with a suffix while it is being moved or deleted,
/// `topic-0.0123456789abcdef0123456789abcdef-delete`.
pub fn partition_of(directory: &str) -> Option<TopicPartition> {
    let name = ["-delete", "-future", "-stray"]
        .iter()
        .find_map(|suffix| directory.strip_suffix(suffix))
        .and_then(|name| name.rsplit_once('.'))
        .map_or(directory, |(name, _unique)| name);
    partition(name)
}

/// `topic-0`.
pub(crate) fn partition(name: &str) -> Option<TopicPartition> {
    let (topic, partition) = name.rsplit_once('-')?;
    let is_number = !partition.is_empty() && partition.bytes().all(|digit| digit.is_ascii_digit());
    let partition = partition.parse().ok().filter(|_| is_number)?;
    is_topic(topic).then(|| TopicPartition { topic: topic.into(), partition })
}

/// Whether Kafka accepts this as a topic name (`Topic.validate`).
fn is_topic(name: &str) -> bool {
    let valid = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name.bytes().all(valid) && name != "." && name != ".."
}

fn kind(name: &str) -> FileKind {
    // A file that is being created, replaced or deleted keeps its kind.
    let mut name = name;
    while let Some(shorter) =
        [".deleted", ".cleaned", ".swap", ".tmp", ".part"].iter().find_map(|suffix| name.strip_suffix(suffix))
    {
        name = shorter;
    }
    match name {
        "partition.metadata"
        | "meta.properties"
        | "quorum-state"
        | "leader-epoch-checkpoint"
        | ".kafka_cleanshutdown" => FileKind::Metadata,
        "bootstrap.checkpoint" => FileKind::Snapshot,
        _ if name.ends_with("-checkpoint") => FileKind::Checkpoint,
        _ => name.split_once('.').map_or(FileKind::Other, |(stem, extension)| by_extension(stem, extension)),
    }
}

/// Segment files are named by offset; `server.log` is not one of them.
fn by_extension(stem: &str, extension: &str) -> FileKind {
    let is_offset = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let is_snapshot_id =
        |text: &str| text.split_once('-').is_some_and(|(end, epoch)| is_offset(end) && is_offset(epoch));
    match extension {
        "log" if is_offset(stem) => FileKind::Log,
        "index" if is_offset(stem) => FileKind::Index,
        "timeindex" if is_offset(stem) => FileKind::TimeIndex,
        "txnindex" if is_offset(stem) => FileKind::TxnIndex,
        "snapshot" if is_offset(stem) => FileKind::Snapshot,
        "checkpoint" if is_snapshot_id(stem) => FileKind::Snapshot,
        _ if is_offset(stem) && extension.split('.').next() == Some("tierstate") => FileKind::TierState,
        _ => FileKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::{classify, partition_of};
    use model::FileKind::{self, *};

    #[test]
    fn file_kind_follows_from_the_name() {
        let expected: &[(&str, FileKind)] = &[
            ("00000000002938697123.log", Log),
            ("00000000000000000000.log.deleted", Log),
            ("00000000000000000000.log.cleaned", Log),
            ("00000000000000000000.index", Index),
            ("00000000000000000000.timeindex.swap", TimeIndex),
            ("00000000000000000000.txnindex", TxnIndex),
            ("00000000000000000123.snapshot", Snapshot),
            ("00000000000000000123-0000000001.checkpoint", Snapshot),
            ("00000000000000000123-0000000001.checkpoint.part", Snapshot),
            ("bootstrap.checkpoint", Snapshot),
            ("recovery-point-offset-checkpoint", Checkpoint),
            ("replication-offset-checkpoint.tmp", Checkpoint),
            ("log-start-offset-checkpoint", Checkpoint),
            ("cleaner-offset-checkpoint", Checkpoint),
            ("leader-epoch-checkpoint", Metadata),
            ("partition.metadata", Metadata),
            ("meta.properties", Metadata),
            ("quorum-state", Metadata),
            ("00000000000000000000.tierstate", TierState),
            ("00000000000000000000.tierstate.mutable", TierState),
            ("server.log", Other),
            ("kafkaServer-gc.log", Other),
            ("app.tierstate", Other),
            (".lock", Other),
            ("", Other),
            (".log", Other),
        ];
        for (name, kind) in expected {
            assert_eq!(classify(name), (*kind, None), "{name}");
            assert_eq!(classify(&format!("/data/topicA-3/{name}")).0, *kind, "{name}");
        }
    }

    #[test]
    fn partition_follows_from_the_directory_name() {
        for (directory, expected) in [
            ("topicA-0", "topicA-0"),
            ("/var/lib/kafka/data/retriever-mutation-53", "retriever-mutation-53"),
            ("topic-with-dash-12", "topic-with-dash-12"),
            ("__consumer_offsets-3", "__consumer_offsets-3"),
            ("__cluster_metadata-0", "__cluster_metadata-0"),
            ("a.b-1.0123456789abcdef0123456789abcdef-delete", "a.b-1"),
            ("a-b-7.0123456789abcdef0123456789abcdef-future", "a-b-7"),
            ("a-0.0123456789abcdef0123456789abcdef-stray", "a-0"),
            ("x-delete-3", "x-delete-3"),
        ] {
            let (kind, partition) = classify(&format!("{directory}/00000000000000000000.log"));
            assert_eq!(kind, Log);
            assert_eq!(partition.unwrap().to_string(), expected);
        }
    }

    #[test]
    fn other_directories_are_not_partitions() {
        for directory in [
            "",
            "logs",
            "topicA-",
            "-3",
            "topicA-+3",
            "topicA-x",
            "topicA-99999999999",
            "a b-1",
            "..-0",
            "x-delete",
        ] {
            assert_eq!(partition_of(directory), None, "{directory:?}");
        }
    }
}
