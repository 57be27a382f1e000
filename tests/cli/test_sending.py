"""``rsmq send`` and ``rsmq publish``: what stands in Redis is what was given, byte for byte."""

from __future__ import annotations

import os
import subprocess

import pytest

from rsmq.cli.commands.input_batches import batches_of


@pytest.fixture
def q(rsmq):
    rsmq.create_queue("q")
    return "q"


def bodies(raw, ns, queue="q"):
    """Bodies in the order of the queue."""
    return [raw.hget(f"{ns}:{queue}:Q", id) for id in raw.zrange(f"{ns}:{queue}", 0, -1)]


def ids(raw, ns, queue="q"):
    return [id.decode() for id in raw.zrange(f"{ns}:{queue}", 0, -1)]


def test_arguments_are_messages_and_their_ids_are_printed(cli, raw, ns, q):
    ended = cli("send", q, "hello", "", "a\tb", "-x", "--", "--json")

    assert ended.code == 2
    assert ended.error.startswith("No such option")
    assert ended.error.endswith("See rsmq send --help.")
    ended = cli("send", q, "--", "hello", "", "a\tb", "-x")
    assert ended.lines == ids(raw, ns)
    assert bodies(raw, ns) == [b"hello", b"", b"a\tb", b"-x"]
    assert cli("sn", q, "more", "--json").json == ids(raw, ns)[-1:]


def test_bytes_of_an_argument_that_are_no_utf_8_are_kept(processes, raw, ns, q):
    code, _, _ = processes("send", q, os.fsdecode(b"\xff\xfe"))

    assert code == 0
    assert bodies(raw, ns) == [b"\xff\xfe"]


def test_lines_of_the_standard_input_are_messages(cli, raw, ns, q):
    ended = cli("send", q, "-", stdin=b"one\n\nthree\r\n\xff\x00 \nlast")

    assert ended.lines == ids(raw, ns)
    assert bodies(raw, ns) == [b"one", b"", b"three\r", b"\xff\x00 ", b"last"]


def test_lines_of_a_file_are_messages(cli, raw, ns, q, tmp_path):
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")

    assert cli("send", q, "--file", tmp_path / "lines").code == 0
    assert bodies(raw, ns) == [b"one", b"two"]


def test_nul_may_end_a_message(cli, raw, ns, q):
    ended = cli("send", q, "-f", "-", "-0", "--json", stdin=b"a\nb\0\0c")

    assert ended.json == ids(raw, ns)
    assert bodies(raw, ns) == [b"a\nb", b"", b"c"]


def test_a_whole_file_may_be_a_message(cli, raw, ns, q):
    assert cli("send", q, "-", "--whole", stdin=b"a\nb\n\xff").code == 0
    assert cli("send", q, "--file", "-", "--whole").code == 0
    assert bodies(raw, ns) == [b"a\nb\n\xff", b""]


def test_an_empty_input_sends_nothing(cli, raw, ns, q):
    assert cli("send", q, "-").raw == b""
    assert cli("send", q, "-", "--json").json == []
    assert bodies(raw, ns) == []


def test_nothing_given_is_told(cli, raw, ns, q):
    for arguments in ((), ("a", "--file", "x"), ("a", "--whole"), ("a", "-0")):
        ended = cli("send", q, *arguments, stdin=b"line\n")
        assert ended.code == 2
        assert ended.error.startswith("Give bodies, or ")
    assert bodies(raw, ns) == []


def test_a_delay_hides_and_the_front_is_first(cli, raw, ns, rsmq, q):
    cli("send", q, "now")
    cli("send", q, "later", "--delay", 100)
    cli("send", q, "-", "--front", stdin=b"first\nsecond\n")

    assert bodies(raw, ns) == [b"first", b"second", b"now", b"later"]
    assert rsmq.count_messages(q).delayed == 1
    assert (
        "--front means before all that wait now"
        in cli("send", q, "x", "--front", "--delay", 1).stderr
    )


def test_too_many_for_the_front_are_told_and_none_is_sent(cli, raw, ns, q):
    ended = cli("send", q, "-", "--front", stdin=b"x\n" * 10_001)

    assert ended.code == 2
    assert "Nothing was sent." in ended.error
    assert bodies(raw, ns) == []


def test_a_second_send_under_a_name_adds_nothing(cli, raw, ns, q):
    first = cli("send", q, "a", "--dedup-id", "order-17")
    second = cli("send", q, "-", "--whole", "--dedup-id", "order-17", stdin=b"b")

    assert first.out == second.out
    assert bodies(raw, ns) == [b"a"]
    assert "that of one message" in cli("send", q, "a", "b", "--dedup-id", "x").error
    assert "that of one message" in cli("send", q, "-", "--dedup-id", "x").error


def test_text_is_held_against_maxsize_as_node_does(cli, raw, ns, rsmq):
    rsmq.create_queue("small", maxsize=1024)

    assert cli("send", "small", "é" * 1024).code == 0
    assert cli("send", "small", "é" * 1025).code == 2
    assert cli("send", "small", "-", stdin=b"\xff" * 1025).code == 2
    assert bodies(raw, ns, "small") == [("é" * 1024).encode()]


def test_a_line_that_is_too_long_is_named_with_how_many_were_sent(cli, raw, ns, rsmq):
    rsmq.create_queue("small", maxsize=1024)
    lines = [b"x"] * 10_000 + [b"x", b"y" * 1025, b"x"]
    ended = cli("send", "small", "-", "--json", stdin=b"\n".join(lines))

    assert ended.code == 2
    assert ended.json == ids(raw, ns, "small")
    assert len(ended.json) == 10_000
    told = ended.stderr
    assert '"error": "messageTooLong"' in told
    assert (
        "It is line 10002. Sent before: 10,000 messages; those from line 10001 on were not." in told
    )


def test_a_missing_queue_or_file_is_told(cli, q):
    ended = cli("send", "none", "-", stdin=b"a\nb\n")

    assert ended.code == 3
    assert ended.error.endswith(" Sent before: 0 messages; those from line 1 on were not.")
    assert cli("send", q, "--file", "/no/such/file").error == (
        "/no/such/file: No such file or directory"
    )


def test_what_comes_through_a_pipe_is_sent_as_it_comes(processes, raw, ns, q):
    process = processes.start("send", q, "-", stdin=subprocess.PIPE)
    process.stdin.write(b"first\n")
    process.stdin.flush()
    id = process.stdout.readline().strip()

    assert raw.hget(f"{ns}:q:Q", id) == b"first"
    process.stdin.close()
    assert process.wait(timeout=20) == 0


@pytest.mark.parametrize("end", [b"\n", b"\0"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
def test_pieces_are_those_of_split_however_they_come(end, chunk):
    data = end.join([b"", b"one", b"", b"", b"four\r", b"a longer one", b"last"])

    class Slow:
        left = data

        def read1(self, most):
            read, Slow.left = Slow.left[:chunk], Slow.left[chunk:]
            return read

    found = list(batches_of(Slow(), end))

    assert [body for batch in found for body in batch.bodies] == data.split(end)
    assert sum(batch.size for batch in found) == len(data)
    assert [batch.first for batch in found] == [
        1 + sum(len(before.bodies) for before in found[:at]) for at in range(len(found))
    ]


def test_a_message_is_published_to_all_queues_or_to_none(cli, raw, ns, rsmq):
    for name in ("a", "b"):
        rsmq.create_queue(name)
    told = cli("publish", "a", "b", "--body", "x", "--json").json

    assert told == {"a": ids(raw, ns, "a")[0], "b": ids(raw, ns, "b")[0]}
    assert cli("publish", "a", "none", "--body", "x").code == 3
    assert cli("publish", "a", "--file", "-", "--delay", 100, stdin=b"\xff\n").lines == [
        f"a  {ids(raw, ns, 'a')[1]}"
    ]
    assert bodies(raw, ns, "a") == [b"x", b"\xff\n"]
    assert bodies(raw, ns, "b") == [b"x"]
    assert cli("publish", "a").code == 2
