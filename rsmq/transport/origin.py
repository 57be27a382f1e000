"""
The origin of a client's connections, for another client of the same server.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Origin:
    """
    How a client reaches its server. Its repr shows no URL, because that may have a password.

    Attributes:
        url: the URL that ``from_url`` was called with; None if a client of redis-py was passed.
        options: the options of redis-py for the URL.
        client: the client of redis-py that was passed, or that ``memory://`` made; None for others.
        retry_deadline: seconds for retries.
    """

    url: str | None = field(repr=False, default=None)
    options: Mapping[str, Any] = field(repr=False, default_factory=dict)
    client: Any = field(repr=False, default=None)
    retry_deadline: float = 0.0
