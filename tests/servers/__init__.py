"""Real Kafka brokers for tests and for the demo: nothing here is imported by the product.

Kafka comes from Maven artifacts (`jars`), runs as plain Java processes (`processes`, `kafka`) and is
asked with raw bytes or with Kafka's own classes (`ping`, `tools`, `oracle`), so that no test of our
client leans on our client.
"""
