"""
The options of a send with each other: a pair does what both do, or is refused and changes nothing.

``OPTIONS`` has the arguments of each option, ``REFUSED`` the pairs that are refused. A new option
of a send belongs here.
"""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from rsmq import AsyncCells, Cells, InvalidCombination, InvalidFormat, InvalidValue
from rsmq.wire.cells import name_of_cell
from tests.blocking import Blocking

AT = datetime.now(UTC).replace(microsecond=0) + timedelta(days=30)

OPTIONS = {
    "plain": {},
    "dedup_id": {"dedup_id": "d"},
    "unique_key": {"unique_key": "k"},
    "replace": {"unique_key": "k", "replace": True},
    "max_wait": {"unique_key": "k", "replace": True, "delay": 5, "max_wait": 5},
    "delay": {"delay": 5},
    "deliver_at": {"deliver_at": AT},
    "front": {"front": True},
    "expires": {"expires": 9_000_000},
    "max_retries": {"max_retries": 2},
}

#: The pairs that are refused, and the argument that the error names.
REFUSED = {
    ("max_wait", "deliver_at"): "deliver_at",
    ("max_wait", "front"): "delay",
    ("delay", "deliver_at"): "deliver_at",
    ("delay", "front"): "delay",
    ("deliver_at", "front"): "deliver_at",
}

#: Arguments that lack others, and the one that the error names.
INCOMPLETE = [
    ({"replace": True}, "replace"),
    ({"replace": True, "dedup_id": "d"}, "replace"),
    ({"replace": 1, "unique_key": "k"}, "replace"),
    ({"max_wait": 5}, "max_wait"),
    ({"max_wait": 5, "delay": 1, "unique_key": "k"}, "max_wait"),
    ({"max_wait": 5, "replace": True, "unique_key": "k"}, "max_wait"),
    ({"max_wait": 5, "replace": True, "unique_key": "k", "deliver_at": AT}, "max_wait"),
    ({"max_wait": 5, "replace": True, "unique_key": "k", "front": True}, "max_wait"),
]

PAIRS = list(itertools.combinations(OPTIONS, 2))

pytestmark = pytest.mark.parametrize("backend", ["redis"])


class Plain:
    """A queue of a plain client."""

    def __init__(self, env):
        self.client, self.ns = env.rsmq, [env.ns]

    def local(self, id):
        return id


class InCells(Plain):
    """A queue of a set of cells."""

    def __init__(self, env):
        self.ns = [name_of_cell(env.ns, index) for index in range(3)]
        kind = Cells if env._runner is None else AsyncCells
        client = kind.from_url(env.url, ns=env.ns, cells=3)
        self.client = client if env._runner is None else Blocking(env._runner, client)
        env._closing.append(self.client.close)

    def local(self, id):
        return id.partition("-")[2]


@pytest.fixture(params=[Plain, InCells])
def place(env, request):
    made = request.param(env)
    made.client.create_queue("q")
    made.raw = env.raw
    return made


def send(place, body, options):
    return place.client.send_message("q", body, **options)


def send_batch(place, body, options):
    """Send the message in a batch of one."""
    lists = {f"{name}s": [options[name]] for name in ("dedup_id", "unique_key") if name in options}
    rest = {name: value for name, value in options.items() if f"{name}s" not in lists}
    (id,) = place.client.send_messages("q", [body], **rest, **lists)
    return id


def messages(place, queue="q"):
    """Return the score and the body of each message by id, of all cells."""
    return {
        id.decode(): (score, place.raw.hget(f"{ns}:{queue}:Q", id).decode())
        for ns in place.ns
        for id, score in place.raw.zrange(f"{ns}:{queue}", 0, -1, withscores=True)
    }


def sent_ms(id):
    return int(id[:10], 36) // 1000


def check_time(id, score, options):
    """Check the score of a message that was sent once with these options."""
    if "delay" in options:
        assert score == sent_ms(id) + 5000
    elif "deliver_at" in options:
        assert score == AT.timestamp() * 1000
    elif "front" in options:
        assert score < sent_ms(id)
    else:
        assert score == sent_ms(id)


def check_limits(place, id, options, queue="q"):
    limits = [place.raw.hgetall(f"{ns}:{queue}:x:limits") for ns in place.ns]
    flags = [place.raw.hget(f"{ns}:{queue}:Q", "x:limited") for ns in place.ns]
    ends = b"%d" % (sent_ms(id) + 9_000_000_000) if "expires" in options else b""
    retries = b"2" if "max_retries" in options else b""
    if ends or retries:
        assert {id.encode(): retries + b":" + ends} in limits
        assert flags.count(b"1") == 1
    else:
        assert not any(limits)
        assert not any(flags)


@pytest.mark.parametrize("call", [send, send_batch])
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_options_do_what_both_do_or_are_refused(place, call, pair):
    options = {**OPTIONS[pair[0]], **OPTIONS[pair[1]]}
    if pair in REFUSED:
        with pytest.raises(InvalidCombination) as caught:
            call(place, "1", options)
        assert isinstance(caught.value, InvalidValue)
        assert isinstance(caught.value, InvalidFormat)
        assert caught.value.text == f"Invalid {REFUSED[pair]} format"
        assert messages(place) == {}
        return

    first = place.local(call(place, "1", options))
    ((id, (score, body)),) = messages(place).items()
    assert (id, body) == (first, "1")
    check_time(id, score, options)
    check_limits(place, id, options)

    second = place.local(call(place, "2", options))
    stored = messages(place)
    if "dedup_id" in options:
        assert second == first
        assert stored == {first: (score, "1")}
    elif "unique_key" in options:
        assert second == first
        assert stored[first][1] == ("2" if "replace" in options else "1")
        assert len(stored) == 1
        if "max_wait" in options or "delay" not in options:
            assert stored[first][0] <= score
    else:
        assert {each: body for each, (_, body) in stored.items()} == {first: "1", second: "2"}


@pytest.mark.parametrize("call", [send, send_batch])
@pytest.mark.parametrize(("options", "item"), INCOMPLETE)
def test_an_option_that_lacks_another_one_is_refused(place, call, options, item):
    kind = InvalidCombination if isinstance(options.get("replace", True), bool) else InvalidFormat
    with pytest.raises(kind) as caught:
        call(place, "1", options)
    assert caught.value.text == f"Invalid {item} format"
    assert caught.value.hint
    assert messages(place) == {}


@pytest.mark.parametrize("option", ["dedup_id", "unique_key", "replace", "max_wait", "front"])
def test_publish_has_none_of_the_options_that_look_for_an_earlier_message(place, option):
    with pytest.raises(TypeError):
        place.client.publish(["q"], "1", **OPTIONS[option])
    assert messages(place) == {}


#: The options of ``publish``.
PUBLISHED = ("plain", "delay", "deliver_at", "expires", "max_retries")


@pytest.mark.parametrize("pair", list(itertools.combinations(PUBLISHED, 2)), ids=" and ".join)
def test_publish_does_what_two_options_do_in_each_queue(place, pair):
    options = {**OPTIONS[pair[0]], **OPTIONS[pair[1]]}
    place.client.create_queue("other")
    if pair in REFUSED:
        with pytest.raises(InvalidCombination):
            place.client.publish(["q", "other"], "1", **options)
        assert messages(place) == messages(place, "other") == {}
        return

    ids = place.client.publish(["q", "other"], "1", **options)
    for queue, id in ids.items():
        ((stored, (score, body)),) = messages(place, queue).items()
        assert (stored, body) == (place.local(id), "1")
        check_time(stored, score, options)
        check_limits(place, stored, options, queue)


def test_publish_adds_nothing_if_the_message_would_expire_too_early_in_one_queue(place):
    place.client.create_queue("late", delay=60)
    with pytest.raises(InvalidValue, match="expires"):
        place.client.publish(["q", "late"], "1", expires=60)
    assert messages(place) == messages(place, "late") == {}
