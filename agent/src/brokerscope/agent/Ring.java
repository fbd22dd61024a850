package brokerscope.agent;

import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.MappedByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A ring of records in memory that the recorder reads. Any thread adds to it and none waits: records without room are
 * dropped and counted. The recorder's side and the layout are in {@code capture::plaintext}.
 */
final class Ring {
    /** States of this agent. */
    static final int COPIES = 1;

    static final int REFUSED = 2;
    static final int ENDED = 3;

    /** Orders of the recorder; without one, the agent copies. */
    static final int STOP = 1;

    static final int PAUSE = 2;

    /** Flags of a record: the bytes were written; they begin a frame; it has none, and the next record is at the ring's start. */
    static final int WRITTEN = 1;

    static final int FRAME_START = 2;
    static final int PADDING = 4;

    private static final long MAGIC = 0x6273_636f_7065_0001L;
    private static final int HEADER = 4096;
    private static final int CAPACITY_AT = 8;
    private static final int NONCE_AT = 16;
    private static final int HEAD_AT = 64;
    private static final int TAIL_AT = 128;
    private static final int DROPPED_RECORDS_AT = 192;
    private static final int DROPPED_BYTES_AT = 200;
    private static final int ERRORS_AT = 208;
    private static final int BEAT_AT = 256;
    private static final int ORDER_AT = 264;
    private static final int STATE_AT = 320;
    private static final int TEXT_AT = 328;
    private static final int MAX_TEXT = 256;

    private static final int RECORD_HEADER = 88;
    private static final int MAX_RECORD_BYTES = 32 << 10;
    /** Attempts to read a tail that the recorder is writing. */
    private static final int MAX_LOOKS = 10;

    private static final VarHandle LONG =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
    private static final VarHandle INT =
            MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.nativeOrder());

    private static final AtomicLong NEXT = new AtomicLong(1);

    /** Differs from the number of every other ring. */
    volatile long number = NEXT.getAndIncrement();

    private final ByteBuffer map;
    private final int capacity;
    private final long nonce;

    private Ring(MappedByteBuffer map) throws IOException {
        this.map = map.order(ByteOrder.nativeOrder());
        capacity = map.getInt(CAPACITY_AT);
        nonce = map.getLong(NONCE_AT);
        if (map.getLong(0) != MAGIC || capacity <= 0 || map.capacity() - HEADER != capacity) {
            throw new IOException("not a ring");
        }
    }

    static Ring open(Path file) throws IOException {
        try (FileChannel channel = FileChannel.open(file, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            return new Ring(channel.map(FileChannel.MapMode.READ_WRITE, 0, channel.size()));
        }
    }

    /** Heartbeat: changes as long as the recorder reads. */
    long beat() {
        return (long) LONG.getVolatile(map, BEAT_AT);
    }

    int order() {
        return (int) INT.getVolatile(map, ORDER_AT);
    }

    /** Makes every connection count as a new one: bytes that passed during a pause were not counted. */
    void countAnew() {
        number = NEXT.getAndIncrement();
    }

    void say(int state, String text) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        int length = Math.min(bytes.length, MAX_TEXT);
        ByteBuffer to = map.duplicate();
        to.position(TEXT_AT);
        to.put(bytes, 0, length);
        map.putInt(STATE_AT + Integer.BYTES, length);
        INT.setVolatile(map, STATE_AT, state);
    }

    void countError() {
        long before = (long) LONG.getAndAdd(map, ERRORS_AT, 1L);
    }

    /** Adds the bytes that a connection moved, in pieces. */
    void put(Tap.Connection connection, int flags, int thread, long begun, long ended, ByteBuffer bytes) {
        boolean isWritten = (flags & WRITTEN) != 0;
        int end = bytes.limit();
        while (bytes.position() < end) {
            int length = Math.min(end - bytes.position(), MAX_RECORD_BYTES);
            bytes.limit(bytes.position() + length);
            long offset = isWritten ? connection.written : connection.read;
            long position = reserve(align(RECORD_HEADER + length));
            if (position < 0) {
                long records = (long) LONG.getAndAdd(map, DROPPED_RECORDS_AT, 1L);
                long dropped = (long) LONG.getAndAdd(map, DROPPED_BYTES_AT, (long) length);
                bytes.position(bytes.limit());
            } else {
                write(position, connection, flags, thread, offset, begun, ended, bytes, length);
            }
            // Also counts dropped bytes: the next offset shows that they are missing.
            if (isWritten) {
                connection.written += length;
            } else {
                connection.read += length;
            }
            flags &= ~FRAME_START;
            bytes.limit(end);
        }
    }

    /** Reserves contiguous bytes and returns their position; negative if there is no room. */
    private long reserve(int bytes) {
        while (true) {
            long head = (long) LONG.getVolatile(map, HEAD_AT);
            int rest = capacity - (int) (head % capacity);
            int skipped = rest < bytes ? rest : 0;
            long next = head + skipped + bytes;
            if (next - tail(head) > capacity) {
                return -1;
            }
            if (LONG.compareAndSet(map, HEAD_AT, head, next)) {
                if (skipped >= RECORD_HEADER) {
                    int at = at(head);
                    map.putInt(at + 12, PADDING);
                    commit(at, head);
                }
                return head + skipped;
            }
        }
    }

    /** The position up to which the recorder has read. A system call writes it together with its complement. */
    private long tail(long head) {
        for (int look = 0; look < MAX_LOOKS; look++) {
            long tail = (long) LONG.getVolatile(map, TAIL_AT);
            if (tail == ~(long) LONG.getVolatile(map, TAIL_AT + Long.BYTES)) {
                return tail;
            }
        }
        return head - capacity;
    }

    private void write(
            long position,
            Tap.Connection connection,
            int flags,
            int thread,
            long offset,
            long begun,
            long ended,
            ByteBuffer bytes,
            int length) {
        int at = at(position);
        map.putInt(at + 8, length);
        map.putInt(at + 12, flags);
        map.putLong(at + 16, connection.id);
        map.putLong(at + 24, offset);
        map.putLong(at + 32, begun);
        map.putLong(at + 40, ended);
        map.putInt(at + 48, thread);
        map.putShort(at + 52, (short) connection.local.getPort());
        map.putShort(at + 54, (short) connection.remote.getPort());
        ByteBuffer to = map.duplicate();
        to.position(at + 56);
        putAddress(to, connection.local);
        putAddress(to, connection.remote);
        to.put(bytes);
        commit(at, position);
    }

    /** Writes 16 bytes; IPv4 as an IPv4-mapped IPv6 address. */
    private static void putAddress(ByteBuffer to, InetSocketAddress end) {
        InetAddress address = end.getAddress();
        byte[] bytes = address.getAddress();
        if (bytes.length == Integer.BYTES) {
            to.putLong(0).putShort((short) 0).putShort((short) -1);
        }
        to.put(bytes);
    }

    /** Makes a record valid for the recorder. Older bytes here cannot look valid, because the nonce is secret. */
    private void commit(int at, long position) {
        LONG.setRelease(map, at, nonce ^ (position + 1));
    }

    private int at(long position) {
        return HEADER + (int) (position % capacity);
    }

    private static int align(int bytes) {
        return (bytes + Long.BYTES - 1) & -Long.BYTES;
    }
}
