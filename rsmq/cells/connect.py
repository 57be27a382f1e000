"""
The callers of a set of cells: cells on the same server or cluster share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rsmq.errors import InvalidFormat, show, show_type
from rsmq.printable import format_count
from rsmq.transport.asyncio_.caller import (
    AsyncCaller,
    async_caller_from_client,
    async_caller_from_url,
)
from rsmq.transport.url import MEMORY_SCHEME, check_url
from rsmq.wire.keys import Namespace


def async_callers_from_urls(
    urls: str | Sequence[str],
    namespaces: Sequence[str],
    retry_deadline: float | None,
    options: dict[str, Any],
) -> list[AsyncCaller]:
    """
    Return the caller of each cell.

    Args:
        urls: the URL of all cells, or one URL for each cell.
        retry_deadline: seconds for retries; None is the default.
        options: options of connections for redis-py.

    Raises:
        InvalidFormat: there are more or fewer URLs than cells, or one is not supported.
    """
    by_url: dict[str, AsyncCaller] = {}
    callers = []
    for url, ns in zip(
        _one_each("url", [urls] if isinstance(urls, str) else urls, len(namespaces)),
        namespaces,
        strict=True,
    ):
        caller = by_url.get(url)
        if caller is None:
            caller = by_url[url] = _caller_from_url(url, Namespace(ns), retry_deadline, options)
        callers.append(caller)
    return callers


def _caller_from_url(
    url: str, namespace: Namespace, retry_deadline: float | None, options: dict[str, Any]
) -> AsyncCaller:
    if check_url(url).startswith(MEMORY_SCHEME):
        from rsmq.transport import memory  # noqa: PLC0415 - needs an extra

        return async_caller_from_client(memory.async_client(url), namespace, retry_deadline)
    return async_caller_from_url(url, namespace, retry_deadline, options)


def async_callers_from_clients(
    clients: object, namespaces: Sequence[str], retry_deadline: float | None
) -> list[AsyncCaller]:
    """
    Return the caller of each cell.

    Args:
        clients: the client of redis-py for all cells, or one for each cell.
        retry_deadline: seconds for retries; None is the default.

    Raises:
        InvalidFormat: there are more or fewer clients than cells, or one is of another kind.
    """
    of_cells = clients if isinstance(clients, list | tuple) else [clients]
    by_client: dict[int, AsyncCaller] = {}
    callers = []
    for client, ns in zip(_one_each("client", of_cells, len(namespaces)), namespaces, strict=True):
        caller = by_client.get(id(client))
        if caller is None:
            caller = async_caller_from_client(client, Namespace(ns), retry_deadline)
            by_client[id(client)] = caller
        callers.append(caller)
    return callers


def _one_each(item: str, values: Sequence[Any], number: int) -> Sequence[Any]:
    if not isinstance(values, list | tuple):
        raise InvalidFormat(item, value=show_type(values), hint="Pass a str, or a list of them.")
    if len(values) == 1:
        return [values[0]] * number
    if len(values) != number:
        raise InvalidFormat(
            item,
            value=show(f"{len(values)} for {format_count(number, 'cell')}"),
            hint="Pass one for all cells, or one for each cell in the order of the cells.",
        )
    return values
