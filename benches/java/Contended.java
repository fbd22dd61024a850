// Two threads that pass one monitor back and forth: each releases it once the other waits for it, and tries again once the
// other owns it, so that every entry is contended. The caller pins the process to one processor, so nothing runs in parallel, and
// the duration of a wait equals its CPU time.
//
// Each input line gives the duration in milliseconds, and the KiB that a thread writes (and so has in its caches) each time
// that it owns the monitor. Prints the number of waits that the JVM itself counted; exits at the end of the input.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.util.concurrent.CyclicBarrier;

public class Contended {
	static final int THREADS = 2;
	static final int YIELDS = 4;
	static final Object lock = new Object();
	static final CyclicBarrier begin = new CyclicBarrier(THREADS + 1);
	static final CyclicBarrier end = new CyclicBarrier(THREADS + 1);
	static final Thread[] threads = new Thread[THREADS];
	static volatile boolean running;
	static volatile Thread holder;
	static volatile int through;

	static void contend(int number) {
		Thread self = Thread.currentThread(), other = threads[1 - number];
		long[] data = new long[1 << 20];
		try {
			for (;;) {
				begin.await();
				while (running) {
					synchronized (lock) {
						holder = self;
						go(data, Math.min(data.length, through << 7));
						while (running && other.getState() != Thread.State.BLOCKED)
							Thread.yield();
						// The other thread is about to sleep; if it entered before that, it would not need a wake-up.
						for (int i = 0; i < YIELDS; i++)
							Thread.yield();
					}
					while (running && holder == self)
						Thread.yield();
				}
				end.await();
			}
		} catch (Exception error) {
			throw new RuntimeException(error);
		}
	}

	// Touches every cache line once.
	static void go(long[] data, int until) {
		for (int i = 0; i < until; i += 8)
			data[i]++;
	}

	static long waits(long[] ids) {
		long waits = 0;
		for (ThreadInfo info : ManagementFactory.getThreadMXBean().getThreadInfo(ids))
			waits += info.getBlockedCount();
		return waits;
	}

	public static void main(String[] arguments) throws Exception {
		long[] ids = new long[THREADS];
		for (int i = 0; i < THREADS; i++) {
			int number = i;
			threads[i] = new Thread(() -> contend(number), "contender-" + i);
			threads[i].setDaemon(true);
			ids[i] = threads[i].getId();
		}
		for (Thread thread : threads)
			thread.start();
		BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
		System.out.println("ready");
		for (String line = input.readLine(); line != null; line = input.readLine()) {
			String[] words = line.trim().split(" ");
			long before = waits(ids);
			through = Integer.parseInt(words[1]);
			running = true;
			begin.await();
			Thread.sleep(Long.parseLong(words[0]));
			running = false;
			end.await();
			System.out.println(waits(ids) - before);
		}
	}
}
