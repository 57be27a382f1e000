"""``rsmq.pyrsmq`` against the real PyRSMQ: the same calls, the same answers; the same programs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from compat.peers import HERE, PyRSMQ, Refused, Shim

EXAMPLES = HERE.parent / "scripts" / "examples"
REAL = HERE / "pyrsmq" / ".venv" / "bin" / "python"

#: A session as a program has it: command, parameters. ``$`` is the id of the last message.
SESSION = [
    ("createQueue", {"qname": "q", "vt": 20, "delay": 0, "maxsize": 2048}),
    ("createQueue", {"qname": "q"}),
    ("createQueue", {"qname": "other", "maxsize": -1}),
    ("listQueues", {}),
    ("getQueueAttributes", {"qname": "q"}),
    ("receiveMessage", {"qname": "q"}),
    ("popMessage", {"qname": "q"}),
    ("sendMessage", {"qname": "q", "message": "text"}),
    ("receiveMessage", {"qname": "q"}),
    ("receiveMessage", {"qname": "q"}),
    ("changeMessageVisibility", {"qname": "q", "id": "$", "vt": 0}),
    ("receiveMessage", {"qname": "q", "vt": 30}),
    ("deleteMessage", {"qname": "q", "id": "$"}),
    ("deleteMessage", {"qname": "q", "id": "$"}),
    ("changeMessageVisibility", {"qname": "q", "id": "$", "vt": 5}),
    ("sendMessage", {"qname": "q", "message": {"a": [1, None, "é"]}}),
    ("popMessage", {"qname": "q"}),
    ("sendMessage", {"qname": "q", "message": "é😀\0"}),
    ("popMessage", {"qname": "q"}),
    ("sendMessage", {"qname": "q", "message": 5, "delay": 0}),
    ("popMessage", {"qname": "q"}),
    ("sendMessage", {"qname": "q", "message": "x" * 5000}),
    ("popMessage", {"qname": "q"}),
    ("sendMessage", {"qname": "q", "message": "later", "delay": 60.5}),
    ("receiveMessage", {"qname": "q"}),
    ("getQueueAttributes", {"qname": "q"}),
    ("setQueueAttributes", {"qname": "q", "vt": 7, "delay": 3, "maxsize": 4096}),
    ("changeMessageVisibility", {"qname": "q", "id": "$"}),
    ("deleteQueue", {"qname": "other"}),
    ("deleteQueue", {"qname": "other"}),
    ("getQueueAttributes", {"qname": "other"}),
    ("sendMessage", {"qname": "other", "message": "m"}),
    ("receiveMessage", {"qname": "other"}),
    ("popMessage", {"qname": "other"}),
    ("changeMessageVisibility", {"qname": "other", "id": "$", "vt": 5}),
    ("deleteMessage", {"qname": "other", "id": "$"}),
    ("createQueue", {"qname": "a b"}),
    ("createQueue", {"qname": "x" * 64}),
    ("listQueues", {}),
    ("deleteQueue", {"qname": "q"}),
]

#: By a call of its own, a wrong value raises at once.
WRONG = [
    ("createQueue", {"qname": ""}),
    ("createQueue", {"qname": "a:b"}),
    ("createQueue", {"qname": "x" * 65}),
    ("createQueue", {"qname": "q", "vt": -1}),
    ("createQueue", {"qname": "q", "vt": 10000000}),
    ("createQueue", {"qname": "q", "vt": "abc"}),
    ("createQueue", {"qname": "q", "delay": -1}),
    ("createQueue", {"qname": "q", "maxsize": 1023}),
    ("createQueue", {"qname": "q", "maxsize": 65566}),
    ("receiveMessage", {"qname": "q", "vt": -2}),
    ("sendMessage", {"qname": "q", "message": "m", "delay": "soon"}),
    ("changeMessageVisibility", {"qname": "q", "id": ""}),
]


def session(peer, ns, calls, *, fluent):
    """What every call answered, times and ids left out."""
    peer.ns = ns
    last, answers = None, []
    for operation, given in calls:
        args = {name: last if value == "$" else value for name, value in given.items()}
        request = {"op": operation, "args": args, "ns": ns, "fluent": fluent}
        try:
            answer = peer.send(request)
        except Refused as refused:
            answers.append((operation, refused.name, refused.text))
            continue
        if operation == "sendMessage":
            last, answer = answer, re.sub("^[0-9a-z]{10}[A-Za-z0-9]{22}$", "an id", str(answer))
        if isinstance(answer, dict):
            assert answer.get("id", last) == last
            answer = {
                name: type(value).__name__ if name in ("id", "ts", "created", "modified") else value
                for name, value in answer.items()
            }
        answers.append((operation, answer))
    return answers


@pytest.mark.parametrize("fluent", [True, False], ids=["by calls", "keywords"])
def test_a_session_is_answered_as_pyrsmq_answers_it(peers, ns, keys, fluent):
    theirs = session(peers(PyRSMQ), ns, SESSION, fluent=fluent)
    keys.raw.delete(*keys.all())
    mine = session(peers(Shim), ns, SESSION, fluent=fluent)

    for (operation, given), (their, our) in zip(
        SESSION, zip(theirs, mine, strict=True), strict=True
    ):
        assert their == our, (operation, given)


def test_a_wrong_value_is_refused_as_pyrsmq_refuses_it(peers, ns, keys):
    theirs = session(peers(PyRSMQ), ns, WRONG, fluent=True)
    mine = session(peers(Shim), ns, WRONG, fluent=True)

    assert [answer[1] for answer in theirs] == ["invalidValue"] * len(WRONG)
    assert [answer[:2] for answer in theirs] == [answer[:2] for answer in mine]
    assert keys.all() == []


def test_the_examples_say_the_same_under_both(server, tmp_path):
    said = {}
    for python, module in ((REAL, "rsmq"), (sys.executable, "rsmq.pyrsmq")):
        lines = []
        for name in ("pyrsmq_producer.py", "pyrsmq_consumer.py"):
            program = tmp_path / name
            program.write_text(
                (EXAMPLES / name).read_text().replace("from rsmq.pyrsmq", f"from {module}")
            )
            result = subprocess.run(
                [python, program, str(server.port)],
                capture_output=True, text=True, check=False, timeout=50,
            )  # fmt: skip
            assert result.returncode == 0, result.stderr
            lines += result.stdout.splitlines()
        said[module] = lines

    assert sorted(said["rsmq"]) == sorted(said["rsmq.pyrsmq"])
    assert said["rsmq.pyrsmq"][:5] == [f"sent order {number}" for number in range(1, 6)]
    assert "order 3 is done, try 2" in said["rsmq.pyrsmq"]
    assert said["rsmq.pyrsmq"][-1] == "messages left: 0"
