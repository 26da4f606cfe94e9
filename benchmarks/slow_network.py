"""A network that takes its time: what a client sends to a server of this machine comes later.

As a program: the port to listen at, the server's port, and the seconds that every request takes.
"""

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.ports import free_ports


@contextmanager
def in_between(server: int, seconds: float) -> Iterator[int]:
    """Put such a network before a server; give the port that leads through it."""
    port = free_ports(1)[0]
    command = [sys.executable, "-m", "benchmarks.slow_network", str(port), str(server)]
    # A process of its own: it must not wait for the interpreter of those who are measured.
    process = subprocess.Popen([*command, str(seconds)], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield port
    finally:
        process.kill()
        process.wait()


async def _listen(port: int, server: int, seconds: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_connection("127.0.0.1", server)
        await asyncio.gather(_pass(reader, requests, seconds), _pass(answers, writer, 0))

    listening = await asyncio.start_server(connected, "127.0.0.1", port)
    print("ready", flush=True)
    await listening.serve_forever()


async def _pass(source: asyncio.StreamReader, target: asyncio.StreamWriter, seconds: float) -> None:
    """Pass bytes on, each so much later; those that follow do not wait for those before them."""
    loop = asyncio.get_running_loop()
    on_the_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def arrive() -> None:
        while True:
            at, content = await on_the_way.get()
            await asyncio.sleep(max(at - loop.time(), 0))
            if not content:
                target.close()
                return
            target.write(content)

    arriving = asyncio.create_task(arrive())
    content = b"begin"
    while content:
        content = b""
        with contextlib.suppress(ConnectionError):
            content = await source.read(1 << 16)
        on_the_way.put_nowait((loop.time() + seconds, content))
    await arriving


if __name__ == "__main__":
    _port, _server, _seconds = sys.argv[1:]
    asyncio.run(_listen(int(_port), int(_server), float(_seconds)))
