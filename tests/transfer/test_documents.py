"""The format and the commands in compat/EXPORT.md."""

from __future__ import annotations

import hashlib
import re
import shlex
from pathlib import Path

from rsmq.transfer.lines import Reader

TEXT = (Path(__file__).parents[2] / "compat" / "EXPORT.md").read_text()


def test_example_is_a_valid_export(import_bytes, target):
    (example,) = re.findall(r"^```json\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    lines = example.encode().splitlines(keepends=True)
    checksum = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    result = import_bytes(example.replace("SHA", checksum).encode())

    assert result.complete
    assert [(each.queue, each.added, each.notes) for each in result.queues] == [("orders", 2, ())]
    fields = target.fields("orders")
    assert (fields[b"created"], fields[b"totalsent"], fields[b"totalrecv"]) == (
        b"1795000000", b"12", b"9"
    )  # fmt: skip


def test_table_has_every_field_that_is_written(rsmq, export_bytes, source, tmp_path):
    rsmq.create_queue("q")
    source.raw.hset(f"{source.ns}:q:Q", "x:sqs", "{}")
    source.add("q", "h0pefu1000" + "A" * 22, b"\xff", 1, rc=1, fr=1)
    source.add("q", "h0pefu1000" + "B" * 22, b"a", 2)
    data = tmp_path / "export"
    data.write_bytes(export_bytes())
    with data.open("rb") as file:
        written_fields = {(record["type"], name) for record in Reader(file) for name in record}
    table, record_type = {}, ""
    for kind, names in re.findall(r"^\| (?:`(\w+)`)? ?\| (`.*?) \|", TEXT, re.MULTILINE):
        record_type = kind or record_type
        table.setdefault(record_type, set()).update(re.findall(r"`([\w:]+)`", names))

    for kind, name in written_fields:
        assert name == "type" or name in table[kind], (kind, name)
    assert {"reason"} < table["message"]


def test_commands_can_be_run(cli, rsmq, tmp_path, monkeypatch, server):
    (block, *_) = re.findall(r"^```\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    for name in ("orders", "mails"):
        rsmq.create_queue(name)
        rsmq.send_message(name, "a")
    monkeypatch.chdir(tmp_path)
    for line in block.replace("redis://other:6379/0", server.url).splitlines():
        data = b""
        for part in line.split(" | "):
            completed = cli(*shlex.split(part)[1:], stdin=data)
            assert completed.code == 0, completed
            data = completed.raw
