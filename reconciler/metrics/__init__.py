"""What Prometheus and probes are told, and the server that tells them. The only package that imports prometheus_client."""
