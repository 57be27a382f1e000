"""
Random delays around calls to Redis, and before a worker notes what it has written, in every Python
process of ``scripts/test --busy``.

Python imports this file when it starts, because that command adds the folder to PYTHONPATH. So
programs that tests start have the delays too, and the library knows nothing of them.
``RSMQ_TEST_DELAYS`` is the seed.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from importlib.machinery import PathFinder
from time import sleep

#: The methods that wait before they begin, by module and class.
_SLOWED = {
    "redis.connection": {"AbstractConnection": ("send_packed_command", "read_response")},
    "redis.asyncio.connection": {"AbstractConnection": ("send_packed_command", "read_response")},
    "rsmq.transport.asyncio_.multiplexed": {
        "MultiplexedConnection": ("send",),
        "Request": ("wait",),
    },
    "rsmq.transport.socket": {"SocketConnection": ("send_packed_command", "read_response")},
    "rsmq.worker.settle.settler": {"Settler": ("_finish_leases", "_finish_retry_or_drop")},
}

_chance = random.Random(os.environ["RSMQ_TEST_DELAYS"])


def _delay_seconds():
    # One call in eight waits, so that a test of thousands of calls still ends.
    return max(_chance.uniform(-0.028, 0.004), 0)


def _slow(function):
    import asyncio

    @functools.wraps(function)
    def slowed(*arguments, **options):
        sleep(_delay_seconds())
        return function(*arguments, **options)

    @functools.wraps(function)
    async def slowed_coroutine(*arguments, **options):
        await asyncio.sleep(_delay_seconds())
        return await function(*arguments, **options)

    # A coroutine of redis-py closes its connection if it is cancelled, but only after its begin.
    return slowed_coroutine if function.__qualname__ == "Request.wait" else slowed


class _Finder:
    """Finds the modules of ``_SLOWED``, and replaces their methods after the import."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _SLOWED:
            return None
        spec = PathFinder.find_spec(name, path, target)
        execute = spec.loader.exec_module

        def execute_and_slow(module):
            execute(module)
            for class_name, methods in _SLOWED[name].items():
                slowed = getattr(module, class_name, None)
                for method in methods if slowed else ():  # redis-py of other programs may be older
                    setattr(slowed, method, _slow(getattr(slowed, method)))

        spec.loader.exec_module = execute_and_slow
        return spec


sys.meta_path.insert(0, _Finder)
