"""Ten tasks with reconciler.kafka: python library_tasks.py HOST:PORT."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from reconciler.kafka import (
    DEFAULT,
    Alteration,
    Applied,
    ClientConfig,
    Principal,
    SyncQuotaClient,
    entity,
    exactly,
)

ALICE, DEFAULT_USER = entity(user="alice"), entity(user=DEFAULT)
TWO = Alteration(ALICE, (("producer_byte_rate", 1e6), ("consumer_byte_rate", 2e6)))

with TemporaryDirectory() as folder:
    properties = Path(folder) / "client.properties"
    properties.write_text(f"bootstrap.servers={sys.argv[1]}\nsecurity.protocol=PLAINTEXT\n")
    # 1 connect with a client.properties file of Kafka's tools
    client = SyncQuotaClient(ClientConfig.from_properties(properties))

with client:
    # 2 set two quotas of a user
    print(client.alter([TWO])[ALICE])
    # 3 set a quota of the default user
    client.alter([Alteration(DEFAULT_USER, (("producer_byte_rate", 5e5),))])
    # 4 wait until every broker shows it
    print("visible on every broker:", client.wait_visible([TWO]).everywhere)
    # 5 read every quota
    print(len(client.describe().limits), "entities have quotas")
    # 6 read only the quotas of one entity
    print(client.describe(exactly(ALICE)).limits[ALICE])
    # 7 ask the controller whether it would accept a value, and why not
    half = Alteration(ALICE, (("producer_byte_rate", 0.5),))
    print(client.alter([half], validate_only=True)[ALICE])
    # 8 which limit applies to a client, and what it overrides
    app = Principal(user="alice", client_id="app")
    limit = client.resolve([app])[app].effective[0]
    print(limit.value, limit.source, limit.overridden)
    # 9 remove a quota
    client.alter([Alteration(ALICE, (("consumer_byte_rate", None),))])
    # 10 change 10,000 entities, with one result for each
    many = [
        Alteration(entity(user=f"user-{n}"), (("producer_byte_rate", 1e6),)) for n in range(10_000)
    ]
    results = client.alter(many)
    print(sum(result == Applied() for result in results.values()), "of", len(many), "applied")
