"""The rules of a Kafka controller and broker, by release line. Pure."""
