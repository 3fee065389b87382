import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * An ordinary day of a user: make a topic, send, consume, commit, come back.
 *
 * <p>Usage: Exchange NAMESRV CLUSTER. Prints what the client library reports, one fact a line, its
 * fields separated by tabs; test_java_client.py decides whether the facts are right. Anything that
 * the client refuses or that is not SEND_OK ends the program with a stack trace and exit code 1.
 */
public final class Exchange {
    static final String TOPIC = "exchange";
    static final int QUEUES = 4; // on each broker
    static final int SENDS = 100;
    static final int BATCH = 5;
    static final long POLL_MS = 500;
    static final long PATIENCE_MS = 20_000;

    public static void main(String[] args) throws Exception {
        String namesrv = args[0];
        String cluster = args[1];
        produce(namesrv, cluster);
        assign(namesrv);
        comeBack(namesrv);
        subscribe(namesrv);
        System.exit(0); // some client threads are no daemons, and none has work left
    }

    @SuppressWarnings("deprecation") // createTopic; its heir is in the admin tools
    static void produce(String namesrv, String cluster) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("exchange-producer");
        producer.setNamesrvAddr(namesrv);
        producer.start();
        // The cluster's own topic is the template: it names every broker.
        producer.createTopic(cluster, TOPIC, QUEUES, Map.of());
        for (int i = 0; i < SENDS; i++) {
            // The last body is long enough for the client to compress it.
            String body = "body-" + i + (i == SENDS - 1 ? "x".repeat(10_000) : "");
            report("sent", producer.send(message(i, body)), body);
        }
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < BATCH; i++) {
            batch.add(message(SENDS + i, "batch-" + i));
        }
        report("batch", producer.send(batch), "");
        producer.sendOneway(message(SENDS + BATCH, "oneway"));
        producer.shutdown();
    }

    static Message message(int i, String body) {
        String tag = i % 2 == 0 ? "even" : "odd";
        return new Message(TOPIC, tag, "key-" + i, body.getBytes(StandardCharsets.UTF_8));
    }

    static void report(String word, SendResult r, String body) {
        if (r.getSendStatus() != SendStatus.SEND_OK) {
            throw new IllegalStateException(r.toString());
        }
        MessageQueue q = r.getMessageQueue();
        print(word, r.getMsgId(), r.getOffsetMsgId(), q.getBrokerName(), q.getQueueId(),
            r.getQueueOffset(), body);
    }

    /** Read every queue from its start, and commit. */
    static void assign(String namesrv) throws Exception {
        DefaultLitePullConsumer consumer = consumer(namesrv, "exchange-assign");
        consumer.setAutoCommit(false);
        consumer.start();
        consumer.assign(consumer.fetchMessageQueues(TOPIC));
        drain(consumer, "assigned", SENDS + BATCH + 1);
        consumer.commit();
        consumer.shutdown(); // takes the committed offsets to the brokers
    }

    /** The same group anew: it remembers nothing, so what it knows it has from the brokers. */
    static void comeBack(String namesrv) throws Exception {
        DefaultLitePullConsumer consumer = consumer(namesrv, "exchange-assign");
        consumer.start();
        for (MessageQueue queue : consumer.fetchMessageQueues(TOPIC)) {
            print("committed", queue.getBrokerName(), queue.getQueueId(),
                consumer.committed(queue));
        }
        consumer.shutdown();
    }

    /** Another group, which shares the queues out among its members and wants one tag only. */
    static void subscribe(String namesrv) throws Exception {
        DefaultLitePullConsumer consumer = consumer(namesrv, "exchange-subscribe");
        consumer.subscribe(TOPIC, "even");
        consumer.start();
        drain(consumer, "subscribed", (SENDS + BATCH + 2) / 2);
        consumer.shutdown();
    }

    static DefaultLitePullConsumer consumer(String namesrv, String group) {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return consumer;
    }

    /** Print what comes until all has come or patience ends; then look once more for too much. */
    static void drain(DefaultLitePullConsumer consumer, String word, int expected) {
        long deadline = System.nanoTime() + PATIENCE_MS * 1_000_000;
        int seen = 0;
        while (seen < expected && System.nanoTime() < deadline) {
            seen += take(consumer, word);
        }
        take(consumer, word);
    }

    static int take(DefaultLitePullConsumer consumer, String word) {
        List<MessageExt> messages = consumer.poll(POLL_MS);
        for (MessageExt m : messages) {
            print(word, m.getMsgId(), ((MessageClientExt) m).getOffsetMsgId(), m.getBrokerName(),
                m.getQueueId(), m.getQueueOffset(), m.getTags(), m.getKeys(),
                new String(m.getBody(), StandardCharsets.UTF_8));
        }
        return messages.size();
    }

    static void print(Object... fields) {
        List<String> text = new ArrayList<>();
        for (Object field : fields) {
            text.add(String.valueOf(field));
        }
        System.out.println(String.join("\t", text));
    }
}
