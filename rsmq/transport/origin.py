"""
The origin of a client's connections, for another client of the same server.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rsmq.transport.topology.group import ServerGroup, ServerPool


@dataclass(frozen=True, slots=True)
class Origin:
    """
    How a client reaches its server. Its repr shows no URL, because that may have a password.

    Attributes:
        servers: the servers, and how to connect to them.
        retry_deadline: seconds for retries.
        url: the URL that ``from_url`` was called with; None if a client of redis-py was passed.
    """

    servers: ServerPool | ServerGroup = field(repr=False)
    retry_deadline: float
    url: str | None = field(repr=False, default=None)

    @property
    def place(self) -> object:
        """The address of the servers, which clients of the same servers usually have in common."""
        if isinstance(self.servers, ServerGroup):
            return self.servers.seeds, self.servers.service
        options = self.servers.connection_kwargs
        embedded = options.get("server")  # that of memory://
        if embedded is not None:
            return id(embedded)
        return tuple(options.get(name) for name in ("host", "port", "path", "db"))
