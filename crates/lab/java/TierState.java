import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.slf4j.LoggerFactory;

/**
 * An agent that makes a broker treat the state of tiered storage as in the case of mysterious disk reads: it keeps a
 * file for each partition, full of entries for segments long deleted, looks up entries for appended bytes, and cleans
 * up on request. Apache's broker has no such state. The broker's own process works on the files and reports it in its
 * own log, in the words that operators have published.
 *
 * <p>A file is a header and an entry for each segment, as large as the published sizes imply: 5,188,870 entries are
 * 508,509,470 bytes before the migration and 591,531,390 after it, and 1,292,021 of them are 147,290,394 bytes that a
 * cleanup removes.
 */
public final class TierState {
    private static final String NAME = "00000000000000000000.tierstate.mutable";
    private static final String SEGMENT = "00000000000000000000.log";
    private static final String LOGGER = "kafka.tier.state.FileTierPartitionState";
    private static final int HEADER_BYTES = 210;
    private static final int OLD_ENTRY_BYTES = 98;
    private static final int ENTRY_BYTES = 114;
    private static final byte LIVE = 1;
    private static final byte DELETED = 2;
    /** One in this many segments is not deleted yet: the cleanups of the case left between 0.4 and 0.7 % of a file. */
    private static final int LIVE_ONE_IN = 200;
    private static final int BUFFER_BYTES = 1 << 20;
    private static final int READ_BYTES = 4096;
    private static final int TICK_MS = 20;

    private TierState() {}

    /** Starts before the broker does. */
    public static void premain(String unused) {
        Thread thread = new Thread(TierState::run, "tier-state");
        thread.setDaemon(true);
        thread.start();
    }

    private static String setting(String name) {
        return System.getProperty("lab.tier." + name);
    }

    private static void run() {
        Path orders = Path.of(setting("orders"));
        try {
            List<Partition> partitions = partitions();
            for (Partition partition : partitions) {
                partition.archive();
            }
            for (Partition partition : partitions) {
                partition.migrate();
            }
            Files.createFile(orders.resolve("ready"));
            serve(orders, partitions);
        } catch (IOException | RuntimeException failure) {
            reportFailure(orders, failure);
        } catch (InterruptedException ended) {
            Thread.currentThread().interrupt();
        }
    }

    private static void reportFailure(Path orders, Exception failure) {
        try {
            Files.writeString(orders.resolve("failed"), failure.toString());
        } catch (IOException unreported) {
            throw new UncheckedIOException(unreported);
        }
    }

    /** The topic's partitions, once the broker has created all of them. */
    private static List<Partition> partitions() throws IOException, InterruptedException {
        Path logDir = Path.of(setting("log.dir"));
        int count = Integer.parseInt(setting("partitions"));
        long largestBytes = Long.parseLong(setting("largest.bytes"));
        List<Partition> partitions = new ArrayList<>();
        for (int number = 0; number < count; number++) {
            Path directory = logDir.resolve(setting("topic") + "-" + number);
            while (!Files.exists(directory.resolve("partition.metadata"))) {
                Thread.sleep(TICK_MS);
            }
            // The last is the largest.
            long entries = largestBytes / ENTRY_BYTES * (number + 1) / count;
            partitions.add(new Partition(directory, entries, number));
        }
        return partitions;
    }

    private static void serve(Path orders, List<Partition> partitions) throws IOException, InterruptedException {
        Path clean = orders.resolve("clean");
        boolean cleaned = false;
        while (true) {
            if (!cleaned && Files.exists(clean)) {
                for (Partition partition : partitions) {
                    partition.clean();
                }
                Files.createFile(orders.resolve("cleaned"));
                cleaned = true;
            }
            for (Partition partition : partitions) {
                partition.lookUp();
            }
            Thread.sleep(TICK_MS);
        }
    }

    private interface Content {
        void writeTo(OutputStream out) throws IOException;
    }

    private static final class Partition {
        private final Path directory;
        private final Path file;
        private final String topicIdPartition;
        private final long entries;
        private final Random random;
        private final ByteBuffer buffer = ByteBuffer.allocateDirect(READ_BYTES);
        private final int lookUpsPerKib = Integer.parseInt(setting("lookups.per.kib"));
        private FileChannel channel;
        private long seenBytes;

        Partition(Path directory, long entries, int number) throws IOException {
            this.directory = directory;
            this.file = directory.resolve(NAME);
            this.topicIdPartition = topicId(directory) + ":" + directory.getFileName();
            this.entries = entries;
            this.random = new Random(number);
        }

        private static String topicId(Path directory) throws IOException {
            for (String line : Files.readAllLines(directory.resolve("partition.metadata"))) {
                if (line.startsWith("topic_id:")) {
                    return line.substring("topic_id:".length()).trim();
                }
            }
            throw new IOException(directory + ": no topic id in partition.metadata");
        }

        /** Writes the file as years of archiving would leave it. */
        void archive() throws IOException {
            replace(out -> {
                out.write(new byte[HEADER_BYTES]);
                ByteBuffer entry = ByteBuffer.allocate(OLD_ENTRY_BYTES);
                for (long segment = 0; segment < entries; segment++) {
                    entry.put(0, segment % LIVE_ONE_IN == 0 ? LIVE : DELETED).putLong(1, segment).putLong(9, random.nextLong());
                    out.write(entry.array());
                }
            });
        }

        /** Rewrites the entries in the larger format. */
        void migrate() throws IOException {
            long before = Files.size(file);
            replace(out -> copy(out, OLD_ENTRY_BYTES, true));
            LoggerFactory.getLogger(LOGGER).info(
                "tier partition state file format migration complete for topicIdPartition {}, state file size changed from {} to {}",
                topicIdPartition, before, Files.size(file));
        }

        /** Removes the entries of deleted segments. */
        void clean() throws IOException {
            long before = Files.size(file);
            long[] removed = new long[1];
            replace(out -> removed[0] = copy(out, ENTRY_BYTES, false));
            LoggerFactory.getLogger(LOGGER).info(
                "{} segments removed by cleanup from tier partition state file for topicIdPartition {}, state file size changed from {} to {}",
                removed[0], topicIdPartition, before, Files.size(file));
        }

        /** Copies all of the file's entries or the live ones; returns how many were left out. */
        private long copy(OutputStream out, int entryBytes, boolean all) throws IOException {
            long left = (Files.size(file) - HEADER_BYTES) / entryBytes;
            long removed = 0;
            try (DataInputStream in = new DataInputStream(new BufferedInputStream(Files.newInputStream(file), BUFFER_BYTES))) {
                byte[] header = new byte[HEADER_BYTES];
                in.readFully(header);
                out.write(header);
                byte[] entry = new byte[ENTRY_BYTES];
                for (; left > 0; left--) {
                    in.readFully(entry, 0, entryBytes);
                    if (all || entry[0] == LIVE) {
                        out.write(entry);
                    } else {
                        removed++;
                    }
                }
            }
            return removed;
        }

        /** Replaces the file atomically with a complete, synced one. */
        private void replace(Content content) throws IOException {
            Path another = directory.resolve(NAME + ".new");
            try (FileOutputStream written = new FileOutputStream(another.toFile())) {
                OutputStream out = new BufferedOutputStream(written, BUFFER_BYTES);
                content.writeTo(out);
                out.flush();
                written.getFD().sync();
            }
            if (channel != null) {
                channel.close();
            }
            Files.move(another, file, StandardCopyOption.ATOMIC_MOVE);
            channel = FileChannel.open(file, StandardOpenOption.READ);
        }

        /** Looks up entries for what was appended since, at random places that defeat read-ahead. */
        void lookUp() throws IOException {
            long bytes = Files.size(directory.resolve(SEGMENT));
            long lookUps = (bytes - seenBytes) * lookUpsPerKib / 1024;
            seenBytes = bytes;
            int blocks = (int) Math.max(1, channel.size() / READ_BYTES);
            for (long done = 0; done < lookUps; done++) {
                buffer.clear();
                channel.read(buffer, (long) random.nextInt(blocks) * READ_BYTES);
            }
        }
    }
}
