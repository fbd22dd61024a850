//! Writes logs like those of a busy broker: server.log, in which one line in a hundred reports a duration, and Kafka's
//! request log, in which each line does. Does not measure.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use fastrand::Rng;

/// Lines without a duration, from Kafka's sources like those with one.
const DULL: [&str; 8] = [
    "[UnifiedLog partition=TP, dir=/var/lib/kafka/data] Incremented log start offset to N due to segment deletion (kafka.log.UnifiedLog)",
    "[UnifiedLog partition=TP, dir=/var/lib/kafka/data] Deleting segment LogSegment(baseOffset=N, size=92636371, lastModifiedTime=1739782794987, largestRecordTimestamp=1739782794807) due to log retention time 43200000ms breach based on the largest record timestamp in the segment (kafka.log.UnifiedLog)",
    "[GroupCoordinator 1]: Preparing to rebalance group orders in state PreparingRebalance with old generation N (__consumer_offsets-12) (reason: Adding new member consumer-1 with group instance id None) (kafka.coordinator.group.GroupCoordinator)",
    "[GroupCoordinator 1]: Stabilized group orders generation N (__consumer_offsets-12) with 3 members (kafka.coordinator.group.GroupCoordinator)",
    "[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Partition TP has an older epoch (N) than the current leader. Will await the new LeaderAndIsr state before resuming fetching. (kafka.server.ReplicaFetcherThread)",
    "Deleted log /var/lib/kafka/data/TP/00000000000N.log.deleted. (kafka.log.LogSegment)",
    "[SocketServer listenerType=BROKER, nodeId=1] Failed authentication with /10.0.0.7 (channelId=10.0.0.1:9092-10.0.0.7:60670-N) (SSL handshake failed) (org.apache.kafka.common.network.Selector)",
    "[Transaction Marker Request Completion Handler 1]: Sending rebalance-id's transaction marker from partition TP has failed with NOT_LEADER_OR_FOLLOWER, retrying with current coordinator epoch N (kafka.coordinator.transaction.TransactionMarkerRequestCompletionHandler)",
];
const TELLING: [&str; 5] = [
    "[LocalLog partition=TP, dir=/var/lib/kafka/data] Rolled new log segment at offset N in 12 ms. (kafka.log.LocalLog)",
    "[ProducerStateManager partition=TP] Wrote producer snapshot at offset N with 9 producer ids in 2 ms. (org.apache.kafka.storage.internals.log.ProducerStateManager)",
    "[Partition TP broker=1] ISR updated to 1,2 and version updated to N (kafka.cluster.Partition)",
    "N segments removed by cleanup from tier partition state file for topicIdPartition 7XWCdjQqTIyy9OgycPxg2A:TP, state file size changed from 147891612 to 601218 (kafka.tier.state.FileTierPartitionState)",
    "[Broker id=1] Leader TP with topic id Some(AAAAAAAAAAAAAAAAAAAAAA) starts at leader epoch N from offset N with partition epoch 4, high watermark N (state.change.logger)",
];
/// As many texts as `logs` searches for, with the same starts.
const TEXTS: [&str; 28] = [
    "Completed request:",
    "Rolled new log segment",
    "producer snapshot at offset ",
    "state file size changed from ",
    "Shrinking ISR from ",
    "Expanding ISR from ",
    "ISR updated to ",
    "Completed load of ",
    "logs in ",
    "Logs loading complete in ",
    "Recovering unflushed segment ",
    "clean shutdown file was found",
    "Producer state recovery took ",
    "ontrolled shutdown",
    "shut down completed",
    "] shutting down",
    " starts at leader epoch ",
    " starts at Leader Epoch ",
    "completed preferred replica leader election",
    "Completed transition to ",
    "Finished loading ",
    "Finished LeaderAndIsr request in ",
    "Unable to send a heartbeat because ",
    "Cancelled in-flight ",
    " took ",
    " Pause ",
    "Safepoint \"",
    "application threads were stopped: ",
];

/// Writes a file with these texts, one per line.
pub(super) fn texts(directory: &Path) -> io::Result<PathBuf> {
    let path = directory.join("texts");
    std::fs::write(&path, TEXTS.join("\n"))?;
    Ok(path)
}

/// Writes it; returns the number of bytes and of lines with events.
pub(super) fn server_log(path: &Path, bytes: u64) -> io::Result<(u64, u64)> {
    write(path, bytes, |rng, line| {
        let tells = rng.u64(..100) == 0;
        let messages: &[&str] = if tells { &TELLING } else { &DULL };
        let message = messages.get(rng.u64(..messages.len() as u64) as usize).copied().unwrap_or_default();
        let partition = format!("topic-{}-{}", rng.u64(..50), rng.u64(..20));
        let text = message.replace("TP", &partition).replace('N', &rng.u64(..10_000_000).to_string());
        line.push_str("INFO ");
        line.push_str(&text);
        tells
    })
}

/// Writes it; returns the number of bytes and of requests.
pub(super) fn request_log(path: &Path, bytes: u64) -> io::Result<(u64, u64)> {
    write(path, bytes, |rng, line| {
        let local = rng.u64(..9_000) as f64 / 1_000.0;
        let topic = rng.u64(..50);
        // Writing into a string cannot fail.
        let _ = write!(
            line,
            r#"DEBUG Completed request:{{"isForwarded":false,"requestHeader":{{"requestApiKey":0,"requestApiVersion":12,"correlationId":{},"clientId":"orders-producer-1","requestApiKeyName":"PRODUCE"}},"request":{{"transactionalId":null,"acks":-1,"timeoutMs":30000,"topicData":[{{"name":"topic-{topic}","partitionData":[{{"index":3,"recordsSizeInBytes":16384}},{{"index":7,"recordsSizeInBytes":9210}}]}}]}},"response":{{"responses":[{{"name":"topic-{topic}","partitionResponses":[{{"index":3,"errorCode":0,"baseOffset":88847331,"logAppendTimeMs":-1,"logStartOffset":0,"recordErrors":[],"errorMessage":null}},{{"index":7,"errorCode":0,"baseOffset":7331,"logAppendTimeMs":-1,"logStartOffset":0,"recordErrors":[],"errorMessage":null}}]}}],"throttleTimeMs":0}},"connection":"10.0.0.1:9092-10.0.0.7:60670-0-1","totalTimeMs":{},"requestQueueTimeMs":0.062,"localTimeMs":{local},"remoteTimeMs":1.5,"throttleTimeMs":0,"responseQueueTimeMs":0.031,"sendTimeMs":0.12,"securityProtocol":"PLAINTEXT","principal":"User:ANONYMOUS","listener":"PLAINTEXT","clientInformation":{{"softwareName":"apache-kafka-java","softwareVersion":"3.9.0"}}}} (kafka.request.logger)"#,
            rng.u64(..1 << 30),
            local + 1.713,
        );
        true
    })
}

/// Writes lines from a fixed seed, a millisecond apart. Each is written into `line` after its time.
fn write(
    path: &Path,
    bytes: u64,
    mut message: impl FnMut(&mut Rng, &mut String) -> bool,
) -> io::Result<(u64, u64)> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut rng = Rng::with_seed(4_711);
    let (mut written, mut telling, mut ms) = (0, 0, 0_u64);
    let mut line = String::new();
    while written < bytes {
        line.clear();
        ms += 1;
        let (hour, minute, second) = (ms / 3_600_000 % 24, ms / 60_000 % 60, ms / 1_000 % 60);
        let _ = write!(line, "[2024-05-19 {hour:02}:{minute:02}:{second:02},{:03}] ", ms % 1_000);
        telling += u64::from(message(&mut rng, &mut line));
        line.push('\n');
        out.write_all(line.as_bytes())?;
        written += line.len() as u64;
    }
    out.into_inner()?.sync_all()?;
    Ok((written, telling))
}
