"""
Many kinds of invalid input, passed to Node's client and to this library.

Both accept the same input, and raise errors of the same names and texts, except for the input that
PROTOCOL.md's table of accepted deviations explains.
"""

from __future__ import annotations

import itertools

import pytest

from compat.peers import Refused

ID = "h0pefu1000" + "A" * 22
LONG_NAME = "x" * 161

#: The values for each parameter; the queue is called q.
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

VALID = {"qname": "q", "id": ID, "vt": 5, "delay": 0, "maxsize": 2048, "message": "m"}
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

#: For each deviation in PROTOCOL.md the values that it explains, by parameter.
EXPLAINED_VALUES = {
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
    """Return for each client "accepted", or the error with which it refuses the call."""
    args = {name: VALID[name] for name in PARAMETERS[operation]} | {parameter: value}
    results = []
    for client in clients:
        keys.raw.delete(*(keys.list_keys() or ["none"]))
        if operation != "create_queue":
            clients[1].create_queue("q", maxsize=-1)
            keys.raw.zadd(f"{keys.ns}:q", {ID: keys.now_ms() + 60_000})
            keys.raw.hset(f"{keys.ns}:q:Q", ID, "body")
        try:
            getattr(client, operation)(**args)
            results.append("accepted")
        except Refused as refused:
            results.append((refused.name, refused.text))
    return results


def explanation(parameter, value):
    for deviation, values_by_parameter in EXPLAINED_VALUES.items():
        for explained_value in values_by_parameter.get(parameter, ()):
            if type(explained_value) is type(value) and explained_value == value:
                return deviation
    return None


@pytest.mark.parametrize(
    ("operation", "parameter"),
    [(operation, name) for operation, names in PARAMETERS.items() for name in names],
)
def test_invalid_value_is_refused_as_by_node(operation, parameter, our_client, node, keys):
    different = []
    for value in VALUES[parameter]:
        node_outcome, our_outcome = outcomes(operation, parameter, value, (node, our_client), keys)
        if node_outcome != our_outcome and explanation(parameter, value) is None:
            different.append((value, node_outcome, our_outcome))

    assert different == []


@pytest.mark.parametrize("deviation", EXPLAINED_VALUES)
def test_deviation_explains_no_equal_outcome(deviation, our_client, node, keys):
    for parameter, values in EXPLAINED_VALUES[deviation].items():
        for value in values:
            outcomes_by_operation = [
                outcomes(operation, parameter, value, (node, our_client), keys)
                for operation, names in PARAMETERS.items()
                if parameter in names
            ]

            assert any(
                node_outcome != our_outcome for node_outcome, our_outcome in outcomes_by_operation
            ), (parameter, value)


INVALID = {"qname": "a b", "id": "short", "vt": -1, "delay": -1, "maxsize": 7, "message": 5}


@pytest.mark.parametrize("operation", PARAMETERS)
def test_first_of_several_faults_is_the_same(operation, our_client, node):
    """On an existing queue; for a missing queue, own-checks-first applies."""
    names = PARAMETERS[operation]
    our_client.create_queue("q")
    for count in range(2, len(names) + 1):
        for invalid_names in itertools.combinations(names, count):
            args = {name: INVALID[name] if name in invalid_names else VALID[name] for name in names}
            refusals = []
            for client in (node, our_client):
                with pytest.raises(Refused) as refused:
                    getattr(client, operation)(**args)
                refusals.append((refused.value.name, refused.value.text))

            assert refusals[0] == refusals[1], invalid_names


def test_missing_attributes_are_reported_before_an_invalid_name(our_client, node):
    for client in (node, our_client):
        with pytest.raises(Refused) as refused:
            client.set_queue_attributes("a b")
        assert refused.value.name == "noAttributeSupplied"
