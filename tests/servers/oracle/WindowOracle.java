// Answers, a JSON line for a JSON line, how long Kafka's own quota manager delays each of some records of
// one client under one limit, and what its rate reads after each of them. Time is what the question says.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.metrics.MetricConfig;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.metrics.stats.Rate;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

public final class WindowOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private WindowOracle() {
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                ArrayNode cases = answer.putArray("cases");
                for (JsonNode one : JSON.readTree(line).get("cases")) {
                    step(one, cases.addArray());
                }
            } catch (Exception failure) {
                answer.removeAll().put("failure", failure.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static void step(JsonNode question, ArrayNode answers) throws Exception {
        MetricConfig config = new MetricConfig().samples(11).timeWindow(1, TimeUnit.SECONDS);
        Rate rate = new Rate();
        try (Metrics metrics = new Metrics()) {
            ClientQuotaManager manager = new ClientQuotaManager(
                new ClientQuotaManagerConfig(), metrics, QuotaType.PRODUCE, Time.SYSTEM, "windows");
            manager.updateQuota(
                Optional.empty(), Optional.of(ClientQuotaManager.DEFAULT_USER_CLIENT_ID),
                Optional.of(Quota.upperBound(question.get("limit").asDouble())));
            Session session = new Session(
                new KafkaPrincipal(KafkaPrincipal.USER_TYPE, "u"), InetAddress.getLoopbackAddress());
            for (JsonNode record : question.get("records")) {
                long now = record.get(0).asLong();
                double value = record.get(1).asDouble();
                rate.record(config, value, now);
                ObjectNode answer = answers.addObject();
                answer.put("delay",
                    manager.recordAndGetThrottleTimeMs(session, "app", value, now));
                answer.put("rate", rate.measure(config, now));
            }
            manager.initiateShutdown();
        }
    }
}
