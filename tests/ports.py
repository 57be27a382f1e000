"""Ports of loopback for the servers of tests."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

#: The cluster bus listens on the port of the node plus this number.
BUS_OFFSET = 10_000

#: Not the generator that tests seed: tests that run at the same time need different ports.
_chance = random.SystemRandom()

#: Byte N of this file is locked by the process of tests that uses port N, until it ends.
_PORTS = Path(tempfile.gettempdir()) / "rsmq-test-ports"
_ports_in_use: set[int] = set()
_port_locks: list[int] = []


def reserve_port(port: int) -> bool:
    """Return whether no other test on this machine has this port, which then is of this process."""
    if port in _ports_in_use:
        return False
    if not _port_locks:
        _port_locks.append(os.open(_PORTS, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    try:
        fcntl.lockf(_port_locks[0], fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _ports_in_use.add(port)
    return True


def free_port() -> int:
    """
    Return an unused port whose cluster bus port is unused, too.

    No other test on this machine gets it: two servers of one port would be one, of which each test
    deletes the keys of the other. Both are below the ports that systems give to outgoing
    connections, from 32768. So no connection of another test takes one of them before a server
    listens.
    """
    while True:
        port = _chance.randrange(10_000, 10_000 + BUS_OFFSET)
        if not reserve_port(port):
            continue
        with socket.socket() as probe, socket.socket() as bus_probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            bus_probe.bind(("127.0.0.1", port + BUS_OFFSET))
            return port
