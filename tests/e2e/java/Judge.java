import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.impl.consumer.DefaultMQPushConsumerImpl;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.remoting.RPCHook;
import org.apache.rocketmq.remoting.exception.RemotingConnectException;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.RequestCode;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Clients and tools of RocketMQ that do as they are told.
 *
 * <p>Usage: Judge NAMESRV. Commands come on stdin, one a line, words separated by tabs. What the
 * library reports goes to stdout, one fact a line, fields separated by tabs; the tests
 * decide whether the facts are right. A command that is through prints "done" and itself.
 *
 * <p>A body "x!3" is not consumed before its fourth delivery; "x!99" never is.
 */
public final class Judge {
    static final PrintStream OUT = System.out; // System.out itself is changed while mqadmin runs
    static final int POLL_MS = 200;
    static final int QUICK_MS = 1000; // what a client does every 5 to 30 s by itself

    static String namesrv;
    static DefaultMQProducer producer;
    static final Map<String, Runnable> running = new ConcurrentHashMap<>(); // name -> how to end it

    public static void main(String[] args) throws Exception {
        namesrv = args[0];
        producer = new DefaultMQProducer("judge-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setPollNameServerInterval(QUICK_MS);
        producer.setHeartbeatBrokerInterval(QUICK_MS);
        producer.setRetryTimesWhenSendFailed(0); // every attempt is reported
        producer.setRetryTimesWhenSendAsyncFailed(0);
        producer.start();
        BufferedReader in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            try {
                obey(words);
            } catch (Exception e) {
                print("failed", e.toString().replace('\n', ' '));
            }
            print("done", line);
        }
        stop(new ArrayList<>(running.keySet()));
        producer.shutdown();
        System.exit(0); // some client threads are no daemons, and none has work left
    }

    static void obey(String[] w) throws Exception {
        switch (w[0]) {
            case "admin": admin(Arrays.copyOfRange(w, 1, w.length)); break;
            case "send": send(w[1], w[2], w[3], Integer.parseInt(w[4])); break;
            case "stream": stream(w[1], w[2], w[3]); break;
            case "push": push(w[1], w[2], w[3], w[4], Integer.parseInt(w[5])); break;
            case "poll": poll(w[1], w[2], w[3]); break;
            case "pull": pull(w[1], w[2], w[3]); break;
            case "read":
                read(w[1], new MessageQueue(w[2], w[3], Integer.parseInt(w[4])),
                    Long.parseLong(w[5]));
                break;
            case "trade": trade(w[1], w[2]); break;
            case "transact": transact(w[1], w[2], w[3], w[4], Integer.parseInt(w[5])); break;
            case "stop": stop(Arrays.asList(w).subList(1, w.length)); break;
            default: throw new IllegalArgumentException(w[0]);
        }
    }

    /** End some clients side by side: each takes up to 3 s. */
    static void stop(List<String> names) {
        List<Thread> threads = new ArrayList<>();
        for (String name : names) {
            Thread thread = new Thread(running.remove(name));
            thread.start();
            threads.add(thread);
        }
        threads.forEach(Judge::join);
    }

    /** Run a command of mqadmin as its shell script would, and print its output line by line. */
    static void admin(String[] words) {
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        PrintStream errors = System.err;
        System.setOut(new PrintStream(said, true));
        System.setErr(System.out);
        try {
            MQAdminStartup.main0(words, null);
        } finally {
            System.setOut(OUT);
            System.setErr(errors);
        }
        for (String line : said.toString(StandardCharsets.UTF_8).split("\n")) {
            OUT.println("out\t" + line);
        }
    }

    // --- sending ----------------------------------------------------------------------------

    static void send(String kind, String topic, String prefix, int count) throws Exception {
        switch (kind) {
            case "plain": plain(topic, prefix, count); break;
            case "batch": batch(topic, prefix, count); break;
            case "ordered": ordered(topic, prefix, count); break;
            case "oneway": oneway(topic, prefix, count); break;
            case "async": async(topic, prefix, count); break;
            case "delayed": delayed(topic, prefix, count); break;
            default: throw new IllegalArgumentException(kind);
        }
    }

    static Message message(String topic, String body) {
        return new Message(topic, "tag", body, body.getBytes(StandardCharsets.UTF_8));
    }

    static void plain(String topic, String prefix, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            report(producer.send(message(topic, prefix + i)), prefix + i);
        }
    }

    static void batch(String topic, String prefix, int count) throws Exception {
        List<Message> batch = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            batch.add(message(topic, prefix + i));
        }
        report(producer.send(batch), prefix);
    }

    /** Messages of one key go to one queue. */
    static void ordered(String topic, String prefix, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            String body = prefix + i;
            report(producer.send(message(topic, body),
                (queues, m, key) -> queues.get((int) key % queues.size()), i % 7), body);
        }
    }

    static void oneway(String topic, String prefix, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            producer.sendOneway(message(topic, prefix + i));
        }
    }

    static void async(String topic, String prefix, int count) throws Exception {
        CountDownLatch answered = new CountDownLatch(count);
        for (int i = 0; i < count; i++) {
            String body = prefix + i;
            producer.send(message(topic, body), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    report(result, body);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable e) {
                    print("failed", e);
                    answered.countDown();
                }
            });
        }
        answered.await();
    }

    static void delayed(String topic, String prefix, int count) throws Exception {
        for (int i = 0; i < count; i++) {
            Message m = message(topic, prefix + i);
            m.setDelayTimeLevel(i + 1);
            report(producer.send(m), prefix + i);
        }
    }

    /**
     * Send until stopped, each message again and again until it is acknowledged. Every tenth is one
     * that fails once.
     */
    static void stream(String name, String topic, String prefix) {
        AtomicBoolean stopped = new AtomicBoolean(); // clients swallow interrupts
        Thread thread = new Thread(() -> {
            int keys = 4;
            for (int i = 0; !stopped.get(); i++) {
                String body = prefix + i + (i % 10 == 7 ? "!1" : "");
                int key = i % keys;
                boolean sent = false;
                while (!sent && !stopped.get()) {
                    try {
                        SendResult r = producer.send(message(topic, body),
                            (queues, m, k) -> queues.get((int) k % queues.size()), key);
                        sent = r.getSendStatus() == SendStatus.SEND_OK;
                        print(sent ? "sent" : "again", body, r.getSendStatus());
                    } catch (Exception e) {
                        print("again", body, e.getClass().getSimpleName());
                    }
                    pause(sent ? 10 : 100);
                }
            }
        });
        thread.start();
        running.put(name, () -> {
            stopped.set(true);
            join(thread);
        });
    }

    static void pause(int ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static void join(Thread thread) {
        try {
            thread.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    static void report(SendResult r, String body) {
        print("sent", body, r.getSendStatus(), r.getMsgId(), r.getOffsetMsgId(),
            r.getMessageQueue().getQueueId(), r.getQueueOffset());
    }

    // --- transactions -----------------------------------------------------------------------

    static final Map<String, TransactionMQProducer> traders = new ConcurrentHashMap<>();

    /** Start a producer of transactions. */
    static void trade(String name, String group) throws Exception {
        TransactionMQProducer trader = new TransactionMQProducer(group);
        trader.setNamesrvAddr(namesrv);
        trader.setPollNameServerInterval(QUICK_MS);
        trader.setHeartbeatBrokerInterval(QUICK_MS);
        trader.setRetryTimesWhenSendFailed(0);
        trader.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message m, Object plan) {
                return state((String) plan, 0);
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt m) {
                String body = new String(m.getBody(), StandardCharsets.UTF_8);
                int times = Integer.parseInt(m.getUserProperty("TRANSACTION_CHECK_TIMES"));
                LocalTransactionState state =
                    state(body.substring(body.indexOf('?') + 1), times);
                print("asked", name, body, times, m.getTopic(), m.getQueueId(),
                    m.getTransactionId(), state);
                return state;
            }
        });
        trader.start();
        traders.put(name, trader);
        running.put(name, () -> traders.remove(name).shutdown());
    }

    /** What is decided at first (0) and each time it is asked about: one letter each. */
    static LocalTransactionState state(String plan, int times) {
        switch (plan.charAt(Math.min(times, plan.length() - 1))) {
            case 'c': return LocalTransactionState.COMMIT_MESSAGE;
            case 'r': return LocalTransactionState.ROLLBACK_MESSAGE;
            default: return LocalTransactionState.UNKNOW;
        }
    }

    static void transact(String name, String topic, String prefix, String plan, int count)
        throws Exception {
        for (int i = 0; i < count; i++) {
            String body = prefix + i + "?" + plan;
            TransactionSendResult r =
                traders.get(name).sendMessageInTransaction(message(topic, body), plan);
            report(r, body);
            print("local", body, r.getLocalTransactionState());
        }
    }

    // --- consuming --------------------------------------------------------------------------

    /** How often a body is to fail. */
    static int failures(MessageExt m) {
        String body = new String(m.getBody(), StandardCharsets.UTF_8);
        int at = body.indexOf('!');
        return at < 0 ? 0 : Integer.parseInt(body.substring(at + 1).replaceAll("-.*", ""));
    }

    static void push(String name, String mode, String group, String topic, int triesMax)
        throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(QUICK_MS);
        consumer.setHeartbeatBrokerInterval(QUICK_MS);
        consumer.setPersistConsumerOffsetInterval(QUICK_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setMaxReconsumeTimes(triesMax);
        consumer.setConsumeThreadMin(4);
        consumer.setConsumeThreadMax(4);
        consumer.setSuspendCurrentQueueTimeMillis(100);
        consumer.subscribe(topic, "*");
        if (mode.equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                boolean fails = false;
                for (MessageExt m : messages) {
                    print(name, m);
                    fails |= m.getReconsumeTimes() < failures(m);
                }
                return fails ? ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
                    : ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                boolean fails = false;
                for (MessageExt m : messages) {
                    print(name, m);
                    fails |= m.getReconsumeTimes() < failures(m);
                }
                return fails ? ConsumeConcurrentlyStatus.RECONSUME_LATER
                    : ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        running.put(name, consumer::shutdown);
        findRetryTopic(consumer.getDefaultMQPushConsumerImpl(), MixAll.getRetryTopic(group));
    }

    /**
     * A group's first consumer asks for the route of its retry topic before its heartbeat has made
     * that topic, and asks again after 30 s; then it looks for queues every 20 s. Do both now.
     */
    static void findRetryTopic(DefaultMQPushConsumerImpl consumer, String topic) {
        MQClientInstance client = consumer.getmQClientFactory();
        Map<String, ?> known = consumer.getRebalanceImpl().getTopicSubscribeInfoTable();
        while (!known.containsKey(topic)) {
            client.updateTopicRouteInfoFromNameServer(topic);
            pause(20);
        }
        client.rebalanceImmediately();
    }

    /** Read every queue to its end, with the old consumer that leaves everything to its user. */
    @SuppressWarnings("deprecation")
    static void pull(String name, String group, String topic) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.start();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long offset = 0;
            PullResult found = consumer.pull(queue, "*", offset, 32);
            while (found.getPullStatus() == PullStatus.FOUND) {
                found.getMsgFoundList().forEach(m -> print(name, m));
                offset = found.getNextBeginOffset();
                consumer.updateConsumeOffset(queue, offset);
                found = consumer.pull(queue, "*", offset, 32);
            }
        }
        consumer.shutdown();
    }

    static final Map<String, DefaultMQPullConsumer> readers = new ConcurrentHashMap<>();
    static volatile String answeredBy; // the last pull of a reader: they share connections

    /** Pull once, and say who answered what; a reader, and what it remembers, is kept by its name. */
    @SuppressWarnings("deprecation")
    static void read(String name, MessageQueue queue, long offset) throws Exception {
        DefaultMQPullConsumer reader = readers.get(name);
        if (reader == null) {
            reader = new DefaultMQPullConsumer(name, new RPCHook() {
                @Override
                public void doBeforeRequest(String address, RemotingCommand request) {
                }

                @Override
                public void doAfterResponse(
                    String address, RemotingCommand request, RemotingCommand response) {
                    if (request.getCode() == RequestCode.PULL_MESSAGE) {
                        answeredBy = address;
                    }
                }
            });
            reader.setNamesrvAddr(namesrv);
            reader.setPollNameServerInterval(QUICK_MS);
            reader.setInstanceName("readers"); // they share routes as well
            reader.start();
            readers.put(name, reader);
            running.put(name, reader::shutdown);
        }
        try {
            PullResult found = reader.pull(queue, "*", offset, 32, QUICK_MS);
            List<String> bodies = new ArrayList<>();
            if (found.getPullStatus() == PullStatus.FOUND) {
                found.getMsgFoundList().forEach(
                    m -> bodies.add(new String(m.getBody(), StandardCharsets.UTF_8)));
            }
            print("read", name, answeredBy, 0, found.getNextBeginOffset(),
                String.join(",", bodies));
        } catch (MQBrokerException e) {
            print("read", name, answeredBy, e.getResponseCode(), offset, "");
        } catch (RemotingConnectException e) {
            print("read", name, e.getMessage().replaceAll(".*?([0-9.]+:[0-9]+).*", "$1"), -1,
                offset, "");
        }
    }

    /** Consume by pulling, in a thread of its own until stopped. */
    static void poll(String name, String group, String topic) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(QUICK_MS);
        consumer.setHeartbeatBrokerInterval(QUICK_MS);
        consumer.setAutoCommitIntervalMillis(QUICK_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        consumer.start();
        AtomicBoolean stopped = new AtomicBoolean();
        Thread thread = new Thread(() -> {
            while (!stopped.get()) {
                consumer.poll(POLL_MS).forEach(m -> print(name, m));
            }
        });
        thread.start();
        running.put(name, () -> {
            stopped.set(true);
            join(thread);
            consumer.shutdown();
        });
    }

    static void print(String name, MessageExt m) {
        print("got", name, new String(m.getBody(), StandardCharsets.UTF_8), m.getReconsumeTimes(),
            m.getTopic(), m.getQueueId(), m.getQueueOffset(), m.getMsgId(),
            ((MessageClientExt) m).getOffsetMsgId());
    }

    static void print(Object... fields) {
        List<String> text = new ArrayList<>();
        for (Object field : fields) {
            text.add(String.valueOf(field));
        }
        OUT.println(String.join("\t", text));
    }
}
