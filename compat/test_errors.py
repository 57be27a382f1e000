"""
Every bad input that can be thought of, given to Node's client and to this one.

The names and texts of the errors are the same, and so is what is not an error, but for those inputs
that PROTOCOL.md's table of accepted deviations explains.
"""

from __future__ import annotations

import itertools

import pytest

from compat.peers import Refused

ID = "h0pefu1000" + "A" * 22
LONG_NAME = "x" * 161

#: What each parameter is given; the queue is called q.
VALUES = {
    "qname": [
        None, "", " ", "a b", "a.b", "a/b", "a:b", "é", "😀", "q\n", "\nq", "q\0", LONG_NAME,
        "QUEUES", 0, 7, 1.5, False, True, [], ["q"], {},
    ],
    "id": [
        None, "", " ", "short", ID + "\n", "é" * 32, "A" * 31 + " ", "A" * 65, "A" * 31, "A" * 33,
        "A" * 31 + "-", "A" * 31 + ":", 0, 7, False, True, [], {},
    ],
    "vt": [
        None, "", " ", "abc", "5", "1.9", "-1", "5abc", 0, 1.5, 0.5, -0.5, -1, -1.5, 9999999,
        9999999.5, 10000000, 1e300, True, False, [], [5], {},
    ],
    "delay": [
        None, "", "abc", "5", "1.9", 0, 0.5, -0.5, -1, 9999999, 9999999.5, 10000000, True, [], {},
    ],
    "maxsize": [
        None, "", "abc", "2048", 0, 1, -1, -2, -1.5, 1023, 1023.9, 1024, 1024.7, 65536, 65536.5,
        65537, 65565, 1e300, True, [], {},
    ],
    "message": [None, 0, 7, 1.5, True, False, [], ["m"], {}, {"a": 1}],
}  # fmt: skip

GOOD = {"qname": "q", "id": ID, "vt": 5, "delay": 0, "maxsize": 2048, "message": "m"}
PARAMETERS = {
    "create_queue": ("qname", "vt", "delay", "maxsize"),
    "get_queue_attributes": ("qname",),
    "set_queue_attributes": ("qname", "vt", "delay", "maxsize"),
    "delete_queue": ("qname",),
    "send_message": ("qname", "message", "delay"),
    "receive_message": ("qname", "vt"),
    "pop_message": ("qname",),
    "change_message_visibility": ("qname", "id", "vt"),
    "delete_message": ("qname", "id"),
}

#: Deviation of PROTOCOL.md: what it explains, as parameter and values.
EXPLAINED = {
    "reserved-name": {"qname": ["QUEUES"]},
    "no-stringified-names": {
        "qname": [0, 7, True, False, ["q"]],
        "id": [0, False],
    },
    "foreign-ids": {"id": ["A" * 31, "A" * 33, "A" * 31 + "-"]},
    "numbers": {
        "vt": ["5", "1.9", "5abc", 0.5, 1.5, -0.5, 9999999.5, 1e300, [5], None],
        "delay": ["5", "1.9", 0.5, -0.5, 9999999.5, None],
        "maxsize": ["2048", 1024.7, 65536.5, -1.5, None],
    },
}


def outcomes(operation, parameter, value, clients, keys):
    """Whether Node takes the call and whether ours does, or how they refuse it."""
    args = {name: GOOD[name] for name in PARAMETERS[operation]} | {parameter: value}
    found = []
    for client in clients:
        keys.raw.delete(*(keys.all() or ["none"]))
        if operation != "create_queue":
            clients[1].create_queue("q", maxsize=-1)
            keys.raw.zadd(f"{keys.ns}:q", {ID: keys.now_ms() + 60_000})
            keys.raw.hset(f"{keys.ns}:q:Q", ID, "body")
        try:
            getattr(client, operation)(**args)
            found.append("taken")
        except Refused as refused:
            found.append((refused.name, refused.text))
    return found


def explanation(parameter, value):
    for deviation, explained in EXPLAINED.items():
        for other in explained.get(parameter, ()):
            if type(other) is type(value) and other == value:
                return deviation
    return None


@pytest.mark.parametrize(
    ("operation", "parameter"),
    [(operation, name) for operation, names in PARAMETERS.items() for name in names],
)
def test_a_bad_value_is_refused_as_node_refuses_it(operation, parameter, ours, node, keys):
    different = []
    for value in VALUES[parameter]:
        theirs, mine = outcomes(operation, parameter, value, (node, ours), keys)
        if theirs != mine and explanation(parameter, value) is None:
            different.append((value, theirs, mine))

    assert different == []


@pytest.mark.parametrize("deviation", EXPLAINED)
def test_a_deviation_explains_nothing_that_is_equal(deviation, ours, node, keys):
    for parameter, values in EXPLAINED[deviation].items():
        for value in values:
            found = [
                outcomes(operation, parameter, value, (node, ours), keys)
                for operation, names in PARAMETERS.items()
                if parameter in names
            ]

            assert any(theirs != mine for theirs, mine in found), (parameter, value)


BAD = {"qname": "a b", "id": "short", "vt": -1, "delay": -1, "maxsize": 7, "message": 5}


@pytest.mark.parametrize("operation", PARAMETERS)
def test_of_several_faults_the_same_one_is_named(operation, ours, node):
    """On a queue that is there; where it is missing, own-checks-first applies."""
    names = PARAMETERS[operation]
    ours.create_queue("q")
    for count in range(2, len(names) + 1):
        for faulty in itertools.combinations(names, count):
            args = {name: BAD[name] if name in faulty else GOOD[name] for name in names}
            refusals = []
            for client in (node, ours):
                with pytest.raises(Refused) as refused:
                    getattr(client, operation)(**args)
                refusals.append((refused.value.name, refused.value.text))

            assert refusals[0] == refusals[1], faulty


def test_setting_nothing_is_named_before_a_bad_name(ours, node):
    for client in (node, ours):
        with pytest.raises(Refused) as refused:
            client.set_queue_attributes("a b")
        assert refused.value.name == "noAttributeSupplied"
