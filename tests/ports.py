"""Ports for servers that have to be told theirs before they start."""

import random
import socket

_LOWEST = 10_240
_CONNECTIONS = 32_768
"""Where the ports begin that systems give to connections."""
_GRPC = 10_000
"""How far above its port SeaweedFS takes another one, for gRPC."""
_TRIES = 1000


def free_ports(count: int) -> list[int]:
    """Find ports that are free, with the port for gRPC above each.

    They lie below those that a system gives to connections: one of another test that begins before
    the server does would take its port away.
    """
    found: list[int] = []
    chosen = random.Random()  # Not the seed of the tests: two workers must not choose alike.
    for _ in range(_TRIES):
        port = chosen.randrange(_LOWEST, _CONNECTIONS - _GRPC)
        if port not in found and _is_free(port) and _is_free(port + _GRPC):
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError("there are no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
