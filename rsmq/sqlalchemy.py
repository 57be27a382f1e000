"""
Sends that belong to a transaction of SQLAlchemy.

    from rsmq.sqlalchemy import send_on_commit

    with Session(engine) as session, session.begin():
        session.add(order)
        send_on_commit(session, queues, "orders", "order 17")

Needs the extra ``sqlalchemy``. Without it, the import raises MissingExtra.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack, overload

from rsmq._sync.client import RSMQ
from rsmq.aio import AsyncRSMQ
from rsmq.errors import InvalidFormat, MissingExtra, show_type
from rsmq.tasks import Signature
from rsmq.tasks.deferred_send import DeferredArguments, prepare_call, prepare_send

try:
    from sqlalchemy import event
    from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, SessionTransaction, scoped_session
    from sqlalchemy.util import await_only
except ImportError as error:
    raise MissingExtra("sqlalchemy", "rsmq.sqlalchemy") from error

__all__ = ["send_on_commit"]

#: The key in ``Session.info`` of the sends that wait, by their transaction or savepoint.
_WAITING = "rsmq.send_on_commit"


@overload
def send_on_commit(
    session: Session | scoped_session[Any],
    queues: RSMQ[Any],
    qname: str,
    body: Any,
    **options: Unpack[DeferredArguments],
) -> None: ...
@overload
def send_on_commit(
    session: AsyncSession | async_scoped_session[Any],
    queues: AsyncRSMQ[Any],
    qname: str,
    body: Any,
    **options: Unpack[DeferredArguments],
) -> None: ...
@overload
def send_on_commit(
    session: Session | scoped_session[Any] | AsyncSession | async_scoped_session[Any],
    queues: Signature[Any],
    /,
) -> None: ...
def send_on_commit(
    session: Any,
    queues: Any,
    qname: Any = None,
    body: Any = None,
    **options: Unpack[DeferredArguments],
) -> None:
    """
    Send a message when the transaction of a session has committed.

    The message is sent once, after the commit and before ``session.commit()`` returns, when the
    connection to the database is free again. It is dropped if the transaction, or the savepoint in
    which this was called, is rolled back, or if the session is closed before the commit. Messages
    of one transaction are sent in the order of the calls, each in one round trip.

    Arguments are checked and the body is encoded now. If a send fails, ``session.commit()`` raises
    its error, with a note that the transaction is committed, and the messages behind it are not
    sent. They are lost too if the process ends between the commit and the send: a message that must
    not be lost belongs into an outbox table, see docs/transactions.md.

    Args:
        session: a ``Session`` or an ``AsyncSession``, or their ``scoped_session``. A transaction
            begins if there is none, as by a query.
        queues: the client: for a Session a synchronous one, for an AsyncSession an asyncio one. Or
            the call of a task, ``welcome.signature(17)``, as the last argument.
        qname: the queue's name. The queue must exist when the message is sent.
        body: the body, as for ``send_message``.
        **options: those of ``send_message``. A delay begins with the send.

    Raises:
        InvalidFormat: session is not one, or the client is not for this kind of session.
        The errors of ``send_message`` that need no server.
        TypeError: there is no such option.
    """
    if isinstance(session, scoped_session | async_scoped_session):
        session = session()
    if not isinstance(session, Session | AsyncSession):
        hint = "Pass a Session or an AsyncSession of SQLAlchemy."
        raise InvalidFormat("session", value=show_type(session), hint=hint)
    is_async = isinstance(session, AsyncSession)
    if isinstance(queues, Signature):
        if qname is not None or body is not None or options:
            hint = "The call of a task has its queue and options: pass nothing behind it."
            raise InvalidFormat("qname", value=qname, hint=hint)
        send = prepare_call(queues, is_async=is_async)
    else:
        fitting = AsyncRSMQ if is_async else RSMQ
        if not isinstance(queues, fitting):
            name = "an AsyncRSMQ" if is_async else "an RSMQ"
            hint = f"Pass {name} with a {type(session).__name__}, or the signature of a task."
            raise InvalidFormat("queues", value=show_type(queues), hint=hint)
        send = prepare_send(queues, qname, body, **options)
    if isinstance(session, AsyncSession):
        _add(session.sync_session, lambda: await_only(send()))
    else:
        _add(session, send)


def _add(session: Session, send: Callable[[], Any]) -> None:
    transaction = _current(session) or session.begin()
    if not event.contains(session, "after_transaction_end", _end):
        event.listen(session, "after_commit", _commit)
        event.listen(session, "after_transaction_end", _end)
    waiting = session.info.setdefault(_WAITING, {})
    waiting.setdefault(transaction, _Sends()).append(send)


class _Sends(list[Callable[[], Any]]):
    """The sends of a transaction or savepoint, in order; the events of its session write it."""

    is_committed = False


def _current(session: Session) -> SessionTransaction | None:
    """Return the innermost savepoint, or the transaction, that is open."""
    return session.get_nested_transaction() or session.get_transaction()


def _commit(session: Session) -> None:
    sends = session.info[_WAITING].get(_current(session))
    if sends is not None:
        sends.is_committed = True


def _end(session: Session, transaction: SessionTransaction) -> None:
    """
    Send, or pass to the enclosing transaction, what waits for a commit, and drop the rest.

    The event comes at the end of each transaction, committed, rolled back or closed, when its
    connections are returned. An error in ``after_commit`` would leave the session in between.
    """
    waiting = session.info[_WAITING]
    sends = waiting.pop(transaction, None)
    if sends is None or not sends.is_committed:
        return
    enclosing = _current(session)
    if enclosing is not None:
        waiting.setdefault(enclosing, _Sends()).extend(sends)
        return
    for number, send in enumerate(sends):
        try:
            send()
        except BaseException as error:
            error.add_note(
                "The transaction of the database is committed. Messages of send_on_commit that "
                f"were not sent, or may not have been: {len(sends) - number}."
            )
            raise
