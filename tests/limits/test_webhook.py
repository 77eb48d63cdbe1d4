"""A flood of admission reviews, with the memory of the operator's pod."""

import asyncio
import contextlib
import ssl
from pathlib import Path

import pytest

from tests.limits.process_limits import assert_bounded, measured
from tests.servers.certs import Authority

SERVE = """
import asyncio, sys
from pathlib import Path
from reconciler.kube.admission.webhook import Certificate, Webhook
from reconciler.metrics import address
async def review(obj):
    return ()
async def main():
    reader, writer = await asyncio.open_connection("127.0.0.1", int(sys.argv[1]))
    certificate = Certificate(chain=Path(sys.argv[2]), key=Path(sys.argv[3]))
    async with Webhook(address("127.0.0.1:0"), certificate, review) as webhook:
        writer.write(f"{webhook.port}\\n".encode())
        await reader.read()
    writer.close()
asyncio.run(main())
"""
ITEMS = b"[" + b"[]," * 299_999 + b"1]"
FLOODS = {
    "bodies that are too large": (80, 4_000_001, b"[" * 4_000_000),
    "bodies that lack a byte": (150, 1_000_000, b"[" * 999_999),
    "bodies of the kind that takes most memory": (150, len(ITEMS), ITEMS),
}
"""Number of concurrent connections, the length that they announce, and the bytes that they send."""
HEAD = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"


async def flood(port: int, context: ssl.SSLContext, length: int, body: bytes) -> bytes:
    """The response to a connection that sends a request and does not end by itself."""
    content = b""
    with contextlib.suppress(OSError):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        with contextlib.suppress(OSError):
            writer.write(HEAD % length)
            writer.write(body)
            await writer.drain()
        with contextlib.suppress(OSError):
            content = await reader.read()
        writer.close()
    return content


@pytest.mark.parametrize("name", FLOODS)
def test_many_connections_with_incomplete_bodies_need_little_memory(
    name: str, tmp_path: Path
) -> None:
    connections, length, body = FLOODS[name]
    authority = Authority.make(tmp_path / "ca")
    server = authority.server("localhost")

    async def run() -> None:
        started: asyncio.Future[tuple[int, asyncio.StreamWriter]] = asyncio.Future()

        async def ready(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            started.set_result((int(await reader.readline()), writer))

        async with await asyncio.start_server(ready, "127.0.0.1", 0) as control:
            port = control.sockets[0].getsockname()[1]
            program = asyncio.create_task(
                measured("python", "-c", SERVE, str(port), str(server.certificate), str(server.key))
            )
            target, writer = await started
            context = authority.client_context()
            answers = await asyncio.gather(
                *(flood(target, context, length, body) for _ in range(connections))
            )
            assert {answer[:12] for answer in answers} <= {
                b"",
                b"HTTP/1.1 400",
                b"HTTP/1.1 408",
                b"HTTP/1.1 413",
                b"HTTP/1.1 503",
            }
            writer.close()
            assert_bounded(await program, exit_code=0)

    asyncio.run(run())
