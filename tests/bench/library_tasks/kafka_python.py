"""The same ten tasks with kafka-python 3.0.12. Usage: python kafka_python.py HOST:PORT

The admin client has no call for quotas; its messages are sent through a private attribute.
"""

import sys
import time

from kafka import KafkaAdminClient
from kafka.protocol.admin import AlterClientQuotasRequest, DescribeClientQuotasRequest

EXACT, DEFAULT = 0, 1

# 1 connect: there is no reader of client.properties; each setting is an argument
admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])


def send(request):
    async def work():
        return await admin._manager.send(request)

    return admin._manager.run(work)


def alter(entities, ops, *, validate_only=False):
    entry_type = AlterClientQuotasRequest.EntryData
    entries = [
        entry_type(
            entity=[
                entry_type.EntityData(entity_type=kind, entity_name=name) for kind, name in parts
            ],
            ops=[
                entry_type.OpData(key=key, value=value or 0.0, remove=value is None)
                for key, value in ops
            ],
        )
        for parts in entities
    ]
    return send(AlterClientQuotasRequest(entries=entries, validate_only=validate_only)).entries


def describe(components=(), *, strict=False):
    component_type = DescribeClientQuotasRequest.ComponentData
    answer = send(
        DescribeClientQuotasRequest(
            components=[
                component_type(entity_type=kind, match_type=how, match=name)
                for kind, how, name in components
            ],
            strict=strict,
        )
    )
    if answer.error_code:
        raise RuntimeError(answer.error_message)
    return answer.entries


alice = (("user", "alice"),)
# 2 set two quotas of a user
[answer] = alter([alice], [("producer_byte_rate", 1e6), ("consumer_byte_rate", 2e6)])
assert answer.error_code == 0, answer.error_message
# 3 set a quota of the default user
alter([(("user", None),)], [("producer_byte_rate", 5e5)])
# 4 wait until every broker shows it: only the responding broker can be asked
while not describe([("user", EXACT, "alice")], strict=True):
    time.sleep(0.1)
# 5 read every quota
print(len(describe()), "entities have quotas")
# 6 read only the quotas of one entity
[entry] = describe([("user", EXACT, "alice")], strict=True)
print({value.key: value.value for value in entry.values})
# 7 ask the controller whether it would accept a value, and why not
print(alter([alice], [("producer_byte_rate", 0.5)], validate_only=True)[0].error_message)
# 8 which limit applies to a client, and what it overrides
print("no API: the eight levels of precedence would be written here")
# 9 remove a quota
alter([alice], [("consumer_byte_rate", None)])
# 10 change 10,000 entities: the caller handles chunks and lost responses
answers = [
    answer
    for start in range(0, 10_000, 1000)
    for answer in alter(
        [(("user", f"user-{n}"),) for n in range(start, start + 1000)],
        [("producer_byte_rate", 1e6)],
    )
]
print(sum(answer.error_code == 0 for answer in answers), "of", len(answers), "applied")
admin.close()
