"""
The server, the namespace and the queues of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.spark.connections import Server, server
from rsmq.spark.options import connection_options
from rsmq.wire.keys import DEFAULT_NS


@dataclass(frozen=True, slots=True)
class Queues:
    """
    The queues of a namespace on a Redis server.

    Attributes:
        url: ``redis://``, ``rediss://`` or ``unix://``, without a password.
        ns: the namespace.
        password_env: the environment variable that holds the password.
        password_file: the file that holds it.
        strict_names: False also reaches queues whose names Node would refuse.
    """

    url: str = "redis://127.0.0.1:6379/0"
    ns: str = DEFAULT_NS
    password_env: str | None = None
    password_file: str | None = None
    strict_names: bool = True

    def options(self, **more: Any) -> dict[str, str]:
        """As options of ``format("rsmq")``, with others."""
        options = {
            "url": self.url,
            "ns": self.ns,
            "passwordEnv": self.password_env,
            "passwordFile": self.password_file,
            "strictNames": str(self.strict_names).lower(),
            **more,
        }
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in options.items()
            if value is not None
        }

    def reach(self) -> None:
        """
        See that the server answers, without waiting for one that does not.

        Raises:
            InvalidOption: something is not what it must be.
            RedisError: it does not answer.
        """
        connection = self.server().once()
        try:
            connection.connect()
        finally:
            connection.disconnect()

    def server(self) -> Server:
        """
        The server, for the driver.

        Raises:
            InvalidOption: something is not what it must be.
        """
        return server(connection_options(self.options()))


def subscribed(queues: str | Sequence[str]) -> str:
    """One queue's name or several, as the option ``subscribe`` has them."""
    return queues if isinstance(queues, str) else ",".join(queues)
