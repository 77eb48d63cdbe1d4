"""The same ten tasks with confluent-kafka 2.16.1. Usage: python confluent_kafka_client.py HOST:PORT"""

import sys

from confluent_kafka.admin import AdminClient

# 1 connect: librdkafka's keys, not those of client.properties
admin = AdminClient({"bootstrap.servers": sys.argv[1]})
# 2 to 10 quotas
assert not [name for name in dir(admin) if "quota" in name.lower()]
print("no API: librdkafka has no request for quotas")
