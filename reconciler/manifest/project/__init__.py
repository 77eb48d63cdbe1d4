"""kquota.yaml and QuotaCluster documents as values."""
