"""The same ten tasks with aiokafka 0.14.0. Usage: python aiokafka_client.py HOST:PORT

It has the message of DescribeClientQuotas in version 0 and none of AlterClientQuotas.
"""

import asyncio
import sys

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import DescribeClientQuotasRequest

EXACT = 0


async def main():
    # 1 connect: there is no reader of client.properties; each setting is an argument
    admin = AIOKafkaAdminClient(bootstrap_servers=sys.argv[1])
    await admin.start()

    async def describe(components=(), *, strict=False):
        answer = await admin._send_request(DescribeClientQuotasRequest(list(components), strict))
        if answer.error_code:
            raise RuntimeError(answer.error_message)
        return answer.entries

    # 2, 3, 4, 7, 9, 10 set, wait, validate, remove, change many
    print("no API: AlterClientQuotas is not in the library")
    # 5 read every quota
    print(len(await describe()), "entities have quotas")
    # 6 read only the quotas of one entity
    print(await describe([("user", EXACT, "alice")], strict=True))
    # 8 which limit applies to a client, and what it overrides
    print("no API: the eight levels of precedence would be written here")
    await admin.close()


asyncio.run(main())
