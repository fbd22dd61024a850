import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;
import java.util.concurrent.locks.StampedLock;

/**
 * Threads with known names that wait for known locks for known times, one after another, and parks that are not lock
 * waits. README.md says how the recordings beside it were made.
 */
public class Contended {
    interface Step {
        void run() throws Exception;
    }

    static final class PartitionLog {}

    static final Object log = new PartitionLog();
    static final ReentrantLock lock = new ReentrantLock();
    static final ReentrantReadWriteLock rw = new ReentrantReadWriteLock();
    static final StampedLock stamped = new StampedLock();

    public static void main(String[] args) throws Exception {
        for (int round = 0; round < (args.length > 0 ? Integer.parseInt(args[0]) : 2); round++) {
            contend(() -> hold(log, 50), Contended::askForLog);
            contend(() -> { lock.lock(); sleep(40); lock.unlock(); }, () -> { lock.lock(); lock.unlock(); });
            contend(
                () -> { rw.writeLock().lock(); sleep(30); rw.writeLock().unlock(); },
                () -> { rw.readLock().lock(); rw.readLock().unlock(); });
            contend(
                () -> { long s = stamped.writeLock(); sleep(30); stamped.unlockWrite(s); },
                () -> { long s = stamped.readLock(); stamped.unlockRead(s); });
            parks();
            System.gc();
        }
    }

    /** One thread takes a lock before another requests it. */
    static void contend(Step holder, Step waiter) throws Exception {
        Thread h = start("data-plane-kafka-request-handler-24", holder);
        Thread.sleep(10);
        Thread w = start("data-plane-kafka-request-handler-\u00e9\u4e16", waiter);
        h.join();
        w.join();
    }

    static void hold(Object monitor, long millis) throws Exception {
        synchronized (monitor) {
            sleep(millis);
        }
    }

    /** Prints when it requested and when it acquired the lock, by CLOCK_MONOTONIC. */
    static void askForLog() {
        long asked = System.nanoTime();
        long had;
        synchronized (log) {
            had = System.nanoTime();
        }
        System.out.println(asked + " " + had);
    }

    /** A queue, a condition, a latch, a park without an object: none of them is a lock. */
    static void parks() throws Exception {
        Thread t = start("idle", () -> {
            new LinkedBlockingQueue<String>().poll(12, TimeUnit.MILLISECONDS);
            lock.lock();
            Condition condition = lock.newCondition();
            condition.await(12, TimeUnit.MILLISECONDS);
            lock.unlock();
            new CountDownLatch(1).await(12, TimeUnit.MILLISECONDS);
            LockSupport.parkNanos(12_000_000);
        });
        t.join();
    }

    static void sleep(long millis) throws InterruptedException {
        if (millis > 0) {
            Thread.sleep(millis);
        }
    }

    static Thread start(String name, Step step) {
        Thread t = new Thread(() -> {
            try {
                step.run();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }, name);
        t.start();
        return t;
    }
}
