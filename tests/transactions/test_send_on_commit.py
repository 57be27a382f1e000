"""Messages that are sent when a transaction of SQLAlchemy has committed; the queue is in memory."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, scoped_session
from sqlalchemy.orm import sessionmaker as make_sessions

from rsmq import JSON, RSMQ, AsyncRSMQ
from rsmq.codecs import Compressed, Encrypted, EnvelopeCodec
from rsmq.errors import InvalidFormat, InvalidValue, MessageNotString, QueueNotFound
from rsmq.headers import use_headers
from rsmq.sqlalchemy import send_on_commit
from rsmq.tasks import RESULT, Tasks

_numbers = itertools.count()


class Base(DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    number: Mapped[int] = mapped_column(primary_key=True)


@pytest.fixture(scope="module")
def engine():
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    yield engine
    engine.dispose()


@pytest.fixture
def queues():
    with RSMQ.from_url(f"memory://transactions-{next(_numbers)}") as queues:
        queues.create_queue("q")
        yield queues


@pytest.fixture
def session(engine):
    with Session(engine) as session:
        yield session


def bodies(queues, queue="q"):
    return [each.raw.decode() for each in queues.peek_messages(queue)]


def test_messages_are_sent_in_order_after_the_commit_and_once(session, queues):
    with session.begin():
        session.execute(text("SELECT 1"))
        for body in ("one", "two"):
            send_on_commit(session, queues, "q", body)
        session.flush()
        assert bodies(queues) == []

    assert bodies(queues) == ["one", "two"]
    session.commit()
    assert bodies(queues) == ["one", "two"]


def test_the_connection_is_free_when_a_message_is_sent(queues, tmp_path):
    engine = create_engine(f"sqlite:///{tmp_path}/db", pool_size=1, max_overflow=0, pool_timeout=1)
    tasks = Tasks(queues)

    @tasks.task(name="count")
    def count() -> None:
        with Session(engine) as other:
            other.execute(text("SELECT 1"))

    with tasks.immediate(), Session(engine) as session, session.begin():
        session.execute(text("SELECT 1"))
        send_on_commit(session, count.signature())
    engine.dispose()


STEPS = st.lists(
    st.sampled_from(["send"] * 4 + ["open"] * 3 + ["release", "undo"] * 2)
    | st.sampled_from(["commit", "rollback", "close"]),
    max_size=25,
)


@given(steps=STEPS)
@settings(max_examples=80)
def test_exactly_the_messages_of_what_was_committed_are_sent(engine, steps):
    """A savepoint that is released passes its messages on; all that ends otherwise drops them."""
    number = itertools.count()
    levels, expected = [[]], []
    savepoints = []
    with (
        RSMQ.from_url(f"memory://transactions-{next(_numbers)}") as queues,
        Session(engine) as session,
    ):
        queues.create_queue("q")
        for step in [*steps, "close"]:
            if step == "send":
                body = str(next(number))
                send_on_commit(session, queues, "q", body)
                levels[-1].append(body)
            elif step == "open":
                savepoints.append(session.begin_nested())
                levels.append([])
            elif step in ("release", "undo"):
                if savepoints:
                    ended, inner = savepoints.pop(), levels.pop()
                    if step == "release":
                        ended.commit()
                        levels[-1].extend(inner)
                    else:
                        ended.rollback()
            else:
                if step == "commit":
                    expected += itertools.chain(*levels)
                getattr(session, step)()
                levels, savepoints = [[]], []
            assert bodies(queues) == expected


def test_a_message_that_an_event_of_a_flush_adds_belongs_to_the_transaction(session, queues):
    @event.listens_for(session, "after_flush")
    def add(session, _context):
        for order in session.new:
            send_on_commit(session, queues, "q", f"order {order.number}")

    savepoint = session.begin_nested()
    session.add(Order(number=1))
    session.flush()
    savepoint.rollback()
    session.add(Order(number=2))
    session.commit()

    assert bodies(queues) == ["order 2"]


def test_the_body_is_that_of_the_call(session, queues):
    order = {"number": 1, "name": "été"}
    send_on_commit(session, queues, "q", order, codec=JSON, max_retries=3)
    order["number"] = 2
    session.commit()

    assert bodies(queues) == ['{"number":1,"name":"été"}']


def test_the_headers_are_those_of_the_call(session, queues):
    tasks = Tasks(queues)

    @tasks.task(queue="mail", name="welcome")
    def welcome(user_id: int) -> None: ...

    with use_headers({"request_id": "7f3a"}):
        send_on_commit(session, queues, "q", 1, codec=EnvelopeCodec(JSON))
        send_on_commit(session, welcome.signature(17))
    session.commit()

    assert [*bodies(queues), *bodies(queues, "mail")] == [
        '{"headers":{"request_id":"7f3a"},"body":1}',
        '{"task":"welcome","args":{"user_id":17},"headers":{"request_id":"7f3a"}}',
    ]


@pytest.mark.parametrize(
    ("body", "options", "error"),
    [
        (7, {}, MessageNotString),
        ("x", {"delay": -1}, InvalidValue),
        ("x", {"codec": "JSON"}, InvalidFormat),
        ("x", {"dealy": 1}, TypeError),
    ],
)
def test_a_wrong_argument_is_an_error_before_the_commit(session, queues, body, options, error):
    with pytest.raises(error):
        send_on_commit(session, queues, "q", body, **options)

    session.commit()
    assert bodies(queues) == []


def test_a_send_that_fails_is_an_error_of_a_commit_that_happened(engine, session, queues):
    session.add(Order(number=17))
    for queue in ("q", "missing", "q"):
        send_on_commit(session, queues, queue, "x")
    with pytest.raises(QueueNotFound) as raised:
        session.commit()

    [note] = raised.value.__notes__
    assert note == (
        "The transaction of the database is committed. Messages of send_on_commit that were not "
        "sent, or may not have been: 2."
    )
    assert bodies(queues) == ["x"]
    with Session(engine) as other:
        assert other.get(Order, 17)
    session.add(Order(number=18))
    send_on_commit(session, queues, "q", "later")
    session.commit()
    assert bodies(queues) == ["x", "later"]


def test_a_failing_send_in_a_with_block_keeps_the_commit(engine, queues):
    with pytest.raises(QueueNotFound), make_sessions(engine).begin() as session:
        session.add(Order(number=27))
        send_on_commit(session, queues, "missing", "x")

    with Session(engine) as other:
        assert other.get(Order, 27)


def test_a_task_is_sent_by_its_signature(session, queues):
    tasks = Tasks(queues)

    @tasks.task(queue="mail", name="welcome")
    def welcome(user_id: int) -> None: ...

    send_on_commit(session, welcome.options(max_retries=2).signature(17))
    session.rollback()
    assert queues.list_queues() == ["q"]
    send_on_commit(session, welcome.signature(18))
    session.commit()
    assert bodies(queues, "mail") == ['{"task":"welcome","args":{"user_id":18}}']
    for wrong in (welcome.options(delay=-1).signature(1), welcome.signature(RESULT)):
        with pytest.raises((InvalidFormat, InvalidValue)):
            send_on_commit(session, wrong)
    with pytest.raises(InvalidFormat, match="pass nothing behind it"):
        send_on_commit(session, welcome.signature(18), "q")


def test_a_scoped_session_is_the_session_of_its_thread(engine, queues):
    sessions = scoped_session(make_sessions(engine))
    send_on_commit(sessions, queues, "q", "x")
    sessions.commit()
    sessions.remove()

    assert bodies(queues) == ["x"]


def test_a_client_must_fit_the_session(session, queues):
    with pytest.raises(InvalidFormat, match="Pass an RSMQ with a Session"):
        send_on_commit(session, AsyncRSMQ.from_url("memory://never"), "q", "x")
    with pytest.raises(InvalidFormat, match="Pass an AsyncRSMQ with a AsyncSession"):
        send_on_commit(AsyncSession(), queues, "q", "x")
    with pytest.raises(InvalidFormat, match="Pass a Session or an AsyncSession"):
        send_on_commit(queues, "q", "x")


def test_messages_of_a_group_keep_it(session, queues):
    for number in (1, 2):
        send_on_commit(session, queues, "q", str(number), group="customer")
    session.commit()
    states = [(each.body, each.group, each.state) for each in queues.peek_messages("q")]
    assert states == [("1", "customer", "visible"), ("2", "customer", "held_back")]


def test_an_encrypted_body_is_encrypted_once_for_its_queue(session, queues):
    codec = Encrypted(Compressed(JSON), keys={"k1": bytes(range(32))})
    with session.begin():
        send_on_commit(session, queues, "q", {"card": 4111}, codec=codec)
    (message,) = queues.peek_messages("q", codec=codec)
    assert message.raw.startswith(b"rsmq-body/1:aes256gcm=k1::")
    assert message.body == {"card": 4111}
