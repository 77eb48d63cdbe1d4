// Answers, a JSON line for a JSON line, which limit Kafka's own quota manager gives a caller, and in
// which bucket it counts him. One line may ask many cases; each gets a fresh manager, because a
// manager remembers levels that were once in use (KAFKA-19282).

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
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.Quota;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.network.Session;
import org.apache.kafka.server.config.ClientQuotaManagerConfig;
import org.apache.kafka.server.quota.ClientQuotaEntity.ConfigEntity;
import org.apache.kafka.server.quota.ClientQuotaManager;
import org.apache.kafka.server.quota.QuotaType;

public final class PrecedenceOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private PrecedenceOracle() {
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
                    resolve(one, cases.addArray());
                }
            } catch (Exception failure) {
                answer.removeAll().put("failure", failure.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static void resolve(JsonNode question, ArrayNode answers) throws Exception {
        try (Metrics metrics = new Metrics()) {
            ClientQuotaManager manager = new ClientQuotaManager(
                new ClientQuotaManagerConfig(), metrics, QuotaType.PRODUCE, Time.SYSTEM, "oracle");
            for (JsonNode limit : question.get("limits")) {
                JsonNode entity = limit.get("entity");
                manager.updateQuota(
                    user(entity), client(entity),
                    Optional.of(Quota.upperBound(limit.get("value").asDouble())));
            }
            for (JsonNode caller : question.get("callers")) {
                String client = caller.get("client-id").asText();
                Session session = session(caller.get("user").asText());
                ObjectNode answer = answers.addObject();
                answer.put("limit", manager.quota(session.principal, client).bound());
                ObjectNode tags = answer.putObject("tags");
                manager.getOrCreateQuotaSensors(session, client).metricTags().forEach(tags::put);
            }
            manager.initiateShutdown();
        }
    }

    private static Session session(String user) {
        return new Session(
            new KafkaPrincipal(KafkaPrincipal.USER_TYPE, user), InetAddress.getLoopbackAddress());
    }

    // As ClientQuotaMetadataManager does: users enter sanitized, client ids as they are. The
    // sanitizer itself moved between packages; a session has called it in every version.
    private static Optional<ConfigEntity> user(JsonNode entity) {
        if (!entity.has("user")) {
            return Optional.empty();
        }
        JsonNode name = entity.get("user");
        return Optional.of(name.isNull()
            ? ClientQuotaManager.DEFAULT_USER_ENTITY
            : new ClientQuotaManager.UserEntity(session(name.asText()).sanitizedUser));
    }

    private static Optional<ConfigEntity> client(JsonNode entity) {
        if (!entity.has("client-id")) {
            return Optional.empty();
        }
        JsonNode name = entity.get("client-id");
        return Optional.of(name.isNull()
            ? ClientQuotaManager.DEFAULT_USER_CLIENT_ID
            : new ClientQuotaManager.ClientIdEntity(name.asText()));
    }
}
