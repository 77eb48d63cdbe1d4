// Drives producers and consumers from a schedule, open-loop: a record is sent when it is due, however long others wait.
// The schedule begins when all clients are connected.
//
//   java LoadDriver PLAN.json RECORDS.csv
//
// PLAN: {"lastsMs": at most, from the start, "streams": [{"properties": {...producer...}, "consumer": {...} or null,
//   "topic": t, "partition": p, "dueMs": [after start...], "bytes": [...]}, ...]}
// RECORDS, a line per record: stream,number,due,sent,done,bytes -- epoch milliseconds; done is the acknowledgement for
// a producer and the poll that returned the record for a consumer; -1 = never.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.File;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class LoadDriver {
    private LoadDriver() {
    }

    /** One client with its schedule; consumers have a producer beside them that feeds their topic. */
    private static final class Stream {
        final int number;
        final String topic;
        final int partition;
        final long[] due; // after the start, then epoch
        final int[] bytes;
        final AtomicLongArray sent;
        final AtomicLongArray done;
        final AtomicInteger missing;
        final KafkaProducer<byte[], byte[]> producer;
        final KafkaConsumer<byte[], byte[]> consumer;

        Stream(int number, JsonNode plan) {
            this.number = number;
            topic = plan.get("topic").asText();
            partition = plan.get("partition").asInt();
            int size = plan.get("dueMs").size();
            due = new long[size];
            bytes = new int[size];
            for (int at = 0; at < size; at++) {
                due[at] = plan.get("dueMs").get(at).asLong();
                bytes[at] = Math.max(4, plan.get("bytes").get(at).asInt());
            }
            sent = unknown(size);
            done = unknown(size);
            missing = new AtomicInteger(size);
            producer = new KafkaProducer<>(properties(plan.get("properties")), new ByteArraySerializer(), new ByteArraySerializer());
            producer.partitionsFor(topic);
            consumer = plan.get("consumer").isNull() ? null
                : new KafkaConsumer<>(properties(plan.get("consumer")), new ByteArrayDeserializer(), new ByteArrayDeserializer());
            if (consumer != null) {
                TopicPartition where = new TopicPartition(topic, partition);
                consumer.assign(List.of(where));
                consumer.seekToEnd(List.of(where));
                consumer.position(where);
            }
        }

        void begin(long start) {
            for (int at = 0; at < due.length; at++) {
                due[at] += start;
            }
        }

        void done(int at, long when) {
            if (done.getAndSet(at, when) < 0) {
                missing.decrementAndGet();
            }
        }

        void send() {
            for (int at = 0; at < due.length; at++) {
                waitUntil(due[at]);
                byte[] value = new byte[bytes[at]];
                ByteBuffer.wrap(value).putInt(at);
                int mine = at;
                sent.set(at, System.currentTimeMillis());
                producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, failure) -> {
                    if (consumer == null && failure == null) {
                        done(mine, System.currentTimeMillis());
                    }
                });
            }
        }

        void read(long stop) {
            while (missing.get() > 0 && System.currentTimeMillis() < stop) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                    done(ByteBuffer.wrap(record.value()).getInt(), System.currentTimeMillis());
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode plan = new ObjectMapper().readTree(new File(arguments[0]));
        List<Stream> streams = new ArrayList<>();
        for (JsonNode one : plan.get("streams")) {
            streams.add(new Stream(streams.size(), one));
        }
        long start = System.currentTimeMillis();
        long stop = start + plan.get("lastsMs").asLong();
        streams.forEach(stream -> stream.begin(start));
        List<Thread> threads = new ArrayList<>();
        for (Stream stream : streams) {
            threads.add(new Thread(stream::send));
            if (stream.consumer != null) {
                threads.add(new Thread(() -> stream.read(stop)));
            }
        }
        threads.forEach(Thread::start);
        while (System.currentTimeMillis() < stop && streams.stream().anyMatch(stream -> stream.missing.get() > 0)) {
            TimeUnit.MILLISECONDS.sleep(100);
        }
        try (PrintWriter out = new PrintWriter(arguments[1], "UTF-8")) {
            for (Stream stream : streams) {
                for (int at = 0; at < stream.due.length; at++) {
                    out.printf("%d,%d,%d,%d,%d,%d%n", stream.number, at, stream.due[at], stream.sent.get(at), stream.done.get(at), stream.bytes[at]);
                }
            }
        }
        System.exit(0);
    }

    private static void waitUntil(long when) {
        for (long left = when - System.currentTimeMillis(); left > 0; left = when - System.currentTimeMillis()) {
            try {
                TimeUnit.MILLISECONDS.sleep(left);
            } catch (InterruptedException stop) {
                Thread.currentThread().interrupt();
                return;
            }
        }
    }

    private static AtomicLongArray unknown(int size) {
        AtomicLongArray found = new AtomicLongArray(size);
        for (int at = 0; at < size; at++) {
            found.set(at, -1);
        }
        return found;
    }

    private static Properties properties(JsonNode given) {
        Properties found = new Properties();
        for (Iterator<Map.Entry<String, JsonNode>> all = given.fields(); all.hasNext();) {
            Map.Entry<String, JsonNode> one = all.next();
            found.setProperty(one.getKey(), one.getValue().asText());
        }
        return found;
    }
}
