// Makes known threads wait for monitors for known times, and prints its own measurements: one line per wait, with the
// thread's name and id, and the ends by System.nanoTime(), which on Linux is CLOCK_MONOTONIC. Begins when it reads a
// line from its input, and ends at the input's end. Its argument slows everything down by that factor.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

public class Contend {
	static class Lock {}

	static final Lock lock = new Lock();
	static long slower = 1;

	interface Step {
		void run() throws Exception;
	}

	static String tid() throws Exception {
		return Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName().toString();
	}

	static void pause(long millis) throws Exception {
		Thread.sleep(millis * slower);
	}

	// Takes the lock, prints its measurement, and holds the lock until it may let go, and for that long afterwards.
	static void hold(String role, long millis, CountDownLatch mayLetGo) throws Exception {
		String tid = tid();
		long start = System.nanoTime();
		synchronized (lock) {
			long end = System.nanoTime();
			mayLetGo.await();
			pause(millis);
			System.out.println(role + " " + tid + " " + start + " " + end);
		}
	}

	static Thread started(String name, Step step) {
		Thread thread = new Thread(() -> {
			try {
				step.run();
			} catch (Exception error) {
				throw new RuntimeException(error);
			}
		}, name);
		thread.start();
		return thread;
	}

	static void await(Thread thread, Thread.State state) throws Exception {
		while (thread.getState() != state)
			Thread.sleep(1);
	}

	// One thread holds the lock until the others have arrived, one after the other; each of them then holds it for
	// a moment.
	static void round(int waiters, long millis) throws Exception {
		List<Thread> threads = new ArrayList<>();
		CountDownLatch mayLetGo = new CountDownLatch(1);
		Thread holder = started("a-thread-that-holds", () -> hold("holder", millis, mayLetGo));
		threads.add(holder);
		await(holder, Thread.State.WAITING);
		for (int i = 0; i < waiters; i++) {
			Thread waiter = started("a-thread-that-waits-" + i, () -> hold("waiter", 5, mayLetGo));
			threads.add(waiter);
			await(waiter, Thread.State.BLOCKED);
		}
		mayLetGo.countDown();
		for (Thread thread : threads)
			thread.join();
		System.out.println("round");
	}

	public static void main(String[] arguments) throws Exception {
		if (arguments.length > 0)
			slower = Long.parseLong(arguments[0]);
		BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
		System.out.println("ready");
		input.readLine();
		for (int i = 0; i < 3; i++) {
			round(1, 20 + 10 * i);
			round(3, 40);
		}
		long start = System.nanoTime();
		System.gc();
		System.out.println("gc 0 " + start + " " + System.nanoTime());
		System.out.println("done");
		input.readLine();
	}
}
