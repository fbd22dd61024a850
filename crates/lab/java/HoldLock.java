import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * An agent that holds a partition's leadership lock (Partition.leaderIsrUpdateLock) for a while, like a change of its
 * in-sync replicas: every append takes that lock for reading before it takes the log's. Its argument is
 * TOPIC,PARTITION,MILLISECONDS.
 */
public class HoldLock {
	private static final String PARTITION = "kafka.cluster.Partition";
	/** Maximum number of objects to visit between a metric and its partition. */
	private static final int MAX_OBJECTS = 64;

	public static void agentmain(String argument) throws Exception {
		String[] words = argument.split(",");
		ReentrantReadWriteLock lock = lockOf(words[0], words[1]);
		long milliseconds = Long.parseLong(words[2]);
		Thread holder = new Thread(() -> hold(lock, milliseconds), "lab-lock-holder");
		holder.setDaemon(true);
		holder.start();
	}

	private static void hold(ReentrantReadWriteLock lock, long milliseconds) {
		lock.writeLock().lock();
		try {
			Thread.sleep(milliseconds);
		} catch (InterruptedException stopped) {
			Thread.currentThread().interrupt();
		} finally {
			lock.writeLock().unlock();
		}
	}

	private static ReentrantReadWriteLock lockOf(String topic, String partition) throws Exception {
		Class<?> metrics = Class.forName("org.apache.kafka.server.metrics.KafkaYammerMetrics");
		Object registry = metrics.getMethod("defaultRegistry").invoke(null);
		Map<?, ?> all = (Map<?, ?>) registry.getClass().getMethod("allMetrics").invoke(registry);
		for (Map.Entry<?, ?> metric : all.entrySet()) {
			String name = metric.getKey().toString();
			boolean matches = name.contains("type=Partition,name=UnderReplicated") && name.contains("topic=" + topic + ",")
					&& name.contains("partition=" + partition);
			Object found = matches ? partitionBehind(metric.getValue()) : null;
			if (found != null) {
				return (ReentrantReadWriteLock) read(found, found.getClass().getDeclaredField("leaderIsrUpdateLock"));
			}
		}
		throw new IllegalStateException("no metric leads to partition " + partition + " of " + topic);
	}

	/** Finds the partition that the gauge's function has captured. */
	private static Object partitionBehind(Object metric) throws Exception {
		Set<Object> visited = Collections.newSetFromMap(new IdentityHashMap<>());
		Deque<Object> next = new ArrayDeque<>();
		next.add(metric);
		while (!next.isEmpty() && visited.size() < MAX_OBJECTS) {
			Object object = next.remove();
			if (object.getClass().getName().equals(PARTITION)) {
				return object;
			}
			if (!visited.add(object) || object.getClass().getName().startsWith("java.")) {
				continue;
			}
			for (Field field : object.getClass().getDeclaredFields()) {
				boolean mayLead = !Modifier.isStatic(field.getModifiers()) && !field.getType().isPrimitive();
				Object value = mayLead ? read(object, field) : null;
				if (value != null) {
					next.add(value);
				}
			}
		}
		return null;
	}

	private static Object read(Object object, Field field) throws Exception {
		field.setAccessible(true);
		return field.get(object);
	}
}
