// Kafka's own Java client in the end-to-end test: every codec, every acks, many partitions in one request, a
// request of several MiB, idempotent and transactional producers, a rejected record, a group that reads and
// commits. Also creates the topics of all clients. Checks nothing: the expected result is the broker's request log.
//
// java -cp JARS Clients.java setup BOOTSTRAP | mix BOOTSTRAP NAME | trickle BOOTSTRAP SECONDS

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Clients {
    static final String MIX = "mix";
    static final int MIX_PARTITIONS = 4;
    /** A name that ends like a partition directory. */
    static final String WIDE = "wide.topic_with-dash-3";
    static final int WIDE_PARTITIONS = 12;
    /** The broker rewrites its batches: message.timestamp.type=LogAppendTime. */
    static final String STAMPED = "stamped";
    /** Rejects batches over 2000 bytes. */
    static final String TIGHT = "tight";
    /** Written in old formats, and read by consumers that know only those. */
    static final String OLD = "old";
    static final int OLD_PARTITIONS = 4;
    /** The consumer groups of the clients. */
    static final String[] GROUPS = {"java-group", "librdkafka-group", "librdkafka-old-group", "kafka-python-group",
            "aiokafka-group", "kafkajs-group", "franz-go-group", "sarama-group", "segmentio-group", "newest-java-group",
            "newest-franz-go-group", "newest-sarama-group", "newest-segmentio-group"};
    static final int[] SIZES = {1, 10, 100, 1_000, 10_000};

    /** The prefix of client ids and message ids. */
    static String name = "java";
    static final Random RANDOM = new Random(20);
    static int messages;

    public static void main(String[] args) throws Exception {
        switch (args[0]) {
            case "setup" -> setup(args[1]);
            case "mix" -> {
                name = args[2];
                mix(args[1]);
            }
            case "trickle" -> trickle(args[1], Integer.parseInt(args[2]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    static void setup(String bootstrap) throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(
                    new NewTopic(MIX, MIX_PARTITIONS, (short) 1),
                    new NewTopic(WIDE, WIDE_PARTITIONS, (short) 1),
                    new NewTopic(OLD, OLD_PARTITIONS, (short) 1),
                    new NewTopic(STAMPED, 1, (short) 1)
                            .configs(Map.of("message.timestamp.type", "LogAppendTime")),
                    new NewTopic(TIGHT, 1, (short) 1).configs(Map.of("max.message.bytes", "2000"))))
                    .all().get();
            admin.describeCluster().nodes().get();
            // Retried until every partition has its log: before that, the broker answers a produce request with acks=0
            // only by closing its connection.
            var topics = admin.describeTopics(List.of(MIX, WIDE, OLD, STAMPED, TIGHT)).allTopicNames().get();
            Map<TopicPartition, OffsetSpec> partitions = new HashMap<>();
            topics.forEach((topic, description) -> description.partitions().forEach(
                    partition -> partitions.put(new TopicPartition(topic, partition.partition()), OffsetSpec.latest())));
            admin.listOffsets(partitions).all().get();
            // This waits for the coordinator of each group to load, which not every client does.
            for (String group : GROUPS) {
                admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
            }
        }
    }

    static void mix(String bootstrap) throws Exception {
        for (String codec : new String[] {"none", "gzip", "snappy", "lz4", "zstd"}) {
            for (String acks : new String[] {"0", "1", "all"}) {
                boolean idempotent = acks.equals("all");
                try (var producer = producer(bootstrap, name + "-" + codec + "-" + acks, Map.of(
                        "compression.type", codec, "acks", acks, "linger.ms", "3",
                        "enable.idempotence", Boolean.toString(idempotent)))) {
                    rounds(producer, 12);
                }
            }
        }
        oneAtATime(bootstrap);
        big(bootstrap);
        transactions(bootstrap);
        rewrittenAndRefused(bootstrap);
        consume(bootstrap);
    }

    /** Rounds of one record per partition of two topics: sixteen batches in one or two requests. */
    static void rounds(KafkaProducer<byte[], byte[]> producer, int rounds) {
        for (int round = 0; round < rounds; round++) {
            for (int partition = 0; partition < MIX_PARTITIONS; partition++) {
                send(producer, MIX, partition, SIZES[round % SIZES.length]);
            }
            for (int partition = 0; partition < WIDE_PARTITIONS; partition++) {
                send(producer, WIDE, partition, SIZES[(round + partition) % SIZES.length]);
            }
            if (round % 3 == 2) {
                producer.flush();
            }
        }
        producer.flush();
    }

    /** No lingering, small batches: many small requests, five in flight. */
    static void oneAtATime(String bootstrap) {
        try (var producer = producer(bootstrap, name + " \"quoted\" \\ one at a time", Map.of(
                "linger.ms", "0", "batch.size", "0", "acks", "1", "enable.idempotence", "false",
                "max.in.flight.requests.per.connection", "5"))) {
            for (int i = 0; i < 200; i++) {
                send(producer, MIX, i % MIX_PARTITIONS, SIZES[i % 4]);
            }
        }
    }

    /** Records of 200 KiB, a batch of nearly 1 MB for each of twelve partitions in one request. */
    static void big(String bootstrap) {
        for (String acks : new String[] {"0", "all"}) {
            try (var producer = producer(bootstrap, name + "-big-" + acks, Map.of(
                    "acks", acks, "enable.idempotence", "false", "linger.ms", "500", "batch.size", "900000",
                    "max.request.size", "30000000", "buffer.memory", "67108864"))) {
                for (int i = 0; i < 4; i++) {
                    for (int partition = 0; partition < WIDE_PARTITIONS; partition++) {
                        send(producer, WIDE, partition, 200 * 1024);
                    }
                }
            }
        }
    }

    static void transactions(String bootstrap) {
        try (var producer = producer(bootstrap, name + "-transactional", Map.of(
                "transactional.id", name + "-transaction", "compression.type", "lz4", "linger.ms", "3"))) {
            producer.initTransactions();
            for (int i = 0; i < 6; i++) {
                producer.beginTransaction();
                rounds(producer, 2);
                if (i % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    static void rewrittenAndRefused(String bootstrap) throws Exception {
        try (var producer = producer(bootstrap, name + "-rewritten", Map.of("acks", "1", "enable.idempotence", "false"))) {
            producer.send(record(STAMPED, 0, 100)).get();
            try {
                producer.send(record(TIGHT, 0, 5_000)).get();
                throw new IllegalStateException("a record of 5000 bytes was taken");
            } catch (ExecutionException refused) {
                System.out.println("refused as it should be: " + refused.getCause());
            }
        }
    }

    static void consume(String bootstrap) {
        Map<String, Object> config = new HashMap<>(Map.of("bootstrap.servers", bootstrap,
                "group.id", name + "-group", "client.id", name + "-consumer", "auto.offset.reset", "earliest",
                "isolation.level", "read_committed", "enable.auto.commit", "false",
                "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class));
        try (var consumer = new KafkaConsumer<byte[], byte[]>(config)) {
            consumer.subscribe(List.of(MIX, STAMPED));
            int read = 0;
            for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(8); read < 600 && System.nanoTime() < end;) {
                read += consumer.poll(Duration.ofMillis(200)).count();
            }
            consumer.commitSync();
            System.out.println("{\"client\":\"" + name + "\",\"sent\":" + messages + ",\"read\":" + read + "}");
        }
    }

    /** A light, even load, for the test that kills the recorder. */
    static void trickle(String bootstrap, int seconds) throws Exception {
        try (var producer = producer(bootstrap, name + "-trickle", Map.of("acks", "1", "linger.ms", "0",
                "enable.idempotence", "false"))) {
            for (long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds); System.nanoTime() < end;) {
                send(producer, MIX, messages % MIX_PARTITIONS, 300);
                Thread.sleep(5);
            }
        }
    }

    static void send(KafkaProducer<byte[], byte[]> producer, String topic, int partition, int bytes) {
        producer.send(record(topic, partition, bytes));
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, int bytes) {
        byte[] value = new byte[bytes];
        // Half of it is random: one half compresses well, the other does not.
        byte[] noise = new byte[(bytes + 1) / 2];
        RANDOM.nextBytes(noise);
        System.arraycopy(noise, 0, value, 0, noise.length);
        byte[] key = messages % 3 == 0 ? null : ("key-" + messages % 7).getBytes(StandardCharsets.UTF_8);
        var record = new ProducerRecord<>(topic, partition, key, value);
        record.headers().add("mid", (name + "-" + messages).getBytes(StandardCharsets.UTF_8));
        messages++;
        return record;
    }

    static KafkaProducer<byte[], byte[]> producer(String bootstrap, String clientId, Map<String, String> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", bootstrap);
        config.put("client.id", clientId);
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        return new KafkaProducer<>(config);
    }

    private Clients() {
    }
}
