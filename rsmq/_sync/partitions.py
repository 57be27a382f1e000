# Generated from rsmq/partitions.py by scripts/generate-sync. Do not edit.
"""
Several namespaces with the same queues, among which producers choose by a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from rsmq._sync.client import RSMQ
from rsmq.errors import QueueNotFound, show
from rsmq.errors.misuse import explain_arguments
from rsmq.transport.threads.caller import share_connections
from rsmq.wire.partitions import names_of_partitions, partition_of_key

if TYPE_CHECKING:
    from redis import Redis
    from redis.cluster import RedisCluster


class Partitions:
    """
    A fixed number of namespaces with the same queues, for more messages than one server can carry.

    A partition is an ordinary namespace in one slot, such as ``{shop.7of12.2xd}``. The partitions
    are spread evenly over the nodes of a Redis Cluster. Messages with the same key are in the same
    partition. Consumers are workers of one partition each, or clients: there is no receive from
    all.

    Nothing is promised about messages of different partitions: neither their order, nor that a
    ``dedup_id``, a ``unique_key``, a group or a limit counts in more than its partition.

    The number of partitions is a part of their names. A program with another number finds no
    queue, so its sends raise QueueNotFound.

    Attributes:
        clients: the clients of the partitions, in their order. Each is an ordinary ``RSMQ``.
        namespaces: the names of their namespaces.
    """

    clients: tuple[RSMQ[Any], ...]
    namespaces: tuple[str, ...]

    @explain_arguments
    def __init__(
        self, client: Redis | RedisCluster, *, ns: str, count: int, **options: Any
    ) -> None:
        """
        Connect as an existing client of redis-py does; see ``RSMQ``. It is never closed.

        Args:
            client: as for ``RSMQ``.
            ns: the first part of the names of the namespaces, without braces.
            count: the number of partitions, 1 to 1,000.
            options: the other arguments of ``RSMQ``, such as ``codec``.

        Raises:
            InvalidFormat: ns is empty or has braces, or another argument is not supported.
            InvalidValue: count is not a whole number, or a number is out of range.
        """
        self._open(ns, count, lambda name: RSMQ(client, ns=name, **options))

    @classmethod
    def from_url(cls, url: str, *, ns: str, count: int, **options: Any) -> Self:
        """
        Open connections that close() closes: one of each thread to each server.

        Args:
            url: as for ``RSMQ.from_url``: of a Redis Cluster, a server or Sentinels.
            ns: as for the constructor.
            count: as for the constructor.
            options: the other arguments of ``RSMQ.from_url``, such as ``codec``.

        Raises:
            InvalidFormat: as for the constructor, or the URL or an option is not supported.
            InvalidValue: as for the constructor.
            MissingExtra: ``memory://`` without the extra ``embedded``.
        """
        self = cls.__new__(cls)
        self._open(ns, count, lambda name: RSMQ.from_url(url, ns=name, **options))
        share_connections(client.caller for client in self.clients)
        return self

    def _open(self, ns: str, count: int, connect: Callable[[str], RSMQ[Any]]) -> None:
        self.namespaces = tuple(names_of_partitions(ns, count))
        self.clients = tuple(map(connect, self.namespaces))

    def client_for(self, key: str) -> RSMQ[Any]:
        """
        Return the client of the partition of a key.

        The number of the partition is the first four bytes of the SHA-256 of the key in UTF-8, as a
        number with the highest byte first, modulo the number of partitions.

        Args:
            key: a text that is not empty, such as the id of a customer.

        Raises:
            MissingParameter: the key is None or empty.
            InvalidFormat: the key is not a str, or can't be encoded.
        """
        return self.clients[partition_of_key(key, len(self.clients))]

    def create_queue(self, qname: str, **options: Any) -> bool:
        """
        Create a queue in each partition, one after another.

        If it fails in a partition, the queue exists in those before it. Call it again with
        ``exist_ok=True``.

        Args:
            qname: the queue's name.
            options: as for ``RSMQ.create_queue``.

        Returns:
            True if the queue was created or completed in a partition; False if it existed in all
            and exist_ok is True.

        Raises:
            MissingParameter, InvalidFormat, InvalidValue: as of ``RSMQ.create_queue``.
            QueueExists: the queue exists in a partition.
        """
        created = [client.create_queue(qname, **options) for client in self.clients]
        return any(created)

    def send_message(self, qname: str, body: Any, *, key: str, **options: Any) -> str:
        """
        Add a message to a queue in the partition of its key.

        Args:
            qname: the queue's name.
            body: as for ``RSMQ.send_message``.
            key: as for ``client_for``.
            options: as for ``RSMQ.send_message``.

        Returns:
            The id of the message.

        Raises:
            QueueNotFound: the queue does not exist in the partition, or ns or count is not that of
                the programs that have created it.
            MissingParameter, InvalidFormat: as of ``client_for``.
            RSMQError, redis.exceptions.RedisError: as of ``RSMQ.send_message``.
        """
        client = self.client_for(key)
        try:
            return client.send_message(qname, body, **options)
        except QueueNotFound as error:
            raise _with_remedy(error) from None

    def send_messages(
        self, qname: str, bodies: Iterable[Any], *, key: str, **options: Any
    ) -> list[str]:
        """
        Add messages with the same key to a queue, all or none of them.

        Args:
            qname: the queue's name.
            bodies: as for ``RSMQ.send_messages``.
            key: as for ``client_for``.
            options: as for ``RSMQ.send_messages``.

        Returns:
            The ids of the messages.

        Raises:
            QueueNotFound: as of ``send_message``.
            MissingParameter, InvalidFormat: as of ``client_for``.
            RSMQError, redis.exceptions.RedisError: as of ``RSMQ.send_messages``.
        """
        client = self.client_for(key)
        try:
            return client.send_messages(qname, bodies, **options)
        except QueueNotFound as error:
            raise _with_remedy(error) from None

    def close(self) -> None:
        """Close the connections of all partitions. A client that was passed in stays open."""
        for client in self.clients:
            client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self.clients)} from {show(self.namespaces[0])})"


def _with_remedy(error: QueueNotFound) -> QueueNotFound:
    """Return the error with a hint that also says what else may be wrong."""
    error.hint = (
        f"Create it in all partitions with create_queue({show(error.value)}), or pass the same ns "
        "and count as the programs that have created it"
    )
    return error
