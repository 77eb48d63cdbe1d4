"""An example of the network client: describe the cluster, change two quotas, read them, resolve a client, clean up.

kquota sandbox                                         # in one terminal; it prints bootstrap.servers
python examples/client_library.py 127.0.0.1:PORT       # in another
python examples/client_library.py --config client.properties
"""

import argparse
import asyncio
import sys

from reconciler.kafka import (
    ANYTHING,
    DEFAULT,
    Alteration,
    Applied,
    ClientConfig,
    ClientEvents,
    KquotaError,
    Principal,
    QuotaClient,
    QuotaValueError,
    entity,
)

ALICE = entity(user="example-alice")
ANYBODY_ON_APP = entity(user=DEFAULT, client_id="example-app")
CHANGES = [
    Alteration(ALICE, (("producer_byte_rate", 10_485_760.0), ("request_percentage", 50.0))),
    Alteration(ANYBODY_ON_APP, (("producer_byte_rate", 1_048_576.0),)),
]
REMOVALS = [
    Alteration(change.entity, tuple((key, None) for key, _ in change.operations))
    for change in CHANGES
]


async def run(config: ClientConfig) -> None:
    """Run all steps in order."""
    events = ClientEvents(
        retry=lambda retry: print(f"trying again: {retry.reason}", file=sys.stderr)
    )
    async with QuotaClient(config, events=events) as client:
        cluster = await client.cluster()
        print(f"cluster {cluster.id}, Kafka {cluster.version_hint}, {len(cluster.nodes)} broker(s)")
        if not cluster.may_alter:
            print("this principal may not change quotas, so the rest is left out")
            return

        verdicts = await client.alter(CHANGES, validate_only=True)
        print(
            "the controller would accept",
            sum(verdict == Applied() for verdict in verdicts.values()),
            "of",
            len(CHANGES),
        )

        for subject, result in (await client.alter(CHANGES)).items():
            print(f"{subject}: {result}")
        visibility = await client.wait_visible(CHANGES)
        print("visible on brokers", ", ".join(map(str, visibility.visible)))

        client_of_alice = Principal(user="example-alice", client_id="example-app")
        answer = (await client.resolve([client_of_alice]))[client_of_alice]
        if isinstance(answer, QuotaValueError):
            raise answer
        for one in answer.effective:
            if one.source is not None:
                print(
                    f"{one.key} = {one.value:g} from level {one.level}, overriding {len(one.overridden)}"
                )

        await client.alter(REMOVALS)
        print("gone again:", (await client.wait_visible(REMOVALS)).everywhere)


def main() -> int:
    """Parse the arguments; print an error as one sentence."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("bootstrap", nargs="?", help="host:port,...")
    parser.add_argument("--config", help="a client.properties file of Kafka's tools")
    given = parser.parse_args()
    overrides = {"bootstrap.servers": given.bootstrap} if given.bootstrap else {}
    try:
        if given.config:
            config = ClientConfig.from_properties(
                given.config, overrides=overrides, allowed=ANYTHING
            )
        else:
            config = ClientConfig.from_mapping(overrides)
        for warning in config.warnings:
            print(f"warning: {warning}", file=sys.stderr)
        asyncio.run(run(config))
    except KquotaError as error:
        print(f"error: {error}{f' ({error.hint})' if error.hint else ''}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
