"""``send_on_commit`` with AsyncSession, on PostgreSQL."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from rsmq import AsyncRSMQ
from rsmq.sqlalchemy import send_on_commit
from rsmq.tasks import Tasks

pytestmark = pytest.mark.foreign


@pytest.fixture
def run(postgresql, database, server, ns):
    """Call an async function with an engine and a client in an event loop."""
    database.execute(
        "CREATE TABLE users (name text PRIMARY KEY,"
        " friend text REFERENCES users DEFERRABLE INITIALLY DEFERRED)"
    )

    def run(scenario):
        async def main():
            engine = create_async_engine(postgresql.url.replace("://", "+psycopg://"))
            async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
                await queues.create_queue("users", exist_ok=True)
                await scenario(engine, queues)
            await engine.dispose()

        asyncio.run(main())

    return run


def bodies(rsmq):
    return [each.body for each in rsmq.peek_messages("users")]


def test_the_documented_function_sends_after_the_commit(run, rsmq, database, documented):
    names = {}
    exec(compile(documented["signup.py"], "signup.py", "exec", dont_inherit=True), names)

    async def scenario(engine, queues):
        await names["sign_up"](engine, queues, "ann")
        with pytest.raises(IntegrityError):
            await names["sign_up"](engine, queues, "ann")

    run(scenario)
    assert bodies(rsmq) == ["ann"]
    assert database.execute("SELECT name FROM users").fetchall() == [("ann",)]


def test_what_is_rolled_back_is_not_sent(run, rsmq):
    async def scenario(engine, queues):
        async with AsyncSession(engine) as session:
            async with session.begin_nested():
                send_on_commit(session, queues, "users", "released")
            with pytest.raises(IntegrityError):
                async with session.begin_nested():
                    send_on_commit(session, queues, "users", "undone")
                    await session.execute(text("INSERT INTO users VALUES (NULL)"))
            await session.commit()
            send_on_commit(session, queues, "users", "closed")

    run(scenario)
    assert bodies(rsmq) == ["released"]


def test_a_commit_that_the_database_refuses_sends_nothing(run, rsmq):
    async def scenario(engine, queues):
        async with AsyncSession(engine) as session:
            await session.execute(text("INSERT INTO users VALUES ('ann', 'nobody')"))
            send_on_commit(session, queues, "users", "ann")
            with pytest.raises(IntegrityError):
                await session.commit()
            await session.rollback()
            await session.commit()

    run(scenario)
    assert bodies(rsmq) == []


def test_a_task_is_sent_by_its_signature(run, rsmq, raw, ns):
    tasks = Tasks(rsmq)

    @tasks.task(queue="mail", name="welcome")
    def welcome(name: str) -> None: ...

    async def scenario(engine, queues):
        async with AsyncSession(engine) as session, session.begin():
            send_on_commit(session, welcome.signature("ann"))
        await tasks.aclose()

    run(scenario)
    [id] = raw.zrange(f"{ns}:mail", 0, -1)
    assert raw.hget(f"{ns}:mail:Q", id) == b'{"task":"welcome","args":{"name":"ann"}}'
