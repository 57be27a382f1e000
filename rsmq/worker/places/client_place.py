"""
A client in another place than that of a worker's own: for ``rsmq-worker`` and child processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rsmq._sync.cells import Cells
from rsmq._sync.client import RSMQ
from rsmq.wire.cells import name_of_set


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """
    The servers and the namespace of a client.

    Attributes:
        urls: the URL, or the URLs of cells. They may contain passwords.
        ns: the namespace, or the name of the set of cells.
        cells: the number of cells; None for one namespace.
    """

    urls: Sequence[str]
    ns: str
    cells: int | None = None


def clients_of(client: RSMQ[Any] | Cells) -> Sequence[RSMQ[Any]]:
    """Return the clients of all cells, or the only client."""
    return client.cells if isinstance(client, Cells) else (client,)


def place_of(client: RSMQ[Any] | Cells) -> tuple[str, int | None]:
    """Return the namespace of a client, or the name of its set, and its number of cells."""
    if isinstance(client, Cells):
        return name_of_set(client.cells[0].namespace.name), len(client.cells)
    return client.namespace.name, None


def open_client(place: ClientPlace, own: RSMQ[Any] | Cells) -> RSMQ[Any] | Cells:
    """
    Return a client of a place, with the codec and the rule for names of another client.

    Args:
        place: the servers and the namespace.
        own: the other client.

    Raises:
        The errors of ``RSMQ.from_url`` and ``Cells.from_url``.
    """
    first = clients_of(own)[0]
    settings: dict[str, Any] = {
        "ns": place.ns,
        "codec": first.codec,
        "strict_names": first.namespace.strict_names,
    }
    if place.cells is not None:
        return Cells.from_url(list(place.urls), cells=place.cells, **settings)
    return RSMQ.from_url(place.urls[0], **settings)
