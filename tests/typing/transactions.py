"""The types of ``send_on_commit``. mypy and pyright check this file; it is never run."""

from __future__ import annotations

from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, scoped_session

from rsmq import RSMQ, AsyncRSMQ
from rsmq.sqlalchemy import send_on_commit
from rsmq.tasks import Signature


def accepted(session: Session, sessions: scoped_session[Session]) -> None:
    """Check that a session takes a synchronous client."""
    send_on_commit(session, RSMQ.from_url("memory://"), "q", "x", delay=5)
    send_on_commit(sessions, RSMQ.from_url("memory://"), "q", b"x", group="g", timeout=3)


def accepted_async(session: AsyncSession, queues: AsyncRSMQ) -> None:
    """Check that an asyncio session takes an asyncio client."""
    send_on_commit(session, queues, "q", "x")


def accepted_signature(session: Session | AsyncSession, call: Signature[Any]) -> None:
    """Check that each session takes the call of a task."""
    send_on_commit(session, call)


def refused(session: Session, queues: AsyncRSMQ) -> None:
    """Check that a client must fit its session."""
    send_on_commit(session, queues, "q", "x")  # type: ignore[call-overload]


def refused_options(session: Session, queues: RSMQ) -> None:
    """Check that an option has the name and the type of the send."""
    send_on_commit(session, queues, "q", "x", dealy=5)  # type: ignore[call-overload]
    send_on_commit(session, queues, "q", "x", group=5)  # type: ignore[call-overload]
