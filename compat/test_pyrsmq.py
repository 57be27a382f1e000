"""``rsmq.pyrsmq`` and the original PyRSMQ: the same calls, results and programs."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from compat.peers import FOLDER, PyRSMQ, Refused, Shim

EXAMPLES = FOLDER.parent / "scripts" / "examples"
PYRSMQ_PYTHON = FOLDER / "pyrsmq" / ".venv" / "bin" / "python"

#: A session of a program: command, parameters. ``$`` is the id of the last message.
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

#: Invalid values; as a call of its own, each raises at once.
INVALID_CALLS = [
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


#: Values out of range as keywords: PyRSMQ ignores them.
IGNORED_KEYWORDS = [
    ("createQueue", {"qname": "q", "vt": -1, "delay": 10000000, "maxsize": 2048}),
    ("getQueueAttributes", {"qname": "q"}),
    ("setQueueAttributes", {"qname": "q", "vt": 20, "delay": 0, "maxsize": 4096}),
    ("setQueueAttributes", {"qname": "q", "vt": -3, "delay": -1, "maxsize": -2}),
    ("setQueueAttributes", {"qname": "q", "vt": "abc", "delay": 10000000, "maxsize": 1023}),
    ("setQueueAttributes", {"qname": "q", "vt": 25, "delay": "", "maxsize": 65566}),
    ("createQueue", {"qname": "other", "vt": "x", "delay": -1, "maxsize": -1}),
    ("getQueueAttributes", {"qname": "other"}),
    ("sendMessage", {"qname": "q", "message": "m", "delay": -1}),
    ("receiveMessage", {"qname": "q", "vt": -2}),
    ("receiveMessage", {"qname": "q", "vt": 5}),
    ("changeMessageVisibility", {"qname": "q", "id": "$", "vt": 10000000}),
    ("popMessage", {"qname": "q"}),
    ("changeMessageVisibility", {"qname": "q", "id": "$", "vt": 0}),
    ("popMessage", {"qname": "q"}),
]


def run_session(peer, ns, calls, *, fluent):
    """Return the result of every call, without times and ids."""
    peer.ns = ns
    last_id, results = None, []
    for operation, parameters in calls:
        args = {name: last_id if value == "$" else value for name, value in parameters.items()}
        request = {"op": operation, "args": args, "ns": ns, "fluent": fluent}
        try:
            result = peer.send(request)
        except Refused as refused:
            results.append((operation, refused.name, refused.text))
            continue
        if operation == "sendMessage":
            last_id, result = result, re.sub("^[0-9a-z]{10}[A-Za-z0-9]{22}$", "an id", str(result))
        if isinstance(result, dict):
            assert result.get("id", last_id) == last_id
            result = {
                name: type(value).__name__ if name in ("id", "ts", "created", "modified") else value
                for name, value in result.items()
            }
        results.append((operation, result))
    return results


@pytest.mark.parametrize("fluent", [True, False], ids=["by calls", "keywords"])
def test_session_has_the_same_results_as_pyrsmq(peers, ns, keys, fluent):
    pyrsmq_results = run_session(peers(PyRSMQ), ns, SESSION, fluent=fluent)
    keys.raw.delete(*keys.list_keys())
    our_results = run_session(peers(Shim), ns, SESSION, fluent=fluent)

    for (operation, parameters), (pyrsmq_result, our_result) in zip(
        SESSION, zip(pyrsmq_results, our_results, strict=True), strict=True
    ):
        assert pyrsmq_result == our_result, (operation, parameters)


def test_invalid_value_is_refused_as_by_pyrsmq(peers, ns, keys):
    pyrsmq_results = run_session(peers(PyRSMQ), ns, INVALID_CALLS, fluent=True)
    our_results = run_session(peers(Shim), ns, INVALID_CALLS, fluent=True)

    assert [result[1] for result in pyrsmq_results] == ["invalidValue"] * len(INVALID_CALLS)
    assert [result[:2] for result in pyrsmq_results] == [result[:2] for result in our_results]
    assert keys.list_keys() == []


def test_values_out_of_range_are_ignored_as_by_pyrsmq(peers, ns, keys):
    pyrsmq_results = run_session(peers(PyRSMQ), ns, IGNORED_KEYWORDS, fluent=False)
    keys.raw.delete(*keys.list_keys())
    our_results = run_session(peers(Shim), ns, IGNORED_KEYWORDS, fluent=False)

    assert pyrsmq_results == our_results


def test_examples_print_the_same_with_both(server, tmp_path):
    output_lines = {}
    for python, module in ((PYRSMQ_PYTHON, "rsmq"), (sys.executable, "rsmq.pyrsmq")):
        lines = []
        for name in ("pyrsmq_producer.py", "pyrsmq_consumer.py"):
            program = tmp_path / name
            program.write_text(
                (EXAMPLES / name).read_text().replace("from rsmq.pyrsmq", f"from {module}")
            )
            result = subprocess.run(
                [python, program, str(server.port)],
                capture_output=True, text=True, check=False,
            )  # fmt: skip
            assert result.returncode == 0, result.stderr
            lines += result.stdout.splitlines()
        output_lines[module] = lines

    assert sorted(output_lines["rsmq"]) == sorted(output_lines["rsmq.pyrsmq"])
    assert output_lines["rsmq.pyrsmq"][:5] == [f"sent order {number}" for number in range(1, 6)]
    assert "order 3 is done, try 2" in output_lines["rsmq.pyrsmq"]
    assert output_lines["rsmq.pyrsmq"][-1] == "messages left: 0"


def test_own_tests_of_pyrsmq_pass(tmp_path):
    """With changed imports, and with the largest maxsize of other clients instead of 65565."""
    (site_packages,) = PYRSMQ_PYTHON.parents[1].glob("lib/python*/site-packages")
    folder = tmp_path / "tests"
    folder.mkdir()
    for path in (site_packages / "tests").glob("*.py"):
        text = re.sub(r"^from rsmq\b", "from rsmq.pyrsmq", path.read_text(), flags=re.MULTILINE)
        (folder / path.name).write_text(text.replace("65565", "65536"))
    result = subprocess.run(
        [sys.executable, "-m", "unittest", "tests.test_rsmq", "tests.test_utils"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert result.returncode == 0, result.stderr
    assert re.search("^Ran 21 tests", result.stderr, re.MULTILINE)
