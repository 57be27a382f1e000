"""
The server, the namespace and the queues of a job.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq.spark.connection_options import ConnectionOptions, parse_connection_options
from rsmq.spark.connections import Server, get_server
from rsmq.wire.keys import DEFAULT_NS


@dataclass(frozen=True, slots=True)
class Queues:
    """
    The queues of a namespace on a Redis server, or of a set of cells.

    Attributes:
        url: the URL of the server, without a password. For a set of cells one URL for all cells, or
            one for each cell, with spaces between.
        ns: the namespace, or the name of the set of cells.
        password_env: the environment variable that holds the password, in every process.
        password_file: the file that holds the password, on every machine.
        strict_names: whether names must be valid for the Node client; False allows any name.
        cells: the number of cells; None for one ordinary namespace.
    """

    url: str = "redis://127.0.0.1:6379/0"
    ns: str = DEFAULT_NS
    password_env: str | None = None
    password_file: str | None = None
    strict_names: bool = True
    cells: int | None = None

    def options(self, **more: Any) -> dict[str, str]:
        """
        Return the options of ``format("rsmq")`` for these queues.

        Args:
            more: further options; None leaves one out.
        """
        options = {
            "url": self.url,
            "ns": self.ns,
            "passwordEnv": self.password_env,
            "passwordFile": self.password_file,
            "strictNames": str(self.strict_names).lower(),
            "cells": self.cells,
            **more,
        }
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in options.items()
            if value is not None
        }

    def reach(self) -> None:
        """
        Connect to the server once, without a retry.

        Raises:
            InvalidOption: an option has an invalid value, or the password can't be read.
            RedisError: the server does not answer.
        """
        connection = self.server().make_unretried_connection()
        try:
            connection.connect()
        finally:
            connection.disconnect()

    def connection(self) -> ConnectionOptions:
        """
        Return the options of the connection.

        Raises:
            InvalidOption: an option has an invalid value.
        """
        return parse_connection_options(self.options())

    def server(self) -> Server:
        """
        Return the server, with the connections of this process; of a set of cells that of cell 0.

        Raises:
            InvalidOption: an option has an invalid value, or the password can't be read.
            CellsMismatch: the cell belongs to another set.
            CellFailed: its server can't be reached.
        """
        return get_server(self.connection())


def join_names(queues: str | Sequence[str]) -> str:
    """Return one name or several as the option ``subscribe``: with commas between."""
    return queues if isinstance(queues, str) else ",".join(queues)
