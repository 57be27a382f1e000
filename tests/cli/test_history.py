"""``rsmq history``."""

from __future__ import annotations

from datetime import UTC, datetime

from rsmq.cli.commands import history as module
from rsmq.history import History, HistoryGap


def test_a_history_is_a_table_or_json(cli, rsmq):
    rsmq.create_queue("orders")
    found = cli("history", "orders", "--last", "3m")
    heading, *rows = found.lines
    assert heading.split()[:4] == ["FROM", "TO", "SENT", "RECEIVED"]
    assert {tuple(row.split()[2:]) for row in rows} == {("-",) * 6}
    assert len(rows) in {3, 4}
    document = cli("history", "--last", "1d", "--step", "1h", "--json").json
    assert document["step"] == 3600
    assert len(document["sent"]) in {24, 25}
    assert document["total_sent"] == 0


def test_what_is_known_of_steps_together_is_one_row():
    def ms(minute):
        return int(datetime(2026, 1, 5, 10, minute, tzinfo=UTC).timestamp() * 1000)

    none = [None] * 4
    history = History(
        ms(0), ms(4), 60, [1, None, None, None], [2, None, None, None], none, none, none, none,
        [HistoryGap(ms(1), ms(3), 7, 8)], 8, 10,
    )  # fmt: skip
    rows = [
        (begin[-9:-4], end[-9:-4], *values[:2]) for begin, end, *values in module._rows(history)
    ]
    assert rows == [
        ("10:00", "10:01", 1, 2), ("10:01", "10:03", 7, 8), ("10:03", "10:04", None, None),
    ]  # fmt: skip


def test_a_history_that_is_not_valid_ends_with_a_code(cli, rsmq):
    rsmq.create_queue("orders")
    for options in (["--step", "7s"], ["--step", "0.5"], ["--last", "400000w"], ["--last", "30w"]):
        found = cli("history", "orders", *options)
        assert found.code != 0, options
        assert "Traceback" not in found.stderr
    assert cli("history", "gone").code != 0
