"""PyRSMQ's commands: their parameters, results and errors, and the keys that they write."""

from __future__ import annotations

import enum
import importlib
import logging
import warnings
from decimal import Decimal

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from rsmq import pyrsmq
from rsmq.pyrsmq import (
    InvalidParameterValue,
    NoMessageInQueue,
    QueueAlreadyExists,
    QueueDoesNotExist,
    RedisSMQ,
    RedisSMQException,
)
from tests.nodes import wait_until


@pytest.fixture
def raw(server):
    client = server.raw()
    yield client
    for key in client.scan_iter("p:*"):
        client.delete(key)
    client.close()


@pytest.fixture
def smq(server, raw):
    controller = RedisSMQ(port=server.port, ns="p", qname="q")
    yield controller
    controller.quit()


@pytest.fixture
def queue(smq):
    smq.createQueue().execute()


def fields(raw, qname="q"):
    return raw.hgetall(f"p:{qname}:Q")


def scores(raw, qname="q"):
    return dict(raw.zrange(f"p:{qname}", 0, -1, withscores=True))


def test_parameters_can_be_set_by_calls_or_keywords(smq, raw):
    assert smq.createQueue().qname("a").vt(20).delay(3).maxsize(2048).execute() is True
    assert smq.createQueue(qname="b", vt=20, delay=3, maxsize=2048).execute() is True

    times = fields(raw, "a")[b"created"]
    assert fields(raw, "a") == {
        b"vt": b"20", b"delay": b"3", b"maxsize": b"2048", b"created": times, b"modified": times,
    }  # fmt: skip
    assert raw.smembers("p:QUEUES") == {b"a", b"b"}
    assert smq.listQueues().execute() == {"a", "b"}


def test_new_queue_has_default_attributes(smq, raw):
    smq.createQueue().execute()

    assert (fields(raw)[b"vt"], fields(raw)[b"delay"]) == (b"30", b"0")
    assert fields(raw)[b"maxsize"] == b"65536"


def test_controller_keywords_are_defaults_of_commands(server, raw):
    smq = RedisSMQ(port=str(server.port), ns="p", qname="mine", vt=5, delay=None)
    smq.createQueue().execute()
    smq.createQueue(qname="other", vt=6).execute()

    assert fields(raw, "mine")[b"vt"] == b"5"
    assert fields(raw, "other")[b"vt"] == b"6"
    smq.quit()


def test_results_are_those_of_pyrsmq(smq, queue, raw):
    id = smq.sendMessage().message("Hello World").execute()
    message = smq.receiveMessage(vt=60).execute()

    assert message == {"id": id, "message": "Hello World", "rc": 1, "ts": message["ts"]}
    assert raw.hget("p:q:Q", f"{id}:fr") == b"%d" % message["ts"]
    assert smq.changeMessageVisibility(id=id, vt=0).execute() is True
    assert smq.popMessage().execute() == {**message, "rc": 2}
    attributes = smq.getQueueAttributes().execute()
    times = int(fields(raw)[b"created"])
    assert attributes == {
        "vt": 30.0, "delay": 0.0, "maxsize": 65536, "totalrecv": 2, "totalsent": 1,
        "created": times, "modified": times, "msgs": 0, "hiddenmsgs": 0,
    }  # fmt: skip
    assert isinstance(attributes["vt"], float)
    assert smq.setQueueAttributes(vt=7).execute() == {
        **attributes, "vt": 7.0, "modified": int(fields(raw)[b"modified"]),
    }  # fmt: skip
    assert smq.deleteQueue().execute() is True
    assert raw.keys("p:*") == []


def test_set_queue_attributes_without_attributes_changes_nothing(smq, queue, raw):
    raw.hset("p:q:Q", "modified", 5)

    assert smq.setQueueAttributes().execute()["modified"] == 5


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda smq: smq.createQueue(), QueueAlreadyExists, "Queue 'q' already exists"),
        (
            lambda smq: smq.deleteQueue(qname="no"),
            QueueDoesNotExist,
            "Queue 'no' does not exist",
        ),
        (
            lambda smq: smq.getQueueAttributes(qname="no"),
            QueueDoesNotExist,
            "Queue 'no' does not exist",
        ),
        (
            lambda smq: smq.setQueueAttributes(qname="no", vt=5),
            QueueDoesNotExist,
            "Queue 'no' does not exist",
        ),
        (
            lambda smq: smq.setQueueAttributes(qname="no"),
            QueueDoesNotExist,
            "Queue 'no' does not exist",
        ),
        (
            lambda smq: smq.sendMessage(qname="no", message="m"),
            QueueDoesNotExist,
            "Queue 'no' does not exist",
        ),
        (
            lambda smq: smq.receiveMessage(qname="no"),
            QueueDoesNotExist,
            "Queue 'no' does not exist",
        ),
        (
            lambda smq: smq.popMessage(qname="no"),
            QueueDoesNotExist,
            "Queue 'no' does not exist",
        ),
        (lambda smq: smq.receiveMessage(), NoMessageInQueue, "Queue 'q' has no messages waiting"),
        (lambda smq: smq.popMessage(), NoMessageInQueue, "Queue 'q' has no messages waiting"),
        (
            lambda smq: smq.changeMessageVisibility(id="0" * 32, vt=1),
            NoMessageInQueue,
            "Queue 'q' has no messages waiting",
        ),
        (
            lambda smq: smq.changeMessageVisibility(id="x"),
            NoMessageInQueue,
            "Queue 'q' has no messages waiting",
        ),
    ],
)
def test_errors_are_those_of_pyrsmq_and_change_nothing(smq, queue, raw, caplog, call, error, text):
    before = (raw.keys("p:*"), fields(raw))
    with pytest.raises(error) as caught:
        call(smq).execute()

    assert str(caught.value) == text
    assert isinstance(caught.value, RedisSMQException)
    with caplog.at_level(logging.WARNING):
        assert call(smq).exceptions(False).execute() is False
    assert f"{error.__name__}: {text}" in caplog.text
    assert caplog.records[0].name == f"rsmq.cmd.{type(call(smq)).__name__}"
    caplog.clear()
    with caplog.at_level(logging.DEBUG):
        assert call(smq).exceptions(False).quiet(True).execute() is False
    assert caplog.text == ""
    assert (raw.keys("p:*"), fields(raw)) == before


def test_exceptions_are_switched_for_all_commands_or_one(smq, queue):
    assert smq.exceptions(False) is smq
    assert smq.receiveMessage().execute() is False
    with pytest.raises(NoMessageInQueue):
        smq.receiveMessage().exceptions(True).execute()
    smq.exceptions()
    with pytest.raises(NoMessageInQueue):
        smq.receiveMessage().execute()


@pytest.mark.parametrize("value", ["", 5, "a:b", "x" * 65, "QUEUES", "\ud800"])
def test_invalid_name_raises_from_its_call_or_on_execute(smq, raw, value):
    with pytest.raises(InvalidParameterValue) as caught:
        smq.createQueue().qname(value)
    assert str(caught.value) == f"Value '{str(value)[:80]}' is not valid for parameter 'qname'"
    assert caught.value.__notes__
    command = smq.createQueue(qname=value)
    assert not command.ready()
    with pytest.raises(InvalidParameterValue):
        command.execute()
    assert smq.createQueue(qname=value, quiet=True).exceptions(False).execute() is False
    assert smq.createQueue(quiet=True).exceptions(False).qname(value).execute() is False
    assert raw.keys("p:*") == []


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("vt", [-1, "abc", 10_000_000, float("nan"), float("inf"), []]),
        ("delay", [-1, "abc", 10_000_000, {}]),
        ("maxsize", [0, -2, 1023, 65566, "big", None.__class__]),
    ],
)
def test_invalid_number_raises_from_its_call_or_is_ignored(smq, raw, caplog, name, values):
    """As in PyRSMQ: a call raises, unless exceptions are off; a keyword never does."""
    smq.createQueue(vt=7, delay=8, maxsize=2048).execute()
    before = fields(raw)
    for value in values:
        text = f"Value '{str(value)[:80]}' is not valid for parameter '{name}'"
        command = smq.setQueueAttributes()
        with pytest.raises(InvalidParameterValue) as caught:
            getattr(command, name)(value)
        assert str(caught.value) == text
        assert caught.value.__notes__
        assert caplog.text == ""
        for build in (
            lambda value=value: smq.setQueueAttributes(**{name: value}),
            lambda value=value: getattr(smq.setQueueAttributes().exceptions(False), name)(value),
        ):
            assert build().ready()
            assert build().execute()["vt"] == 7.0
            (record,) = caplog.records
            assert record.name == "rsmq.cmd.SetQueueAttributesCommand"
            assert record.levelname == "WARNING"
            assert record.message == f"Ignored: {text} {caught.value.__notes__[0]}"
            caplog.clear()
            assert build().quiet().execute()["vt"] == 7.0
            assert caplog.text == ""
    assert fields(raw) == before


def test_set_queue_attributes_ignores_each_value_out_of_range(smq, raw, caplog):
    smq.createQueue(vt=15, delay=10).execute()
    before = fields(raw)

    attributes = smq.setQueueAttributes(vt=-3, maxsize=-2, delay=-1).execute()
    assert attributes == smq.getQueueAttributes().execute()
    assert fields(raw) == before
    assert [record.message.partition("parameter")[::2] for record in caplog.records] == [
        ("Ignored: Value '-3' is not valid for ", " 'vt' Seconds from 0 to 9999999."),
        (
            "Ignored: Value '-2' is not valid for ",
            " 'maxsize' A size from 1024 to 65536, or -1 for unlimited.",
        ),
        ("Ignored: Value '-1' is not valid for ", " 'delay' Seconds from 0 to 9999999."),
    ]
    assert smq.setQueueAttributes(vt=-3, delay=4).execute()["delay"] == 4.0
    assert fields(raw)[b"vt"] == b"15"


def test_values_out_of_range_are_replaced_by_defaults(server, raw):
    smq = RedisSMQ(port=server.port, ns="p", qname="q", vt=-5)
    smq.createQueue(delay=-1, maxsize=1).execute()
    assert [fields(raw)[name] for name in (b"vt", b"delay", b"maxsize")] == [b"30", b"0", b"65536"]
    id = smq.sendMessage(message="m", delay="soon").execute()
    assert scores(raw)[id.encode()] == int(id[:10], 36) // 1000
    message = smq.receiveMessage().execute()
    assert scores(raw)[id.encode()] == message["ts"] + 30_000
    assert smq.changeMessageVisibility(id=id, vt=10**7).execute() is True
    assert 30_000 <= scores(raw)[id.encode()] - message["ts"] < 35_000
    smq.quit()


def test_error_names_missing_parameter(server, raw):
    smq = RedisSMQ(port=server.port, ns="p")
    assert not smq.createQueue().ready()
    with pytest.raises(InvalidParameterValue, match="'qname'"):
        smq.createQueue().execute()
    with pytest.raises(InvalidParameterValue, match="'message'"):
        smq.sendMessage(qname="q").execute()
    with pytest.raises(InvalidParameterValue, match="'id'"):
        smq.deleteMessage(qname="q").execute()
    with pytest.raises(InvalidParameterValue, match="'id'"):
        smq.deleteMessage(qname="q").get_transaction()
    with pytest.raises(InvalidParameterValue, match="'qname'"):
        smq.deleteMessage(qname="a:b", id="x").get_transaction()
    assert raw.keys("p:*") == []
    smq.quit()


def test_valid_value_replaces_an_invalid_one(smq, raw):
    command = smq.createQueue(vt=-1)
    with pytest.raises(InvalidParameterValue):
        command.delay("never")
    assert command.vt(5).delay(1).execute() is True
    assert fields(raw)[b"vt"] == b"5"
    with pytest.raises(InvalidParameterValue, match="'message'"):
        smq.sendMessage().message(None)


def test_unknown_keyword_is_ignored_with_a_warning(smq, queue):
    with pytest.warns(UserWarning, match="ReceiveMessageCommand has no parameter 'wait'") as caught:
        command = smq.receiveMessage(wait=5)
    assert command.exceptions(False).quiet().execute() is False
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("params", "stored"),
    [
        ({"vt": 0.5}, 1),
        ({"vt": 20.0}, 20),
        ({"vt": "7"}, 7),
        ({"vt": -0.5}, 0),
        ({"delay": 2.1}, 3),
    ],
)
def test_attributes_are_rounded_up_to_whole_seconds(smq, raw, params, stored):
    (name, value) = next(iter(params.items()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        smq.createQueue(**params).execute()
        smq.setQueueAttributes(**params).execute()

    assert fields(raw)[name.encode()] == b"%d" % stored
    rounded = float(value) != stored and float(value) > 0
    assert len(caught) == (2 if rounded else 0)
    assert all(warning.filename == __file__ for warning in caught)


@pytest.mark.parametrize(
    ("maxsize", "stored"),
    [(65565, 65536), (1024.7, 1025), (-1, -1), ("2048", 2048), (65536, 65536)],
)
def test_maxsize_is_stored_as_other_clients_accept_it(smq, raw, maxsize, stored):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        smq.createQueue(maxsize=maxsize).execute()

    assert fields(raw)[b"maxsize"] == b"%d" % stored
    assert bool(caught) == (maxsize in (65565, 1024.7))


def test_calls_accept_fractions_of_seconds(smq, queue, raw):
    id = smq.sendMessage(message="m", delay=0.25).execute()
    assert scores(raw)[id.encode()] == int(id[:10], 36) // 1000 + 250
    raw.zadd("p:q", {id: 1})
    message = smq.receiveMessage(vt="1.5").execute()
    assert scores(raw)[id.encode()] == message["ts"] + 1500


def test_change_of_visibility_without_vt_uses_the_queues_vt(smq, raw):
    smq.createQueue(vt=500).execute()
    id = smq.sendMessage(message="m").execute()
    message = smq.receiveMessage(vt=1).execute()
    smq.changeMessageVisibility(id=id).execute()

    assert 500_000 <= scores(raw)[id.encode()] - message["ts"] < 505_000


@pytest.mark.parametrize(("delay", "ms"), [(True, 1000), (False, 0), (Decimal("1.25"), 1250)])
def test_bools_and_decimals_are_numbers(smq, queue, raw, delay, ms):
    id = smq.sendMessage(message="m", delay=delay).execute()

    assert scores(raw)[id.encode()] == int(id[:10], 36) // 1000 + ms


def test_queue_name_can_be_an_enum_member(smq, raw):
    class Queues(str, enum.Enum):  # noqa: UP042 - as people write it, and StrEnum formats otherwise
        TASKS = "tasks"

    smq.createQueue(qname=Queues.TASKS).execute()
    id = smq.sendMessage(qname=Queues.TASKS, message="m").execute()

    assert raw.smembers("p:QUEUES") == {b"tasks"}
    assert scores(raw, "tasks")
    assert smq.deleteMessage(qname=Queues.TASKS, id=id).execute() is True


def test_exec_command_always_raises(smq, queue):
    assert smq.getQueueAttributes().exec_command()["msgs"] == 0
    with pytest.raises(NoMessageInQueue):
        smq.receiveMessage().exceptions(False).exec_command()


def test_text_has_the_encoding_of_the_client(server, raw):
    client = redis.Redis(port=server.port, encoding="latin-1", decode_responses=True)
    smq = RedisSMQ(client=client, ns="p", qname="q")
    smq.createQueue().execute()
    id = smq.sendMessage(message="text é").execute()

    assert raw.hget("p:q:Q", id) == "text é".encode("latin-1")
    assert smq.receiveMessage().execute()["message"] == "text é"
    client.close()


def test_each_command_is_one_round_trip(server, smq, queue, raw):
    def evals():
        stats = raw.info("commandstats")
        return sum(
            stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha")
        )

    for command, params in (
        (smq.sendMessage, {"message": "m"}),
        (smq.setQueueAttributes, {"vt": 5}),
        (smq.setQueueAttributes, {}),
        (smq.getQueueAttributes, {}),
        (smq.receiveMessage, {}),
    ):
        # The first call loads the script.
        command(**params).exceptions(False).quiet().execute()
        before = evals()
        command(**params).exceptions(False).quiet().execute()
        assert evals() == before + 1


def test_maxsize_is_not_enforced_on_send(smq, raw):
    smq.createQueue(maxsize=1024).execute()
    id = smq.sendMessage(message="x" * 100_000).execute()

    assert len(raw.hget("p:q:Q", id)) == 100_000


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("", b""),
        ("text", b"text"),
        (b"\xff\0", b"\xff\0"),
        ({"a": [1, None]}, b'{"a": [1, null]}'),
        (0, b"0"),
        ([], b"[]"),
        (False, b"false"),
        ("é", "é".encode()),
        ({"é": 1}, b'{"\\u00e9": 1}'),
    ],
)
@pytest.mark.parametrize("encode", [True, False])
def test_body_that_is_not_text_is_sent_as_json(smq, queue, raw, message, stored, encode):
    id = smq.sendMessage(message=message, encode=encode).execute()
    again = smq.sendMessage().message(message).encode(encode).execute()

    assert raw.hget("p:q:Q", id) == raw.hget("p:q:Q", again) == stored


@pytest.mark.parametrize("message", [object(), {1, 2}, "\ud800"])
def test_body_that_cannot_be_encoded_is_refused(smq, queue, raw, message):
    with pytest.raises(InvalidParameterValue, match="'message'"):
        smq.sendMessage(message=message).execute()

    assert scores(raw) == {}


def test_client_that_does_not_decode_gets_bytes(server, raw):
    smq = RedisSMQ(client=server.raw(), ns="p", qname="q")
    smq.createQueue().execute()
    id = smq.sendMessage(message="m").execute()
    message = smq.receiveMessage().execute()

    assert isinstance(id, str)
    assert message == {"id": id.encode(), "message": b"m", "rc": 1, "ts": message["ts"]}
    assert smq.listQueues().execute() == {b"q"}
    assert smq.changeMessageVisibility(id=message["id"], vt=1).execute() is True
    assert smq.deleteMessage(id=message["id"]).execute() is True
    assert scores(raw) == {}


def test_body_that_cannot_be_decoded_is_returned_as_bytes(smq, queue):
    smq.sendMessage(message=b"\xff\xfe").execute()

    assert smq.receiveMessage().execute()["message"] == b"\xff\xfe"


def test_delete_returns_whether_the_message_existed(smq, queue, raw):
    fresh = smq.sendMessage(message="never received").execute()
    assert smq.deleteMessage(id=fresh).execute() is True
    assert smq.deleteMessage(id=fresh).execute() is False
    assert smq.deleteMessage(id="x").execute() is False
    assert not any(name.startswith(fresh.encode()) for name in fields(raw))


@pytest.mark.parametrize("as_bytes", [True, False])
def test_delete_can_be_part_of_a_transaction(smq, queue, raw, as_bytes):
    id = smq.sendMessage(message="m").execute()
    smq.receiveMessage().execute()
    transaction = smq.deleteMessage(id=id.encode() if as_bytes else id).get_transaction()
    transaction.set("p:done", "yes")
    assert len(scores(raw)) == 1

    assert transaction.execute() == [1, 3, True]
    assert scores(raw) == {}
    assert raw.get("p:done") == b"yes"
    assert not any(name.startswith(id.encode()) for name in fields(raw))


def test_names_that_other_clients_refuse_work_with_a_warning(smq, raw):
    for qname in ("a b", "a.b", "é", "with\x01binary", "x" * 64):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            smq.createQueue(qname=qname).execute()
        assert [warning.filename for warning in caught] == [__file__] * (qname != "x" * 64)
        id = smq.sendMessage(qname=qname, message="m").execute()
        assert smq.popMessage(qname=qname).execute()["id"] == id
        assert qname in smq.listQueues().execute()
        assert raw.exists(f"p:{qname}:Q")


def test_realtime_publishes_the_notification_of_node(server, raw):
    smq = RedisSMQ(port=server.port, ns="p", qname="q", realtime=True)
    smq.createQueue().execute()
    with raw.pubsub(ignore_subscribe_messages=True) as pubsub:
        pubsub.subscribe("p:rt:q")
        pubsub.get_message(timeout=5)
        smq.sendMessage(message="m").execute()
        assert pubsub.get_message(timeout=5)["data"] == b"1"
    smq.quit()


def test_command_after_quit_opens_a_new_connection(server, raw):
    smq = RedisSMQ(port=server.port, ns="p", qname="q", options={"client_name": "of-p"})
    smq.createQueue().execute()
    assert "of-p" in {client["name"] for client in raw.client_list()}
    core = smq.core  # its connections are not closed by being forgotten
    smq.quit()
    wait_until(lambda: "of-p" not in {client["name"] for client in raw.client_list()})
    assert smq.getQueueAttributes().execute()["msgs"] == 0
    assert smq.core is not core
    smq.quit()


def test_client_of_the_caller_stays_open_and_can_be_replaced(server, raw):
    first, second = server.raw(), server.raw()
    smq = RedisSMQ(client=first, ns="p", qname="q")
    smq.createQueue().execute()
    assert smq.setClient(second) is smq
    assert smq.client is second
    smq.sendMessage(message="m").execute()
    smq.quit()
    assert first.ping()
    assert second.ping()
    smq.reset_scripts()


def test_empty_namespace_is_refused(server):
    with pytest.raises(InvalidParameterValue, match="'ns'"):
        RedisSMQ(port=server.port, ns="")


def test_lost_scripts_are_loaded_again(smq, queue, raw):
    smq.sendMessage(message="m").execute()
    raw.script_flush()
    assert smq.receiveMessage().execute()["message"] == "m"


@pytest.mark.parametrize(("options", "attempts"), [({}, 1), ({"retry_deadline": 0}, 1)])
def test_connecting_is_retried_by_the_clients_settings(options, attempts):
    assert len(_refuse_connections(options)) == attempts


def test_connecting_is_retried_until_retry_deadline():
    assert len(_refuse_connections({"retry_deadline": 0.5})) > 1


def _refuse_connections(options):
    """Return the attempts to connect of a client whose own settings allow one."""
    attempts = []

    class Refused(redis.Connection):
        def connect(self):
            attempts.append(self)
            raise redis.exceptions.ConnectionError("refused")

    pool = redis.ConnectionPool(connection_class=Refused, retry=Retry(NoBackoff(), 0))
    smq = RedisSMQ(client=redis.Redis(connection_pool=pool), qname="q", **options)
    with pytest.raises(redis.exceptions.ConnectionError):
        smq.getQueueAttributes().exceptions(False).execute()
    return attempts


def test_every_import_of_pyrsmq_works_from_rsmq_pyrsmq():
    for module, names in {
        "": ["RedisSMQ", "cmd"],
        ".rsmq": ["RedisSMQ"],
        ".consumer": ["RedisSMQConsumer", "RedisSMQConsumerThread"],
        ".cmd": ["NoMessageInQueue", "QueueAlreadyExists", "utils", "SendMessageCommand"],
        ".cmd.exceptions": ["InvalidParameterValue", "QueueDoesNotExist", "RedisSMQException"],
        ".cmd.utils": ["encode_message", "decode_message"],
    }.items():
        imported = importlib.import_module(f"rsmq.pyrsmq{module}")
        for name in names:
            assert getattr(imported, name)
    import rsmq

    assert rsmq.RedisSMQ is pyrsmq.RedisSMQ


def test_bodies_are_converted_to_values_and_back():
    from rsmq.pyrsmq.cmd.utils import decode_message, encode_message

    for value in ({"a": 1}, [1, None], 5, None, True):
        assert decode_message(encode_message(value)) == value
    assert encode_message("text") == decode_message("text") == "text"
    assert decode_message(b"{}") == b"{}"
    assert decode_message('"quoted"') == "quoted"


@pytest.mark.parametrize("id", ["", 7])
def test_an_invalid_id_is_refused(server, raw, id):
    with pytest.raises(InvalidParameterValue, match="'id'"):
        RedisSMQ(port=server.port, ns="p").deleteMessage(qname="q", id=id).execute()


def test_other_helpers_are_those_of_pyrsmq(caplog):
    from rsmq.pyrsmq.cmd import utils

    log = logging.getLogger("test")
    caplog.set_level(logging.DEBUG)
    for value in (0, 5.9, "5", True):
        assert utils.validate_int(value, 0, 5, log, "vt")
    for value in (None, "x", -1, 6, float("inf"), []):
        assert not utils.validate_int(value, 0, 5, log, "vt")
    assert caplog.messages == [
        "vt value is not set", "vt value (x) is not an integer",
        "vt value -1 is less than minimum (0)", "vt value 6 is greater than maximum (5)",
        "vt value (inf) is not an integer", "vt value ([]) is not an integer",
    ]  # fmt: skip
    assert [utils.baseXencode(each) for each in (0, 35, 36, -37)] == ["", "z", "10", "-11"]
    assert utils.baseXencode("255", "0123456789ABCDEF") == "FF"
    assert set(utils.random_string(500, "ab")) == {"a", "b"}
    assert set(utils.random_string(50)) <= set(utils.DEFAULT_CHARSET)
    assert len(utils.make_message_id(1795264742384107)) == 32
    assert utils.make_message_id(1795264742384107).startswith("hod98j94h7")
