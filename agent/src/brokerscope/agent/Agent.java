package brokerscope.agent;

import java.io.IOException;
import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.nio.file.Path;
import java.security.ProtectionDomain;

/**
 * Copies the plaintext of a broker's TLS connections into a ring that a recorder reads, from when it is loaded until
 * the recorder stops it or has ended. Then the broker runs its original bytecode again.
 *
 * <p>Nothing here may harm the broker: errors are written into the ring and never thrown.
 */
public final class Agent implements ClassFileTransformer {
    /** Encrypts and decrypts all of Kafka's TLS connections. */
    static final String LAYER = "org.apache.kafka.common.network.SslTransportLayer";

    /** Interval between checks for the recorder. */
    private static final long LOOK_MS = 200;
    /** A recorder without a heartbeat for this long has ended. */
    private static final long GONE_NS = 3_000_000_000L;
    /** A recorder that reads has a heartbeat within this time. */
    private static final long READ_WITHIN_NS = 1_000_000_000L;

    private static Agent running;

    private final Instrumentation instrumentation;
    private final Ring ring;
    private volatile String refused;

    private Agent(Instrumentation instrumentation, Ring ring) {
        this.instrumentation = instrumentation;
        this.ring = ring;
    }

    /** Called by the JVM once it has loaded this jar; the option is the ring's file. */
    public static void agentmain(String option, Instrumentation instrumentation) {
        try {
            start(new Agent(instrumentation, Ring.open(Path.of(option))));
        } catch (IOException | RuntimeException | LinkageError error) {
            // Without a ring the error cannot be reported: the recorder finds its ring unchanged.
        }
    }

    private static synchronized void start(Agent agent) {
        if (running != null && running.isRead()) {
            agent.ring.say(Ring.REFUSED, "another recorder reads this JVM's TLS connections");
            return;
        }
        if (running != null) {
            running.stop();
            running = null;
        }
        Tap.prepare();
        agent.instrumentation.addTransformer(agent, true);
        Tap.copyInto(agent.ring);
        agent.retransform();
        if (agent.refused != null) {
            agent.stop();
            agent.ring.say(Ring.REFUSED, agent.refused);
            return;
        }
        running = agent;
        Thread thread = new Thread(agent::watch, "brokerscope-agent");
        thread.setDaemon(true);
        agent.ring.say(Ring.COPIES, "");
        thread.start();
    }

    /** Whether the recorder has a heartbeat within a second: a killed one does not. */
    private boolean isRead() {
        long before = ring.beat();
        long begun = System.nanoTime();
        while (ring.beat() == before) {
            if (System.nanoTime() - begun > READ_WITHIN_NS || !pause()) {
                return false;
            }
        }
        return true;
    }

    /** Sleeps; returns whether it was not interrupted. */
    private static boolean pause() {
        try {
            Thread.sleep(LOOK_MS);
            return true;
        } catch (InterruptedException interrupted) {
            return false;
        }
    }

    /** Stops once the recorder orders it or has ended. */
    private void watch() {
        long beat = ring.beat();
        long heard = System.nanoTime();
        int order = 0;
        while (order != Ring.STOP && System.nanoTime() - heard < GONE_NS && pause()) {
            int before = order;
            order = ring.order();
            pauseOrGoOn(before, order);
            long now = ring.beat();
            if (now != beat) {
                beat = now;
                heard = System.nanoTime();
            }
        }
        synchronized (Agent.class) {
            // Otherwise another agent has taken its place.
            if (running == this) {
                stop();
                running = null;
            }
        }
        ring.say(Ring.ENDED, refused == null ? "" : refused);
    }

    /** Follows an order to pause or continue. A pause is for measurements of the cost of copying. */
    private void pauseOrGoOn(int before, int order) {
        synchronized (Agent.class) {
            if (running != this || order == before) {
                return;
            }
            if (order == Ring.PAUSE) {
                Tap.copyInto(null);
            } else if (order == 0) {
                ring.countAnew();
                Tap.copyInto(ring);
            }
        }
    }

    private void stop() {
        Tap.copyInto(null);
        instrumentation.removeTransformer(this);
        retransform();
    }

    /** Makes the JVM transform the layer again, in every class loader that has it. Layers loaded later are transformed anyway. */
    private void retransform() {
        try {
            for (Class<?> loaded : instrumentation.getAllLoadedClasses()) {
                if (loaded.getName().equals(LAYER)) {
                    instrumentation.retransformClasses(loaded);
                }
            }
        } catch (Exception | LinkageError error) {
            refused = "the JVM does not transform " + LAYER + ": " + error;
        }
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> loaded, ProtectionDomain domain, byte[] bytes) {
        if (!LAYER.replace('.', '/').equals(name)) {
            return null;
        }
        try {
            if (Class.forName(Tap.class.getName(), false, loader) != Tap.class) {
                throw new ClassNotFoundException("another " + Tap.class);
            }
            return Patch.apply(bytes);
        } catch (Exception | LinkageError error) {
            refused = "cannot patch " + LAYER + ": " + error;
            return null;
        }
    }
}
