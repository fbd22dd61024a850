package brokerscope.agent;

import java.io.IOException;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ReadableByteChannel;
import java.nio.channels.SocketChannel;
import java.nio.channels.WritableByteChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.WeakHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Called first by a patched method: calls the method again, which runs its original code this time, and copies the
 * bytes that it moved. Reads from duplicates of buffers, so that the broker's buffers do not change.
 */
public final class Tap {
    /** The method should run its original code. */
    static final int RUN = Integer.MIN_VALUE;

    private static final AtomicLong NEXT_ID = new AtomicLong(1);
    private static final ThreadLocal<Caller> CALLERS = ThreadLocal.withInitial(Caller::new);

    /** The ring to copy into; null stops copying. */
    private static volatile Ring ring;

    private Tap() {}

    static void copyInto(Ring to) {
        ring = to;
    }

    /** The calling thread; null if this agent failed. */
    private static Caller caller(Ring to) {
        try {
            return CALLERS.get();
        } catch (Throwable error) {
            to.countError();
            return null;
        }
    }

    /** Makes the JVM load all classes that a call needs before the first call, because the jar is removed after that. */
    static void prepare() {
        CALLERS.get();
        CALLERS.remove();
        Connection.class.getName();
    }

    /** Runs before {@code SslTransportLayer.read(ByteBuffer)}. */
    public static int read(Object layer, ByteBuffer buffer) throws IOException {
        Ring to = ring;
        Caller caller = to == null ? null : caller(to);
        if (caller == null || caller.isInside) {
            return RUN;
        }
        int before = buffer.position();
        boolean isFrameStart = before == 0 && buffer.capacity() == Integer.BYTES;
        long begun = System.nanoTime();
        int moved;
        caller.isInside = true;
        try {
            moved = ((ReadableByteChannel) layer).read(buffer);
        } finally {
            caller.isInside = false;
        }
        if (moved > 0) {
            caller.copy(to, layer, buffer, before, moved, isFrameStart ? Ring.FRAME_START : 0, begun);
        }
        return moved;
    }

    /** Runs before {@code SslTransportLayer.write(ByteBuffer)}. */
    public static int write(Object layer, ByteBuffer buffer) throws IOException {
        Ring to = ring;
        Caller caller = to == null ? null : caller(to);
        if (caller == null || caller.isInside) {
            return RUN;
        }
        int before = buffer.position();
        long begun = System.nanoTime();
        int moved;
        caller.isInside = true;
        try {
            moved = ((WritableByteChannel) layer).write(buffer);
        } finally {
            caller.isInside = false;
        }
        if (moved > 0) {
            caller.copy(to, layer, buffer, before, moved, Ring.WRITTEN, begun);
        }
        return moved;
    }

    /** A connection; it lives as long as the broker keeps its layer. */
    static final class Connection {
        final long id = NEXT_ID.getAndIncrement();
        final InetSocketAddress local;
        final InetSocketAddress remote;
        long read;
        long written;

        Connection(SocketChannel channel) throws IOException {
            local = (InetSocketAddress) channel.getLocalAddress();
            remote = (InetSocketAddress) channel.getRemoteAddress();
        }
    }

    /** A thread of the broker, with the connections that only it uses. */
    private static final class Caller {
        private final int thread = ownId();
        private final Map<Object, Connection> connections = new WeakHashMap<>();
        /** The number of the ring that the connections were counted for. A reference would keep the ring in memory. */
        private long counted;

        private boolean isInside;

        void copy(Ring to, Object layer, ByteBuffer buffer, int before, int moved, int flags, long begun) {
            try {
                long ended = System.nanoTime();
                if (counted != to.number) {
                    connections.clear();
                    counted = to.number;
                }
                Connection connection = connections.get(layer);
                if (connection == null) {
                    connection = new Connection(channelOf(layer));
                    connections.put(layer, connection);
                }
                ByteBuffer bytes = buffer.duplicate();
                bytes.limit(before + moved).position(before);
                to.put(connection, flags, thread, begun, ended, bytes);
            } catch (Throwable error) {
                to.countError();
            }
        }
    }

    private static SocketChannel channelOf(Object layer) throws Throwable {
        MethodHandle get =
                MethodHandles.publicLookup()
                        .findVirtual(layer.getClass(), "socketChannel", MethodType.methodType(SocketChannel.class));
        return (SocketChannel) get.invoke(layer);
    }

    /** The thread's id in the JVM's pid namespace. */
    private static int ownId() {
        try {
            return Integer.parseInt(
                    Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString());
        } catch (IOException | RuntimeException error) {
            return 0;
        }
    }
}
