//! Messages as brokers write them: from Kafka's sources of the version named at each, and from lines that operators
//! have published.

#![allow(clippy::enum_glob_use, reason = "a table of them")]

use model::LogKind::{self, *};

/// A message and its expected entry.
pub(super) struct Line {
    pub(super) text: &'static str,
    pub(super) kind: LogKind,
    pub(super) partition: Option<&'static str>,
    pub(super) ms: Option<i64>,
    pub(super) count: Option<u64>,
    pub(super) offset: Option<i64>,
    pub(super) bytes: Option<(u64, u64)>,
}

const fn line(text: &'static str, kind: LogKind) -> Line {
    Line { text, kind, partition: None, ms: None, count: None, offset: None, bytes: None }
}

impl Line {
    const fn of(self, partition: &'static str) -> Self {
        Self { partition: Some(partition), ..self }
    }

    const fn ms(self, ms: i64) -> Self {
        Self { ms: Some(ms), ..self }
    }

    const fn count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }

    const fn at(self, offset: i64) -> Self {
        Self { offset: Some(offset), ..self }
    }

    const fn bytes(self, before: u64, after: u64) -> Self {
        Self { bytes: Some((before, after)), ..self }
    }
}

pub(super) const LINES: &[Line] = &[
    // core/src/main/scala/kafka/log/Log.scala, 2.0.0 to 2.8.2.
    line("[Log partition=topic.name-24, dir=/var/lib/kafka] Rolled new log segment at offset 3053780 in 12 ms.", SegmentRoll)
        .of("topic.name-24")
        .ms(12)
        .at(3_053_780),
    // log/LocalLog.scala 3.0 to 3.9, LocalLog.java 4.0.
    line("[LocalLog partition=__consumer_offsets-3, dir=/bitnami/kafka/data] Rolled new log segment at offset 0 in 0 ms.", SegmentRoll)
        .of("__consumer_offsets-3")
        .ms(0)
        .at(0),
    // Confluent's.
    line("[MergedLog partition=a-b-1, dir=/d] Rolled new log segment at offset 7 in 1204 ms.", SegmentRoll)
        .of("a-b-1")
        .ms(1_204)
        .at(7),
    // log/ProducerStateManager.scala 2.0.0.
    line("[ProducerStateManager partition=t-0] Writing producer snapshot at offset 5", ProducerSnapshot).of("t-0").at(5),
    // log/ProducerStateManager.scala 3.3.2, storage's ProducerStateManager.java 3.5 on.
    line("[ProducerStateManager partition=topic.name-24] Wrote producer snapshot at offset 3053780 with 9 producer ids in 2 ms.", ProducerSnapshot)
        .of("topic.name-24")
        .ms(2)
        .count(9)
        .at(3_053_780),
    // Confluent's tiered storage, as published.
    line("1292021 segments removed by cleanup from tier partition state file for topicIdPartition 7XWCdjQqTIyy9OgycPxg2A:retriever-mutation-0, state file size changed from 147891612 to 601218", TierCleanup)
        .of("retriever-mutation-0")
        .count(1_292_021)
        .bytes(147_891_612, 601_218),
    line("tier partition state file format migration complete for topicIdPartition flE-6I70RCyT2gK2Qc3YBw:retriever-mutation-10, state file size changed from 508509470 to 591531390", TierMigration)
        .of("retriever-mutation-10")
        .bytes(508_509_470, 591_531_390),
    // cluster/Partition.scala 2.0.0.
    line("[Partition t-0 broker=1] Shrinking ISR from 1,2,3 to 1", IsrShrink).of("t-0").count(2),
    line("[Partition t-0 broker=1] Expanding ISR from 1 to 1,2", IsrExpand).of("t-0").count(1),
    // 2.8.2 on.
    line("[Partition t-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 5, endOffset: 7). Out of sync replicas: (brokerId: 2, endOffset: 5).", IsrShrink)
        .of("t-0")
        .count(1),
    // 3.9.
    line("[Partition t-0 broker=1] Shrinking ISR from 1,2 to 1. Leader: (highWatermark: 5, endOffset: 7). Out of sync replicas: (brokerId: 2, endOffset: 5, lastCaughtUpTimeMs: 1716131087458).", IsrShrink)
        .of("t-0")
        .count(1),
    // 2.8.2; 3.3.2; 3.9.
    line("[Partition t-0 broker=1] ISR updated to 1,2 and version updated to [7]", IsrChange).of("t-0"),
    line("[Partition t-0 broker=1] ISR updated to 1,2 and version updated to 7", IsrChange).of("t-0"),
    line("[Partition t-0 broker=1] ISR updated to 1 (under-min-isr) and version updated to 8", IsrChange).of("t-0"),
    // log/Log.scala 1.0.
    line("Completed load of log __consumer_offsets-48 with 1 log segments, log start offset 0 and log end offset 0 in 6 ms", LogLoad)
        .of("__consumer_offsets-48")
        .ms(6)
        .count(1),
    // log/Log.scala 2.0.0 to 2.4.1.
    line("[Log partition=t-0, dir=/d] Completed load of log with 3 segments, log start offset 0 and log end offset 5 in 12 ms", LogLoad)
        .of("t-0")
        .ms(12)
        .count(3),
    // log/LogManager.scala 2.8.2, 3.0.2.
    line("Completed load of Log(dir=/d/t-0, topic=t, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=0) with 1 segments in 13ms (1/50 loaded in /d)", LogLoad)
        .of("t-0")
        .ms(13)
        .count(1),
    // log/LogManager.scala 3.9.
    line("Completed load of Log(dir=/d/t-0, topicId=AAAAAAAAAAAAAAAAAAAAAA, topic=t, partition=0, highWatermark=0, lastStableOffset=0, logStartOffset=0, logEndOffset=0) with 14 segments, local-log-start-offset 0 and log-end-offset 5 in 13ms (1/50 completed in /d)", LogLoad)
        .of("t-0")
        .ms(13)
        .count(14),
    // log/LogManager.scala 2.0.0; 2.8.2; 3.6.2.
    line("Logs loading complete in 123 ms.", LogsLoad).ms(123),
    line("Loaded 50 logs in 1234ms.", LogsLoad).ms(1_234).count(50),
    line("Loaded 50 logs in 1234ms (unclean log dirs = ArrayBuffer(/d))", LogsLoad).ms(1_234).count(50),
    // log/Log.scala 2.0.0; log/LogLoader.scala 3.6.2.
    line("[Log partition=t-0, dir=/d] Recovering unflushed segment 5", SegmentRecovery).of("t-0").at(5),
    line("[LogLoader partition=t-0, dir=/d] Recovering unflushed segment 5. 1/2 recovered for t-0.", SegmentRecovery).of("t-0").at(5),
    // log/LogManager.scala 2.8.2; 3.9.
    line("Attempting recovery for all logs in /d since no clean shutdown file was found", Recovery),
    line("Recovering 50 logs from /d since no clean shutdown file was found", Recovery),
    // log/UnifiedLog.scala 3.3.2, UnifiedLog.java 4.0.
    line("[UnifiedLog partition=t-0, dir=/d] Producer state recovery took 1ms for snapshot load and 2ms for segment recovery from offset 5", ProducerState)
        .of("t-0")
        .ms(3)
        .at(5),
    // coordinator/group/GroupMetadataManager.scala 2.0.0; 2.8.2; coordinator/transaction/TransactionStateManager.scala 3.3.2.
    line("[GroupMetadataManager brokerId=1] Finished loading offsets and group metadata from __consumer_offsets-3 in 12 milliseconds.", CoordinatorLoad)
        .of("__consumer_offsets-3")
        .ms(12),
    line("[GroupMetadataManager brokerId=1] Finished loading offsets and group metadata from __consumer_offsets-3 in 12 milliseconds for epoch 4, of which 11 milliseconds was spent in the scheduler.", CoordinatorLoad)
        .of("__consumer_offsets-3")
        .ms(12),
    line("[Transaction State Manager 1]: Finished loading 5 transaction metadata from __transaction_state-7 in 40 milliseconds, of which 1 milliseconds was spent in the scheduler.", CoordinatorLoad)
        .of("__transaction_state-7")
        .ms(40),
    // coordinator-common's CoordinatorRuntime.java 3.9.
    line("[GroupCoordinator id=1] Finished loading of metadata from __consumer_offsets-3 with epoch 4 in 12ms where 1ms was spent in the scheduler. Loaded 9 records which total to 900 bytes.", CoordinatorLoad)
        .of("__consumer_offsets-3")
        .ms(12),
    // cluster/Partition.scala 2.0.0; 2.4.1; 2.8.2; 3.9.
    line("[Partition t-0 broker=1] t-0 starts at Leader Epoch 3 from offset 5. Previous Leader Epoch was: 2", LeaderElection).of("t-0"),
    line("[Partition t-0 broker=1] t-0 starts at leader epoch 3 from offset 5 with high watermark 5. Previous leader epoch was 2.", LeaderElection).of("t-0"),
    line("[Broker id=1] Leader t-0 starts at leader epoch 3 from offset 5 with high watermark 5 ISR [1] addingReplicas [] removingReplicas []. Previous leader epoch was 2.", LeaderElection)
        .of("t-0"),
    line("[Broker id=1] Leader t-0 with topic id Some(AAAAAAAAAAAAAAAAAAAAAA) starts at leader epoch 3 from offset 5 with partition epoch 4, high watermark 5, ISR [1], adding replicas [] and removing replicas [] (under-min-isr). Previous leader Some(2) and previous leader epoch was 2.", LeaderElection)
        .of("t-0"),
    line("[Broker id=1] Follower t-0 starts at leader epoch 3 from offset 5 with partition epoch 4 and high watermark 5. Current leader is 2. Previous leader Some(1) and previous leader epoch was 2.", LeaderElection)
        .of("t-0"),
    // controller/KafkaController.scala 2.8.2.
    line("[Controller id=1] Partition t-0 completed preferred replica leader election. New leader is 2", LeaderElection).of("t-0"),
    // server/ReplicaManager.scala 3.6.2.
    line("[Broker id=1] Finished LeaderAndIsr request in 12ms correlationId 3 from controller 1 for 50 partitions", LeaderAndIsr)
        .ms(12)
        .count(50),
    // raft's QuorumState.java 3.9.
    line("[RaftManager id=1] Completed transition to Leader(localReplicaKey=ReplicaKey(id=1, directoryId=AAAAAAAAAAAAAAAAAAAAAA), epoch=3, epochStartOffset=5, highWatermark=Optional.empty, voterStates={}) from CandidateState(localId=1, epoch=3)", Quorum),
    // server/KafkaServer.scala 2.0.0; 3.3.2; server/BrokerLifecycleManager.scala 3.3.2.
    line("[KafkaServer id=1] Starting controlled shutdown", ControlledShutdown),
    line("[KafkaServer id=1] Controlled shutdown succeeded", ControlledShutdown),
    line("[KafkaServer id=1] Controlled shutdown request returned successfully after 340ms", ControlledShutdown).ms(340),
    line("[KafkaServer id=1] Controlled shutdown request returned after 341ms with 7 partitions remaining to move", ControlledShutdown).ms(341),
    line("[BrokerLifecycleManager id=1] Beginning controlled shutdown.", ControlledShutdown),
    line("[BrokerServer id=1] Timed out waiting for the controller to approve controlled shutdown", ControlledShutdown),
    // server/KafkaServer.scala, server/BrokerServer.scala, all versions.
    line("[KafkaServer id=1] shutting down", Shutdown),
    line("[BrokerServer id=1] shut down completed", Shutdown),
    // server/BrokerLifecycleManager.scala 3.9.
    line("[BrokerLifecycleManager id=1] Unable to send a heartbeat because the RPC got timed out before it could be sent.", Heartbeat),
    // clients' NetworkClient.java 3.9.
    line("[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] Cancelled in-flight FETCH request with correlation id 3 due to node 2 being disconnected (elapsed time since creation: 30006ms, elapsed time since send: 30006ms, throttle time: 0ms, request timeout: 30000ms)", RequestTimeout)
        .ms(30_006),
    // metadata's EventPerformanceMonitor.java 4.0.
    line("[EventPerformanceMonitor id=1] Exceptionally slow controller event writeNoOpRecord took 12309 ms.", SlowOperation).ms(12_309),
    // ZooKeeper's FileTxnLog.java.
    line("fsync-ing the write ahead log in SyncThread:0 took 1456ms which will adversely effect operation latency.File size is 67108880 bytes. See the ZooKeeper troubleshooting guide", Fsync)
        .ms(1_456),
];
