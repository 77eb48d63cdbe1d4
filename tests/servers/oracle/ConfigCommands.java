// Runs Kafka's kafka-configs once for each JSON line, {"arguments": [...]}, and answers with its exit code and with
// what it printed to each stream: a JVM for all commands, each with a connection of its own.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.utils.Exit;

public final class ConfigCommands {
    private static final ObjectMapper JSON = new ObjectMapper();

    private ConfigCommands() {
    }

    private static final class Exited extends Error {
        private final int code;

        private Exited(int code) {
            this.code = code;
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream errors = new ByteArrayOutputStream();
        // Scala's Console keeps the stream that it finds first.
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(errors, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> {
            throw new Exited(code);
        });
        BufferedReader questions =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = questions.readLine(); line != null; line = questions.readLine()) {
            List<String> words = new ArrayList<>();
            for (JsonNode word : JSON.readTree(line).get("arguments")) {
                words.add(word.asText());
            }
            out.reset();
            errors.reset();
            ObjectNode answer = JSON.createObjectNode();
            answer.put("code", run(words.toArray(new String[0])));
            answer.put("out", out.toString(StandardCharsets.UTF_8));
            answer.put("errors", errors.toString(StandardCharsets.UTF_8));
            answers.println(JSON.writeValueAsString(answer));
        }
    }

    private static int run(String[] words) {
        try {
            kafka.admin.ConfigCommand.main(words);
            return 0;
        } catch (Exited exited) {
            return exited.code;
        }
    }
}
