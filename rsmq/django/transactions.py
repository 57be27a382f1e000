"""
Messages that are sent when a transaction of the database has committed.
"""

from __future__ import annotations

from typing import Any, Unpack, overload

from django.db import transaction

from rsmq._sync.client import RSMQ
from rsmq.errors import InvalidFormat, show_type
from rsmq.tasks import Signature
from rsmq.tasks.deferred_send import DeferredArguments, prepare_call, prepare_send


@overload
def send_on_commit(
    queues: RSMQ[Any],
    qname: str,
    body: Any,
    *,
    using: str | None = None,
    robust: bool = False,
    **options: Unpack[DeferredArguments],
) -> None: ...
@overload
def send_on_commit(
    queues: Signature[Any], /, *, using: str | None = None, robust: bool = False
) -> None: ...
def send_on_commit(
    queues: Any,
    qname: Any = None,
    body: Any = None,
    *,
    using: str | None = None,
    robust: bool = False,
    **options: Unpack[DeferredArguments],
) -> None:
    """
    Send a message when the transaction of the database has committed, by Django's ``on_commit``.

    After a rollback, also of the savepoint in which this was called, it is not sent. Without a
    transaction it is sent at once. Arguments are checked and the body is encoded now, so a mistake
    rolls back the transaction. If the process ends between the commit and the send, the message is
    lost: one that must not be lost belongs into an outbox table, see docs/transactions.md.

    Args:
        queues: a synchronous client. Or the call of a task of ``rsmq.tasks``,
            ``welcome.signature(17)``, as the only argument.
        qname: the queue's name. The queue must exist when the message is sent.
        body: the body, as for ``send_message``.
        using: the alias of the database; None is the default one.
        robust: True logs an error of the send; then the functions behind it on this commit are
            called nevertheless. Otherwise the error is raised where the transaction ends, which has
            committed.
        **options: those of ``send_message``. A delay begins with the send.

    Raises:
        InvalidFormat: queues is not one.
        The errors of ``send_message`` that need no server; without a transaction all of them.
        TypeError: there is no such option.
        TransactionManagementError: the database is in manual transaction management.
    """
    if isinstance(queues, Signature):
        if qname is not None or body is not None or options:
            hint = "The call of a task has its queue and options: pass using and robust only."
            raise InvalidFormat("qname", value=qname, hint=hint)
        send = prepare_call(queues)
    elif isinstance(queues, RSMQ):
        send = prepare_send(queues, qname, body, **options)
    else:
        hint = "Pass an RSMQ, or the signature of a task."
        raise InvalidFormat("queues", value=show_type(queues), hint=hint)
    transaction.on_commit(send, using=using, robust=robust)
