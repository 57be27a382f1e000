"""``rsmq send`` and ``rsmq publish``: the bodies in Redis equal the input, byte for byte."""

from __future__ import annotations

import os
import subprocess

import pytest

from rsmq.cli.commands.input_batches import read_batches
from tests.scale import WAIT_SECONDS


@pytest.fixture
def q(rsmq):
    rsmq.create_queue("q")
    return "q"


def bodies(raw, ns, queue="q"):
    """Return the bodies in the order of the queue."""
    return [raw.hget(f"{ns}:{queue}:Q", id) for id in raw.zrange(f"{ns}:{queue}", 0, -1)]


def ids(raw, ns, queue="q"):
    return [id.decode() for id in raw.zrange(f"{ns}:{queue}", 0, -1)]


def test_arguments_are_messages_and_their_ids_are_printed(cli, raw, ns, q):
    result = cli("send", q, "hello", "", "a\tb", "-x", "--", "--json")

    assert result.code == 2
    assert result.error.startswith("No such option")
    assert result.error.endswith("See rsmq send --help.")
    result = cli("send", q, "--", "hello", "", "a\tb", "-x")
    assert result.lines == ids(raw, ns)
    assert bodies(raw, ns) == [b"hello", b"", b"a\tb", b"-x"]
    assert cli("sn", q, "more", "--json").json == ids(raw, ns)[-1:]


def test_argument_that_is_not_utf_8_is_sent_unchanged(processes, raw, ns, q):
    code, _, _ = processes("send", q, os.fsdecode(b"\xff\xfe"))

    assert code == 0
    assert bodies(raw, ns) == [b"\xff\xfe"]


def test_lines_of_the_standard_input_are_messages(cli, raw, ns, q):
    result = cli("send", q, "-", stdin=b"one\n\nthree\r\n\xff\x00 \nlast")

    assert result.lines == ids(raw, ns)
    assert bodies(raw, ns) == [b"one", b"", b"three\r", b"\xff\x00 ", b"last"]


def test_lines_of_a_file_are_messages(cli, raw, ns, q, tmp_path):
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")

    assert cli("send", q, "--file", tmp_path / "lines").code == 0
    assert bodies(raw, ns) == [b"one", b"two"]


def test_null_option_splits_at_nul_bytes(cli, raw, ns, q):
    result = cli("send", q, "-f", "-", "-0", "--json", stdin=b"a\nb\0\0c")

    assert result.json == ids(raw, ns)
    assert bodies(raw, ns) == [b"a\nb", b"", b"c"]


def test_whole_option_sends_a_file_as_one_message(cli, raw, ns, q):
    assert cli("send", q, "-", "--whole", stdin=b"a\nb\n\xff").code == 0
    assert cli("send", q, "--file", "-", "--whole").code == 0
    assert bodies(raw, ns) == [b"a\nb\n\xff", b""]


def test_an_empty_input_sends_nothing(cli, raw, ns, q):
    assert cli("send", q, "-").raw == b""
    assert cli("send", q, "-", "--json").json == []
    assert bodies(raw, ns) == []


def test_wrong_combinations_of_arguments_are_errors(cli, raw, ns, q):
    for arguments in ((), ("a", "--file", "x"), ("a", "--whole"), ("a", "-0")):
        result = cli("send", q, *arguments, stdin=b"line\n")
        assert result.code == 2
        assert result.error.startswith("Give bodies, or ")
    assert bodies(raw, ns) == []


def test_delay_and_front_are_applied(cli, raw, ns, rsmq, q):
    cli("send", q, "now")
    cli("send", q, "later", "--delay", 100)
    cli("send", q, "-", "--front", stdin=b"first\nsecond\n")

    assert bodies(raw, ns) == [b"first", b"second", b"now", b"later"]
    assert rsmq.count_messages(q).delayed == 1
    assert (
        "--delay can't be combined with --front. A message before all that wait is not delayed."
        in cli("send", q, "x", "--front", "--delay", 1).stderr
    )


def test_too_many_messages_for_the_front_are_an_error(cli, raw, ns, q):
    result = cli("send", q, "-", "--front", stdin=b"x\n" * 10_001)

    assert result.code == 2
    assert "Nothing was sent." in result.error
    assert bodies(raw, ns) == []


def test_second_send_with_a_dedup_id_adds_nothing(cli, raw, ns, q):
    first = cli("send", q, "a", "--dedup-id", "order-17")
    second = cli("send", q, "-", "--whole", "--dedup-id", "order-17", stdin=b"b")

    assert first.out == second.out
    assert bodies(raw, ns) == [b"a"]
    assert "that of one message" in cli("send", q, "a", "b", "--dedup-id", "x").error
    assert "that of one message" in cli("send", q, "-", "--dedup-id", "x").error


def test_unique_message_is_replaced_and_put_off(cli, raw, ns, q):
    first = cli("send", q, "a", "--unique-key", "k")
    second = cli("send", q, "b", "--unique-key", "k")
    assert first.out == second.out
    assert bodies(raw, ns) == [b"a"]

    options = ["--unique-key", "k", "--replace", "--delay", "1h", "--max-wait", "2h"]
    assert cli("send", q, "-", "--whole", *options, stdin=b"c").out == first.out
    assert bodies(raw, ns) == [b"c"]
    ((id, score),) = raw.zrange(f"{ns}:{q}", 0, -1, withscores=True)
    assert score >= int(id[:10], 36) // 1000 + 3_600_000
    assert "that of one message" in cli("send", q, "a", "b", "--unique-key", "x").error
    assert "--unique-key" in cli("send", q, "a", "--replace").stderr
    assert "--delay" in cli("send", q, "a", "--unique-key", "k", "--max-wait", "5").stderr


def test_limits_of_messages_are_those_of_all_that_are_sent(cli, raw, ns, q):
    cli("send", q, "a", "b", "--max-retries", "0", "--expires", "1h")
    found = raw.hgetall(f"{ns}:{q}:x:limits")
    assert found == {
        id: b"0:%d" % (int(id[:10], 36) // 1000 + 3_600_000)
        for id in raw.zrange(f"{ns}:{q}", 0, -1)
    }
    assert cli("send", q, "-", "--max-retries", "-1", stdin=b"c").code == 2
    cli("send", q, "-", "--max-retries", "7", stdin=b"c\nd")
    assert sorted(raw.hvals(f"{ns}:{q}:x:limits"))[2:] == [b"7:", b"7:"]


def test_maxsize_counts_utf_16_code_units_of_text(cli, raw, ns, rsmq):
    rsmq.create_queue("small", maxsize=1024)

    assert cli("send", "small", "é" * 1024).code == 0
    assert cli("send", "small", "é" * 1025).code == 2
    assert cli("send", "small", "-", stdin=b"\xff" * 1025).code == 2
    assert bodies(raw, ns, "small") == [("é" * 1024).encode()]


def test_error_for_a_long_line_names_the_line_and_the_sent_count(cli, raw, ns, rsmq):
    rsmq.create_queue("small", maxsize=1024)
    lines = [b"x"] * 10_000 + [b"x", b"y" * 1025, b"x"]
    result = cli("send", "small", "-", "--json", stdin=b"\n".join(lines))

    assert result.code == 2
    assert result.json == ids(raw, ns, "small")
    assert len(result.json) == 10_000
    output = result.stderr
    assert '"error": "messageTooLong"' in output
    assert (
        "It is line 10002. Sent before: 10,000 messages; those from line 10001 on were not."
        in output
    )


def test_missing_queue_or_file_is_an_error(cli, q):
    result = cli("send", "none", "-", stdin=b"a\nb\n")

    assert result.code == 3
    assert result.error.endswith(" Sent before: 0 messages; those from line 1 on were not.")
    assert cli("send", q, "--file", "/no/such/file").error == (
        "/no/such/file: No such file or directory"
    )


def test_lines_of_a_pipe_are_sent_as_they_arrive(processes, raw, ns, q):
    process = processes.start("send", q, "-", stdin=subprocess.PIPE)
    process.stdin.write(b"first\n")
    process.stdin.flush()
    id = process.stdout.readline().strip()

    assert raw.hget(f"{ns}:q:Q", id) == b"first"
    process.stdin.close()
    assert process.wait(timeout=WAIT_SECONDS) == 0


@pytest.mark.parametrize("end", [b"\n", b"\0"])
@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 100])
def test_batches_contain_the_pieces_of_split(end, chunk):
    data = end.join([b"", b"one", b"", b"", b"four\r", b"a longer one", b"last"])

    class Slow:
        left = data

        def read1(self, size):
            read, Slow.left = Slow.left[:chunk], Slow.left[chunk:]
            return read

    batches = list(read_batches(Slow(), end))

    assert [body for batch in batches for body in batch.bodies] == data.split(end)
    assert sum(batch.size for batch in batches) == len(data)
    assert [batch.first for batch in batches] == [
        1 + sum(len(before.bodies) for before in batches[:at]) for at in range(len(batches))
    ]


def test_publish_sends_to_all_queues_or_to_none(cli, raw, ns, rsmq):
    for name in ("a", "b"):
        rsmq.create_queue(name)
    output = cli("publish", "a", "b", "--body", "x", "--json").json

    assert output == {"a": ids(raw, ns, "a")[0], "b": ids(raw, ns, "b")[0]}
    assert cli("publish", "a", "none", "--body", "x").code == 3
    assert cli("publish", "a", "--file", "-", "--delay", 100, stdin=b"\xff\n").lines == [
        f"a  {ids(raw, ns, 'a')[1]}"
    ]
    assert bodies(raw, ns, "a") == [b"x", b"\xff\n"]
    assert bodies(raw, ns, "b") == [b"x"]
    assert cli("publish", "a").code == 2
