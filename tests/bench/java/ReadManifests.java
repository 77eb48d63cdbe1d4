// The peer of `kquota plan` and `kquota apply` from YAML: reads a directory with SnakeYAML, describes the cluster, compares,
// and with `apply` validates, applies and verifies what differs. Arguments: plan|apply, bootstrap, directory.
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

public final class ReadManifests {
    static final int KEYS_A_REQUEST = 9_999;
    static final Map<String, String> TYPES = Map.of("user", "user", "clientId", "client-id", "ip", "ip");
    static final Map<String, String> KEYS = Map.of(
        "producerByteRate", "producer_byte_rate",
        "consumerByteRate", "consumer_byte_rate",
        "requestPercentage", "request_percentage",
        "controllerMutationRate", "controller_mutation_rate",
        "connectionCreationRate", "connection_creation_rate");
    static final Map<String, Double> SUFFIXES = Map.of(
        "Ki", 1024.0, "Mi", 1048576.0, "Gi", 1073741824.0, "k", 1e3, "M", 1e6, "G", 1e9);

    static double quantity(Object value) {
        if (value instanceof Number number) return number.doubleValue();
        String text = value.toString();
        for (Map.Entry<String, Double> suffix : SUFFIXES.entrySet())
            if (text.endsWith(suffix.getKey()))
                return Double.parseDouble(text.substring(0, text.length() - suffix.getKey().length())) * suffix.getValue();
        return Double.parseDouble(text);
    }

    @SuppressWarnings("unchecked")
    static void read(Path file, Map<ClientQuotaEntity, Map<String, Double>> wanted) throws Exception {
        LoaderOptions options = new LoaderOptions();
        options.setCodePointLimit(1 << 30);
        options.setAllowDuplicateKeys(false);
        try (Reader reader = Files.newBufferedReader(file)) {
            for (Object loaded : new Yaml(new SafeConstructor(options)).loadAll(reader)) {
                Map<String, Object> spec = (Map<String, Object>) ((Map<String, Object>) loaded).get("spec");
                Map<String, String> parts = new HashMap<>();
                for (Map.Entry<String, Object> slot : ((Map<String, Object>) spec.get("entity")).entrySet())
                    parts.put(TYPES.get(slot.getKey()), (String) ((Map<String, Object>) slot.getValue()).get("name"));
                Map<String, Double> values = new HashMap<>();
                for (Map.Entry<String, Object> limit : ((Map<String, Object>) spec.get("limits")).entrySet())
                    values.put(KEYS.get(limit.getKey()), quantity(limit.getValue()));
                wanted.put(new ClientQuotaEntity(parts), values);
            }
        }
    }

    static void send(Admin admin, Map<ClientQuotaEntity, Map<String, Double>> changed, boolean validateOnly) throws Exception {
        List<ClientQuotaAlteration> request = new ArrayList<>();
        int keys = 0;
        for (Map.Entry<ClientQuotaEntity, Map<String, Double>> entry : changed.entrySet()) {
            List<ClientQuotaAlteration.Op> ops = new ArrayList<>();
            for (Map.Entry<String, Double> value : entry.getValue().entrySet())
                ops.add(new ClientQuotaAlteration.Op(value.getKey(), value.getValue()));
            if (keys + ops.size() > KEYS_A_REQUEST) {
                admin.alterClientQuotas(request, new AlterClientQuotasOptions().validateOnly(validateOnly)).all().get();
                request.clear();
                keys = 0;
            }
            request.add(new ClientQuotaAlteration(entry.getKey(), ops));
            keys += ops.size();
        }
        if (!request.isEmpty())
            admin.alterClientQuotas(request, new AlterClientQuotasOptions().validateOnly(validateOnly)).all().get();
    }

    static Map<ClientQuotaEntity, Map<String, Double>> differences(
            Map<ClientQuotaEntity, Map<String, Double>> wanted, Map<ClientQuotaEntity, Map<String, Double>> live) {
        Map<ClientQuotaEntity, Map<String, Double>> changed = new HashMap<>();
        for (Map.Entry<ClientQuotaEntity, Map<String, Double>> entry : wanted.entrySet()) {
            Map<String, Double> values = live.getOrDefault(entry.getKey(), Map.of());
            Map<String, Double> set = new HashMap<>();
            for (Map.Entry<String, Double> value : entry.getValue().entrySet())
                if (!value.getValue().equals(values.get(value.getKey()))) set.put(value.getKey(), value.getValue());
            if (!set.isEmpty()) changed.put(entry.getKey(), set);
        }
        return changed;
    }

    public static void main(String[] args) throws Exception {
        Map<ClientQuotaEntity, Map<String, Double>> wanted = new HashMap<>();
        List<Path> files = new ArrayList<>();
        try (Stream<Path> found = Files.walk(Path.of(args[2]))) {
            found.filter(path -> path.toString().endsWith(".yaml")).sorted().forEach(files::add);
        }
        for (Path file : files) read(file, wanted);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[1]))) {
            Map<ClientQuotaEntity, Map<String, Double>> changed =
                differences(wanted, admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
            if (args[0].equals("apply") && !changed.isEmpty()) {
                send(admin, changed, true);
                send(admin, changed, false);
                long deadline = System.nanoTime() + 60_000_000_000L;
                while (!differences(wanted, admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get()).isEmpty()) {
                    if (System.nanoTime() > deadline) throw new IllegalStateException("not visible within 60 s");
                    Thread.sleep(50);
                }
            }
            System.out.println(args[0] + " " + wanted.size() + " differing " + changed.size());
        }
        System.exit(0);
    }
}
