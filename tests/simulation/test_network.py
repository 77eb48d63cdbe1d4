"""Tests that the network preserves the order of bytes, as TCP does."""

import asyncio
import random

from tests.simulation.network import Network
from tests.simulation.virtual_loop import VirtualLoop


class Receiver(asyncio.Protocol):
    def __init__(self) -> None:
        self.content = b""

    def data_received(self, data: bytes) -> None:
        self.content += data


def test_bytes_of_one_direction_stay_in_order() -> None:
    for seed in range(20):
        chance = random.Random(seed)
        loop = VirtualLoop(chance, lambda _: None)
        network = Network(loop, chance)
        receiver = Receiver()

        async def send(network: Network = network, receiver: Receiver = receiver) -> None:
            network.serve = lambda _, connection: connection.server.begin(receiver)
            connection = await network.connect(("broker", 9093))
            for number in range(100):
                connection.client.write(bytes([number]))
            await asyncio.sleep(60.0)

        try:
            loop.run_until_complete(send())
        finally:
            loop.close()
        assert receiver.content == bytes(range(100))
