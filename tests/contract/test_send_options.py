"""
The options of a send with each other: a pair does what both do, or is refused and changes nothing.

The arguments of each option, with those that it needs, and the pairs that are refused
follow from the table of options.
"""

from __future__ import annotations

import itertools

import pytest

from rsmq import InvalidCombination, InvalidFormat, InvalidValue
from rsmq.vocabulary.sends import BATCH, SEND_OPTIONS
from rsmq.wire.ids import NODE_ID_LENGTH
from tests.send_examples import AT, EXAMPLES

OPTIONS = {"plain": {}, **EXAMPLES}
TABLE = {each.name: each for each in SEND_OPTIONS}


def find_refused(options):
    """Return the argument that an error names, of options that can't be combined; else None."""
    return next((a for a, b in itertools.permutations(options, 2) if b in TABLE[a].excludes), None)


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
    ({"limit_key": "l"}, "limit_key"),
    ({"limit_key": "l", "group": "g"}, "limit_key"),
    ({"max_running": 1}, "max_running"),
    ({"max_running": 1, "group": "g"}, "max_running"),
    ({"rate": "1/s"}, "rate"),
]

#: Arguments that exclude each other in a batch only if one message has both.
EXCLUDED = [
    ({"delay": 5, "front": True}, "delay"),
    ({"delay": 5, "deliver_at": AT}, "deliver_at"),
    ({"delay": 0, "deliver_at": AT}, "deliver_at"),
    ({"front": True, "deliver_at": AT}, "deliver_at"),
    ({"front": True, "group": "g"}, "front"),
    ({"front": True, "limit_key": "l", "rate": "1/s"}, "front"),
    ({"group": "g", "limit_key": "l", "rate": "1/s"}, "limit_key"),
]

PAIRS = list(itertools.combinations(OPTIONS, 2))

pytestmark = pytest.mark.parametrize("backend", ["redis"])


class Place:
    """A queue, and its raw keys."""

    def __init__(self, env):
        self.client, self.ns, self.raw = env.rsmq, env.ns, env.raw
        self.client.create_queue("q")


@pytest.fixture
def place(env):
    return Place(env)


def send(place, body, options):
    return place.client.send_message("q", body, **options)


def send_batch(place, body, options):
    """Send the message in a batch of one."""
    arguments = {
        TABLE[name].name_in(BATCH): [value] if TABLE[name].of_message else value
        for name, value in options.items()
    }
    (id,) = place.client.send_messages("q", [body], **arguments)
    return id


def messages(place, queue="q"):
    """Return the score, None of one that is held back, and the body of each message by id."""
    key = f"{place.ns}:{queue}"
    scores = dict(place.raw.zrange(key, 0, -1, withscores=True))
    return {
        id.decode(): (scores.get(id), body.decode())
        for id, body in place.raw.hgetall(f"{key}:Q").items()
        if len(id) == NODE_ID_LENGTH
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
    limits = place.raw.hgetall(f"{place.ns}:{queue}:x:limits")
    flag = place.raw.hget(f"{place.ns}:{queue}:Q", "x:limited")
    ends = b"%d" % (sent_ms(id) + 9_000_000_000) if "expires" in options else b""
    retries = b"2" if "max_retries" in options else b""
    if ends or retries:
        assert limits == {id.encode(): retries + b":" + ends}
        assert flag == b"1"
    else:
        assert not limits
        assert not flag


def check_facts(place, id, options):
    """Check the group, the limit key and the record of a message that was sent once."""
    raw, key = place.raw, f"{place.ns}:q"
    group = raw.hget(f"{key}:x:group_of", id)
    if "group" in options:
        assert group.endswith(b":g")
    elif "max_running" in options:
        assert group.endswith(b":\x012:l")
    else:  # a rate alone holds nothing back
        assert group is None
    assert raw.exists(f"{key}:x:job:{id}") == ("track" in options)


def test_every_option_has_a_pair_with_every_other_one(env):
    assert OPTIONS.keys() - {"plain"} == TABLE.keys()
    for name, options in OPTIONS.items():
        needs = TABLE[name].needs if name in TABLE else ()
        assert all(options.keys() & one_of for one_of in needs), name


@pytest.mark.parametrize("call", [send, send_batch])
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_two_options_do_what_both_do_or_are_refused(place, call, pair):
    options = {**OPTIONS[pair[0]], **OPTIONS[pair[1]]}
    if refused := find_refused(options):
        with pytest.raises(InvalidCombination) as caught:
            call(place, "1", options)
        assert isinstance(caught.value, InvalidValue)
        assert isinstance(caught.value, InvalidFormat)
        assert caught.value.text == f"Invalid {refused} format"
        assert messages(place) == {}
        return

    first = call(place, "1", options)
    ((id, (score, body)),) = messages(place).items()
    assert (id, body) == (first, "1")
    check_time(id, score, options)
    check_limits(place, id, options)
    check_facts(place, id, options)

    second = call(place, "2", options)
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
@pytest.mark.parametrize(("options", "item"), EXCLUDED)
def test_options_that_exclude_each_other_are_named_by_the_error(place, call, options, item):
    with pytest.raises(InvalidCombination) as caught:
        call(place, "1", options)
    error = caught.value
    (excluded,) = error.excludes
    assert (error.argument, error.needs) == (item, ())
    assert excluded in options
    assert f"It can't be combined with {excluded}." in error.hint
    assert messages(place) == {}


def test_each_message_of_a_batch_may_have_a_group_or_a_limit_key(place):
    ids = place.client.send_messages(
        "q", ["1", "2"], groups=["g", None], limit_keys=[None, "l"], max_running=1
    )
    with pytest.raises(InvalidCombination, match="limit_key"):
        place.client.send_messages(
            "q", ["1", "2"], groups=["g", "h"], limit_keys=[None, "l"], max_running=1
        )
    assert messages(place).keys() == set(ids)


@pytest.mark.parametrize("call", [send, send_batch])
@pytest.mark.parametrize(("options", "item"), INCOMPLETE)
def test_an_option_that_lacks_another_one_is_refused(place, call, options, item):
    kind = InvalidCombination if isinstance(options.get("replace", True), bool) else InvalidFormat
    with pytest.raises(kind) as caught:
        call(place, "1", options)
    assert caught.value.text == f"Invalid {item} format"
    assert caught.value.hint
    assert messages(place) == {}


@pytest.mark.parametrize("option", [each.name for each in SEND_OPTIONS if not each.in_publish])
def test_publish_has_none_of_the_other_options(place, option):
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        place.client.publish(["q"], "1", **OPTIONS[option])
    assert messages(place) == {}


#: The options of ``publish``.
PUBLISHED = ("plain", *(each.name for each in SEND_OPTIONS if each.in_publish))


@pytest.mark.parametrize("pair", list(itertools.combinations(PUBLISHED, 2)), ids=" and ".join)
def test_publish_does_what_two_options_do_in_each_queue(place, pair):
    options = {**OPTIONS[pair[0]], **OPTIONS[pair[1]]}
    place.client.create_queue("other")
    if find_refused(options):
        with pytest.raises(InvalidCombination):
            place.client.publish(["q", "other"], "1", **options)
        assert messages(place) == messages(place, "other") == {}
        return

    ids = place.client.publish(["q", "other"], "1", **options)
    for queue, id in ids.items():
        ((stored, (score, body)),) = messages(place, queue).items()
        assert (stored, body) == (id, "1")
        check_time(stored, score, options)
        check_limits(place, stored, options, queue)


def test_publish_adds_nothing_if_the_message_would_expire_too_early_in_one_queue(place):
    place.client.create_queue("late", delay=60)
    with pytest.raises(InvalidValue, match="expires"):
        place.client.publish(["q", "late"], "1", expires=60)
    assert messages(place) == messages(place, "late") == {}
