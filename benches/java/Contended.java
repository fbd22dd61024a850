// Threads that wait for one monitor in turn: nearly every entry into it is contended. Runs for as many milliseconds as
// a line of its input says, and answers with how many waits the JVM itself counted; ends with the input.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.locks.LockSupport;

public class Contended {
	static final int THREADS = 4;
	static final Object lock = new Object();
	static final CyclicBarrier begin = new CyclicBarrier(THREADS + 1);
	static final CyclicBarrier end = new CyclicBarrier(THREADS + 1);
	static volatile boolean running;

	static void contend() {
		try {
			for (;;) {
				begin.await();
				while (running) {
					// Held without using the processor, and for so long that to spin for it has never helped: HotSpot
					// then gives that up (ObjectMonitor::TrySpin), and what is left is the wait itself.
					synchronized (lock) {
						LockSupport.parkNanos(1_000_000);
					}
					// Else the one that let go would have it again before those that wait.
					LockSupport.parkNanos(50_000);
				}
				end.await();
			}
		} catch (Exception error) {
			throw new RuntimeException(error);
		}
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
			Thread thread = new Thread(Contended::contend, "contender-" + i);
			thread.setDaemon(true);
			thread.start();
			ids[i] = thread.getId();
		}
		BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
		System.out.println("ready");
		for (String line = input.readLine(); line != null; line = input.readLine()) {
			long before = waits(ids);
			running = true;
			begin.await();
			Thread.sleep(Long.parseLong(line.trim()));
			running = false;
			end.await();
			System.out.println(waits(ids) - before);
		}
	}
}
