// The peer of `kquota apply plan.json`: validates, applies and verifies a list with Kafka's AdminClient.
// Arguments: bootstrap, file. A line of the file: user TAB client-id TAB key=value TAB key=value ...
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterClientQuotasOptions;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;

public final class ApplyList {
    static final int KEYS_A_REQUEST = 9_999; // the broker's limit is 10,000 records

    static ClientQuotaEntity entity(String user, String client) {
        Map<String, String> parts = new HashMap<>();
        parts.put(ClientQuotaEntity.USER, user);
        parts.put(ClientQuotaEntity.CLIENT_ID, client);
        return new ClientQuotaEntity(parts);
    }

    static void send(Admin admin, Map<ClientQuotaEntity, Map<String, Double>> wanted, boolean validateOnly) throws Exception {
        List<ClientQuotaAlteration> request = new ArrayList<>();
        int keys = 0;
        for (Map.Entry<ClientQuotaEntity, Map<String, Double>> entry : wanted.entrySet()) {
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

    static void verify(Admin admin, Map<ClientQuotaEntity, Map<String, Double>> wanted) throws Exception {
        long deadline = System.nanoTime() + 60_000_000_000L;
        while (true) {
            Map<ClientQuotaEntity, Map<String, Double>> live = admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get();
            boolean same = true;
            for (Map.Entry<ClientQuotaEntity, Map<String, Double>> entry : wanted.entrySet()) {
                Map<String, Double> values = live.get(entry.getKey());
                if (values == null || !values.entrySet().containsAll(entry.getValue().entrySet())) {
                    same = false;
                    break;
                }
            }
            if (same) return;
            if (System.nanoTime() > deadline) throw new IllegalStateException("not visible within 60 s");
            Thread.sleep(50);
        }
    }

    static Map<String, Object> config(String bootstrap) {
        return Map.of("bootstrap.servers", bootstrap);
    }

    public static void main(String[] args) throws Exception {
        Map<ClientQuotaEntity, Map<String, Double>> wanted = new HashMap<>();
        for (String line : Files.readAllLines(Path.of(args[1]))) {
            String[] cells = line.split("\t");
            Map<String, Double> values = new HashMap<>();
            for (int i = 2; i < cells.length; i++) {
                String[] pair = cells[i].split("=");
                values.put(pair[0], Double.parseDouble(pair[1]));
            }
            wanted.put(entity(cells[0], cells[1]), values);
        }
        try (Admin admin = Admin.create(config(args[0]))) {
            send(admin, wanted, true);
            send(admin, wanted, false);
            verify(admin, wanted);
        }
        System.out.println("applied " + wanted.size());
        System.exit(0);
    }
}
