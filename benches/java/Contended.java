// Two threads that hand one monitor to each other: each releases it once the other waits for it, and comes back once the
// other has it, so that every entry into it is contended. On one processor, which the caller sees to, nothing of it happens
// at the same time, and how long a wait takes is what it takes of the processor.
//
// A line of the input says for how many milliseconds, and how many KiB a thread goes through each time it has the monitor:
// caches then hold that. Answers with how many waits the JVM itself counted; ends with the input.

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
						// It is about to sleep; were it let in before, nobody would have to wake it.
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

	// Every line of a cache once.
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
