"""The work of a server, in commands."""

from __future__ import annotations


def count_commands(server, call):
    """Return how often each command is run by a call, also inside of its script."""
    with server.raw() as raw:
        raw.config_resetstat()
        call()
        stats = raw.info("commandstats")
    return {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
