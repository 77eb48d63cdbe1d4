// A custom quota callback for tests: every user counts in one bucket and may have what he wants.
// Quotas can be altered and described as always, and enforce nothing.

import java.util.Map;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.server.quota.ClientQuotaCallback;
import org.apache.kafka.server.quota.ClientQuotaEntity;
import org.apache.kafka.server.quota.ClientQuotaType;

public final class EqualShares implements ClientQuotaCallback {
    @Override
    public Map<String, String> quotaMetricTags(
        ClientQuotaType type, KafkaPrincipal principal, String clientId) {
        return Map.of("everyone", "");
    }

    @Override
    public Double quotaLimit(ClientQuotaType type, Map<String, String> tags) {
        return (double) Long.MAX_VALUE;
    }

    @Override
    public void updateQuota(ClientQuotaType type, ClientQuotaEntity entity, double value) {
    }

    @Override
    public void removeQuota(ClientQuotaType type, ClientQuotaEntity entity) {
    }

    @Override
    public boolean quotaResetRequired(ClientQuotaType type) {
        return false;
    }

    public boolean updateClusterMetadata(Cluster cluster) {
        return false;
    }

    @Override
    public void close() {
    }

    @Override
    public void configure(Map<String, ?> configs) {
    }
}
