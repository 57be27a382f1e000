"""Each error says the fault, the value and the remedy in one line, without bodies or passwords."""

from __future__ import annotations

import asyncio
import builtins
import datetime as dt
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest
import redis

from rsmq import BYTES, JSON, MSGPACK, RSMQ, TEXT, AsyncRSMQ, errors
from rsmq.errors import misuse
from rsmq.tasks import Tasks
from rsmq.worker import Worker
from tests.scale import WAIT_SECONDS
from tests.workers.polling import wait_until

URL = "redis://127.0.0.1:6379/0"

#: An error of each class, and its whole text.
TEXTS = [
    (
        errors.NoAttributeSupplied(),
        "No attribute was supplied. Pass at least one of vt, delay, maxsize, keep and expired",
    ),
    (
        errors.MissingParameter("id", value="", hint="Pass an id."),
        "No id supplied: got ''. Pass an id",
    ),
    (errors.MissingParameter("qname"), "No qname supplied"),
    (
        errors.InvalidFormat("id", value="x", hint="An id is longer."),
        "Invalid id format: 'x'. An id is longer",
    ),
    (
        errors.InvalidValue("vt", 0, 9, value=None, hint="Pass a number."),
        "vt must be between 0 and 9, not None. Pass a number",
    ),
    (
        errors.InvalidCombination(
            "max_wait", value=5, reason="It has a reason.", needs=(("replace", "front"), ("delay",))
        ),
        "Invalid max_wait format: 5. It has a reason. It needs replace or front and delay",
    ),
    (
        errors.InvalidCombination(
            "front", value=True, reason="It has a reason.", excludes=("group", "delay")
        ),
        "Invalid front format: True. It has a reason. It can't be combined with group or delay",
    ),
    (
        errors.MessageNotString(value="body", summary="TEXT can't encode int", hint="Pass a str."),
        "TEXT can't encode int. Pass a str",
    ),
    (errors.MessageTooLong(value=7), "Message too long"),
    (
        errors.QueueNotFound("orders", "rsmq"),
        "Queue not found: 'orders' (namespace 'rsmq'). Create it with create_queue('orders')",
    ),
    (
        errors.QueueExists("orders", "rsmq"),
        (
            "Queue exists: 'orders' (namespace 'rsmq'). Pass exist_ok=True to use it as it is, or "
            "change it with set_queue_attributes"
        ),
    ),
    (
        errors.BodyNotDecodable("orders", "i", b"\xff secret"),
        (
            "The codec can't decode the body of message i in queue 'orders'. message.raw has the "
            "bytes; codec=BYTES receives any body"
        ),
    ),
    (
        errors.BodyUnavailable("The key k1"),
        "The key k1 can't be reached now. Try again later",
    ),
    (errors.ClientClosed(), "Client is closed. Create a new client after close()"),
    (
        errors.MissingExtra("cli", "rsmq.cli"),
        "rsmq.cli needs the extra 'cli'. In a clone of the repository: pip install '.[cli]'",
    ),
    (errors.InvalidOption("vt", "is 1."), "Option vt: is 1."),
    (errors.BatchLost("Gone", hint="Go on."), "Gone. Go on"),
    (
        errors.CheckpointSetBack("stream l", 5, 7, "acknowledged", ""),
        (
            "The checkpoint of stream l was set back, and is older than its queue: it asks for "
            "batch 5, but batch 7 was acknowledged already. New messages "
            "would be lost in sinks that have this batch. Restore the newest "
            "checkpoint, or start with a new checkpointLocation"
        ),
    ),
    (
        errors.LeaseTakenOver("l"),
        (
            "The stream l was taken over by another process, which continues it. Run one "
            "query for each checkpoint and each consumerGroup. This one has received nothing since"
        ),
    ),
    (
        errors.NewerVersion("The checkpoint", 2),
        (
            "The checkpoint was stored by a newer version of rsmq, in the form 2, which this one "
            "does not know. Install that version on the driver and on all executors"
        ),
    ),
    (
        errors.ScanBroken("q", "it is gone"),
        (
            "The scan of queue 'q' can't be completed: it is gone. Read again, or with "
            "snapshot=exact, which reads all ids in one step"
        ),
    ),
    (
        errors.InvalidExport(7, "is cut off", hint="Export again."),
        "Line 7 of the export is cut off. Export again",
    ),
    (errors.SourceNotFound("There is no q", value="q"), "There is no q"),
    (errors.SourceChanged("It was changed", value="q"), "It was changed"),
    (
        errors.SubscriberExists("q-a", is_queue_of_others=True),
        (
            "The queue of the subscriber exists already: 'q-a'. Give the subscriber another name, "
            "or delete the queue if it is unused"
        ),
    ),
    (errors.NotPossible("It is itself", hint="Use another."), "It is itself. Use another"),
    (
        errors.JobFailed("q", "i", "ValueError: no"),
        "Job 'i' of queue 'q' has failed: ValueError: no",
    ),
    (errors.JobCancelled("q", "i"), "The job was cancelled: 'i' of queue 'q'"),
    (
        errors.JobExpired("q", "i"),
        (
            "The message of the job is gone, and its outcome is not known: 'i' of queue 'q'. It "
            "has reached its expires, a client that keeps no records has deleted, popped or moved "
            "it, or the queue was purged. All workers of the queue need track=True"
        ),
    ),
    (
        errors.JobNotFound("q", "i"),
        (
            "There is no such job, or it has ended without a record: 'i' of queue 'q'. A record "
            "needs track=True of the task, the listener or the send, and lives for its result_ttl "
            "after the end, one hour by default"
        ),
    ),
    (
        errors.NotTracked("q", "i"),
        (
            "The message is not tracked, so its progress can't be stored: 'i' of queue 'q'. Set "
            "track=True of its listener or task"
        ),
    ),
    (
        errors.JobNotEnded("q", "i", 5),
        (
            "The job has not ended within 5 s: 'i' of queue 'q'. It continues: wait again, or "
            "look at its status()"
        ),
    ),
    (
        errors.JobNotTracked("q", "i"),
        (
            "The task of the job is not tracked, so its result is not stored: 'i' of queue 'q'. "
            "Declare it with track=True: @tasks.task(queue='q', track=True)"
        ),
    ),
    (
        errors.FlowFailed("i", "a (node 1) has failed: E"),
        "Flow 'i' has failed: a (node 1) has failed: E",
    ),
    (errors.FlowCancelled("i"), "The flow was cancelled: 'i'"),
    (
        errors.FlowNotFound("i"),
        (
            "There is no such flow: 'i'. A flow lives for its result_ttl after its end, one day by "
            "default"
        ),
    ),
    (
        errors.FlowNotEnded("i", 5, 1, 2),
        (
            "The flow has not ended within 5 s: 'i', 1 of 2 nodes have ended. It continues: wait "
            "again, or look at its status()"
        ),
    ),
    (
        errors.RunReplaced("rsmq:q:x:copied"),
        (
            "Another run of this migration has replaced this one, or the target queue was deleted. "
            "Let that run end, or stop it; then run this one again"
        ),
    ),
    (
        errors.WorkerExists("w", "host h, process 5"),
        (
            "A worker named 'w' is running. It runs on host h, process 5. Stop it, or give this "
            "worker another name"
        ),
    ),
    (
        errors.WorkerNotFound("w"),
        "No worker named 'w' is alive. workers.list lists the workers of the namespace",
    ),
    (
        errors.WorkerReplaced("k"),
        (
            "Another worker took over this worker's name. This worker sent no heartbeat for some "
            "seconds, and another process took over its name and its messages"
        ),
    ),
    (
        errors.NotReplicated("id", "confirmed by 0 of 1 replicas", 1.0),
        (
            "Stored on the primary, but not confirmed. After 1 second it was confirmed by 0 of 1 "
            "replicas. It may get lost if another server takes over before it has been copied. "
            "Only a send with a dedup_id may be repeated"
        ),
    ),
    (
        errors.ReplyLost(3, ("q",)),
        (
            "The replies to 3 receives of one message of 'q' were lost. If the message is larger "
            "than a reply may be, raise the limit: Redis closes a connection at its setting "
            "client-output-buffer-limit normal, and a proxy has a limit of its own. To find the "
            "message, call peek_messages from a server without the limit"
        ),
    ),
    (
        errors.NotEmptyInTime(5, "q: 1 due, 0 hidden"),
        "The queues are not empty in time. After 5 seconds, messages are left: q: 1 due, 0 hidden",
    ),
    (
        errors.ExecutorEnded("Its event loop was stopped"),
        (
            "The handlers of the worker can't be called any more. Its event loop was stopped. "
            "A handler or a task must not call sys.exit() or loop.stop(); restart the worker"
        ),
    ),
    (
        errors.ExecutorStalled("A task blocks the event loop", 61.23, "Use asyncio.to_thread"),
        (
            "The handlers of the worker could not be called for too long. A task blocks the event "
            "loop, for 61.2 s. Use asyncio.to_thread, and restart the worker"
        ),
    ),
    (
        errors.TooManyHungCalls(4),
        (
            "Too many handler calls hang. 4 ran for longer than max_runtime and did not end. "
            "Give the handlers' network calls timeouts, and restart the worker"
        ),
    ),
]


@pytest.mark.parametrize(("error", "text"), TEXTS, ids=lambda each: type(each).__name__)
def test_the_whole_text_of_each_class(error, text):
    assert str(error) == text
    assert "\n" not in text


def test_the_table_has_each_class():
    classes = {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.RSMQError)
    }

    assert {type(error) for error, _ in TEXTS} == classes - {errors.RSMQError, errors.ArgumentError}


@pytest.fixture
def queues():
    with RSMQ.from_url("memory://") as client:
        client.create_queue("q")
        client.create_queue("dead")
        yield client


def start_worker(client):
    worker = Worker(client)
    worker.listener("nosuch")(print)
    worker.start()


MISTAKES = {
    "a URL without a scheme": (
        lambda _: RSMQ.from_url("localhost:6379"),
        "The scheme is missing: write 'redis://localhost:6379'",
    ),
    "None for a URL": (lambda _: AsyncRSMQ.from_url(None), "Is the variable with the URL set?"),
    "an empty URL": (lambda _: RSMQ.from_url(""), "Is the variable with the URL set?"),
    "a URL for the constructor": (lambda _: RSMQ(URL), f"RSMQ.from_url('{URL}')"),
    "a URL for the asyncio constructor": (lambda _: AsyncRSMQ(URL), f"AsyncRSMQ.from_url('{URL}')"),
    "an asyncio client": (lambda _: RSMQ(redis.asyncio.Redis()), "Use AsyncRSMQ for clients of"),
    "a synchronous client": (lambda _: AsyncRSMQ(redis.Redis()), "Use RSMQ for clients of redis"),
    "a URL for a worker": (lambda _: Worker(URL), f"Worker(RSMQ.from_url('{URL}'))"),
    "a missing queue of a worker": (start_worker, "create_queue('nosuch'), or pass create=True"),
    "an id without its queue": (
        lambda queues: queues.delete_message(queues.send_message("q", "m")),
        "Pass the Message that was received, or the name of the queue and the id: (qname, id)",
    ),
    "None for a message": (
        lambda queues: queues.delete_message(queues.receive_message("q")),
        "A receive returns None if no message is due: check for None first",
    ),
    "a datetime in JSON": (
        lambda queues: queues.send_message("q", {"at": dt.datetime.now()}, codec=JSON),  # noqa: DTZ005
        "JSON can't encode datetime. Convert it to str",
    ),
    "an aware datetime in JSON": (
        lambda queues: queues.send_message("q", dt.datetime.now(dt.UTC), codec=JSON),
        (
            "JSON can't encode datetime. Convert it to str, int, float, bool, None, list or dict, "
            "or use codec=MSGPACK"
        ),
    ),
    "a lone surrogate": (
        lambda queues: queues.send_message("q", "\ud800"),
        "It contains a lone surrogate, which UTF-8 can't encode",
    ),
    "a visibility timeout without a queue": (
        lambda queues: queues.change_message_visibility(queues.send_message("q", "m"), 5),
        "Pass the Message that was received, or the name of the queue and the id: (qname, id)",
    ),
    "a tuple as key in JSON": (
        lambda queues: queues.send_message("q", {(1, 2): 3}, codec=JSON),
        "JSON can't encode dict. keys must be str",
    ),
    "infinity in JSON": (
        lambda queues: queues.send_message("q", [float("inf")], codec=JSON),
        "JSON can't encode list. Out of range float values are not JSON compliant",
    ),
    "a naive datetime in MessagePack": (
        lambda queues: queues.send_message("q", dt.datetime.now(), codec=MSGPACK),  # noqa: DTZ005
        "MSGPACK can't encode datetime. Give the datetime a time zone",
    ),
    "a number as text": (
        lambda queues: queues.send_message("q", 5),
        "TEXT can't encode int. Pass a str, or use codec=BYTES, codec=JSON or codec=MSGPACK",
    ),
    "text as bytes": (
        lambda queues: queues.send_message("q", "m", codec=BYTES),
        "BYTES can't encode str. Pass bytes",
    ),
    "a large maxsize": (
        lambda queues: queues.create_queue("new", maxsize=1_000_000),
        (
            "maxsize must be between 1024 and 65536, not 1000000. Pass a whole number in this "
            "range, or -1 for unlimited"
        ),
    ),
    "several queues for one": (
        lambda queues: queues.receive_message(["a", "b"]),
        "Pass the name of one queue. receive_messages and pop_messages take several",
    ),
    "a policy without a limit": (
        lambda queues: queues.set_dead_letter_policy("q", "dead"),
        "Pass the number of receives after which a message is a dead letter, as in max_receives=3",
    ),
    "a body in place of a list": (
        lambda queues: queues.send_messages("q", {"number": 1}, codec=JSON),
        "Invalid bodies format: dict object. Pass a list",
    ),
    "a missing queue": (
        lambda queues: queues.send_message("nosuch", "m"),
        "Queue not found: 'nosuch' (namespace 'rsmq'). Create it with create_queue('nosuch')",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_common_mistake_shows_the_way_out(queues, mistake):
    make, remedy = MISTAKES[mistake]

    with pytest.raises(errors.RSMQError) as caught:
        make(queues)
    assert remedy in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
@pytest.mark.parametrize(
    ("arguments", "options", "fault"),
    [
        ((), {}, "missing 1 required positional argument: 'client'"),
        ((redis.Redis(),), {"host": "redis"}, "got an unexpected keyword argument 'host'"),
        ((redis.Redis(), "rsmq"), {}, "takes 2 positional arguments but 3 were given"),
    ],
)
def test_wrong_arguments_of_a_constructor_show_how_to_connect(kind, arguments, options, fault):
    with pytest.raises(TypeError) as caught:
        kind(*arguments, **options)

    assert str(caught.value) == (
        f"{kind.__name__}.__init__() {fault}. Pass a client of redis-py, or connect with "
        f"{kind.__name__}.from_url('{URL}')"
    )
    assert caught.value.__cause__ is None


def test_a_type_error_inside_a_constructor_is_not_changed():
    class Broken(RSMQ):
        def _configure(self, *_, **__):
            raise TypeError("broken")

    with pytest.raises(TypeError, match=r"^broken$"):
        Broken(redis.Redis())


def test_with_and_async_with_name_the_other_client():
    async def use_async_with():
        async with RSMQ.from_url("memory://"):
            pass

    with (
        pytest.raises(TypeError, match="AsyncRSMQ needs 'async with'"),
        AsyncRSMQ.from_url("memory://"),
    ):
        pass
    with pytest.raises(TypeError, match="RSMQ needs 'with'"):
        asyncio.run(use_async_with())


@pytest.mark.parametrize("codec", [TEXT, JSON, MSGPACK])
def test_no_text_has_a_body(queues, codec):
    class Secret:
        def __repr__(self):
            return "hunter2"

    for body in (Secret(), ["hunter2", Secret()], {"hunter2": Secret()}):
        with pytest.raises(errors.MessageNotString) as caught:
            queues.send_message("q", body, codec=codec)
        assert "hunter2" not in str(caught.value)


def test_the_error_of_a_foreign_codec_is_named_without_its_text(queues):
    class Picky:
        def encode(self, body):
            raise ValueError(f"bad: {body}")

        def decode(self, raw):
            return raw

        def __repr__(self):
            return "Picky()"

    with pytest.raises(errors.MessageNotString) as caught:
        queues.send_message("q", "hunter2", codec=Picky())

    assert str(caught.value) == "Picky() can't encode str (ValueError)"
    assert isinstance(caught.value.__cause__, ValueError)


def test_a_value_of_several_lines_is_shown_in_one(queues):
    class Table:
        def __repr__(self):
            return "1 2\n3 4"

    with pytest.raises(errors.InvalidFormat) as caught:
        queues.receive_message(Table())
    assert "Invalid qname format: 1 2 3 4. " in str(caught.value)


@pytest.fixture
def not_warned(monkeypatch):
    monkeypatch.setattr(misuse, "_is_warned", False)


def waits_in_a_loop(queues):
    async def wait_twice():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            queues.receive_message("q", wait=0.001)
            queues.receive_message("q", wait=0.001)
        return caught

    return asyncio.run(wait_twice())


def test_a_synchronous_wait_in_an_event_loop_warns_once(queues, not_warned):
    (warning,) = waits_in_a_loop(queues)

    assert warning.category is RuntimeWarning
    assert "Use AsyncRSMQ" in str(warning.message)
    assert warning.filename == __file__


def test_a_blocking_result_or_send_in_an_event_loop_warns_at_the_line_of_the_caller(monkeypatch):
    async def call(function, then=lambda: None):
        monkeypatch.setattr(misuse, "_is_warned", False)
        with warnings.catch_warnings(record=True) as caught, ThreadPoolExecutor(1) as threads:
            warnings.simplefilter("always")
            has_warned = threads.submit(lambda: wait_until(lambda: caught) and then())
            function()
            has_warned.result()
        [warning] = caught
        assert warning.filename == __file__
        return str(warning.message)

    with Tasks.from_url("memory://blocks") as tasks:

        @tasks.task(queue="q", name="t", track=True)
        def work() -> None: ...

        job = work.send()
        # The job ends when the call has warned, and waits.
        assert "await job" in asyncio.run(
            call(lambda: job.result(timeout=WAIT_SECONDS), tasks.run_all)
        )
        assert "await task.asend" in asyncio.run(call(work.send))
        many = asyncio.run(call(lambda: tasks.send_many([work.signature()])))
        assert "asend_many" in many


def test_in_ipython_or_without_a_loop_a_wait_does_not_warn(queues, not_warned, monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        queues.receive_message("q", wait=0.001)
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)

    assert waits_in_a_loop(queues) == []
