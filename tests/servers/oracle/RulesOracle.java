// Kafka's own validation and filters without a broker, a JSON line for a JSON line. It stands in the
// controller's package because the class that validates is made for its neighbours only.

package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.message.AlterClientQuotasRequestData;
import org.apache.kafka.common.message.DescribeClientQuotasRequestData;
import org.apache.kafka.common.message.DescribeClientQuotasResponseData;
import org.apache.kafka.common.metadata.ClientQuotaRecord;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.requests.AlterClientQuotasRequest;
import org.apache.kafka.common.requests.ApiError;
import org.apache.kafka.image.ClientQuotasDelta;
import org.apache.kafka.image.ClientQuotasImage;
import org.apache.kafka.server.common.ApiMessageAndVersion;

public final class RulesOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ClientQuotaControlManager controller;
    private ClientQuotasImage image;

    private RulesOracle() throws Exception {
        reset();
    }

    public static void main(String[] arguments) throws Exception {
        RulesOracle oracle = new RulesOracle();
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                oracle.answer(JSON.readTree(line), answer);
            } catch (Exception failure) {
                answer.removeAll().put("failure", failure.toString());
            }
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private void answer(JsonNode question, ObjectNode answer) throws Exception {
        switch (question.get("ask").asText()) {
            case "reset" -> reset();
            case "load" -> load(question);
            case "alter" -> alter(question, answer);
            case "describe" -> describe(question, answer);
            default -> throw new IllegalArgumentException("ask reset, load, alter or describe");
        }
    }

    private void reset() throws Exception {
        controller = newController();
        image = ClientQuotasImage.EMPTY;
    }

    // From 3.9 there is a builder; before, a constructor. Both are out of reach for a compiler that
    // must accept all versions.
    private static ClientQuotaControlManager newController() throws Exception {
        Class<?> owner = ClientQuotaControlManager.class;
        for (Class<?> nested : owner.getDeclaredClasses()) {
            if (nested.getSimpleName().equals("Builder")) {
                Constructor<?> make = nested.getDeclaredConstructor();
                make.setAccessible(true);
                Method build = nested.getDeclaredMethod("build");
                build.setAccessible(true);
                return (ClientQuotaControlManager) build.invoke(make.newInstance());
            }
        }
        Object log = Class.forName("org.apache.kafka.common.utils.LogContext")
            .getConstructor().newInstance();
        Class<?> registry = Class.forName("org.apache.kafka.timeline.SnapshotRegistry");
        Constructor<?> make = owner.getDeclaredConstructor(registry);
        make.setAccessible(true);
        return (ClientQuotaControlManager) make.newInstance(
            registry.getConstructor(log.getClass()).newInstance(log));
    }

    // Quotas as if they had come from the metadata log, which is not validated.
    private void load(JsonNode question) {
        ClientQuotasDelta delta = new ClientQuotasDelta(image);
        for (JsonNode quota : question.get("quotas")) {
            ClientQuotaRecord record = new ClientQuotaRecord()
                .setKey(quota.get("key").asText())
                .setValue(number(quota.get("value")));
            for (JsonNode part : quota.get("entity")) {
                record.entity().add(new ClientQuotaRecord.EntityData()
                    .setEntityType(part.get(0).asText()).setEntityName(text(part.get(1))));
            }
            controller.replay(record);
            delta.replay(record);
        }
        image = delta.apply();
    }

    private void alter(JsonNode question, ObjectNode answer) {
        AlterClientQuotasRequestData request = new AlterClientQuotasRequestData();
        for (JsonNode entry : question.get("entries")) {
            AlterClientQuotasRequestData.EntryData made = new AlterClientQuotasRequestData.EntryData();
            for (JsonNode part : entry.get("entity")) {
                made.entity().add(new AlterClientQuotasRequestData.EntityData()
                    .setEntityType(part.get(0).asText()).setEntityName(text(part.get(1))));
            }
            for (JsonNode operation : entry.get("ops")) {
                boolean remove = operation.get(1).isNull();
                made.ops().add(new AlterClientQuotasRequestData.OpData()
                    .setKey(operation.get(0).asText())
                    .setValue(remove ? 0.0 : number(operation.get(1))).setRemove(remove));
            }
            request.entries().add(made);
        }
        ControllerResult<Map<ClientQuotaEntity, ApiError>> result;
        try {
            result = controller.alterClientQuotas(
                new AlterClientQuotasRequest(request, (short) 1).entries());
        } catch (RuntimeException refused) {
            answer.put("exception", refused.getClass().getSimpleName())
                .put("message", refused.getMessage());
            return;
        }
        ArrayNode results = answer.putArray("results");
        result.response().forEach((entity, error) -> {
            ObjectNode one = results.addObject();
            one.put("code", error.error().code()).put("message", error.message());
            ArrayNode parts = one.putArray("entity");
            entity.entries().forEach((type, name) -> parts.addArray().add(type).add(name));
        });
        answer.put("records", result.records().size());
        if (!question.path("validateOnly").asBoolean()) {
            commit(result.records());
        }
    }

    private void commit(List<ApiMessageAndVersion> records) {
        ClientQuotasDelta delta = new ClientQuotasDelta(image);
        for (ApiMessageAndVersion record : records) {
            controller.replay((ClientQuotaRecord) record.message());
            delta.replay((ClientQuotaRecord) record.message());
        }
        image = delta.apply();
    }

    private void describe(JsonNode question, ObjectNode answer) {
        DescribeClientQuotasRequestData request = new DescribeClientQuotasRequestData()
            .setStrict(question.get("strict").asBoolean());
        for (JsonNode component : question.get("components")) {
            request.components().add(new DescribeClientQuotasRequestData.ComponentData()
                .setEntityType(component.get(0).asText())
                .setMatchType((byte) component.get(1).asInt())
                .setMatch(text(component.get(2))));
        }
        ArrayNode entries = answer.putArray("entries");
        try {
            for (DescribeClientQuotasResponseData.EntryData entry : image.describe(request).entries()) {
                ObjectNode one = entries.addObject();
                ArrayNode parts = one.putArray("entity");
                entry.entity().forEach(
                    part -> parts.addArray().add(part.entityType()).add(part.entityName()));
                ObjectNode values = one.putObject("values");
                entry.values().forEach(value -> put(values, value.key(), value.value()));
            }
            answer.put("code", 0).putNull("message");
        } catch (RuntimeException refused) {
            entries.removeAll();
            answer.put("code", Errors.forException(refused).code())
                .put("message", refused.getMessage());
        }
    }

    // JSON has no NaN and no infinities: they travel as strings, both ways.
    private static double number(JsonNode node) {
        return node.isTextual() ? Double.parseDouble(node.asText()) : node.asDouble();
    }

    private static void put(ObjectNode values, String key, double value) {
        if (Double.isFinite(value)) {
            values.put(key, value);
        } else {
            values.put(key, Double.toString(value));
        }
    }

    private static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }
}
