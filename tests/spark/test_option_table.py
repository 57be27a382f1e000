"""The tables of options in docs/spark.md: their names, their defaults, and for which reads."""

from __future__ import annotations

import re
from dataclasses import fields

import pytest

from rsmq.spark.connection_options import CONNECTION_OPTIONS, ConnectionOptions
from rsmq.spark.read.source_options import (
    SNAPSHOT_OPTIONS,
    SOURCE_OPTIONS,
    STREAM_OPTIONS,
    SnapshotOptions,
    SourceOptions,
    StreamOptions,
)
from rsmq.spark.write.sink_options import SEND_SINK_OPTIONS, SINK_OPTIONS, SinkOptions
from tests.documents.pages import PAGES

TABLES = re.findall(
    r"^\| option \| default \| \|\n\|---\|---\|---\|\n((?:\|.*\n)+)", PAGES["spark.md"].read_text(),
    re.MULTILINE,
)  # fmt: skip
#: Units of defaults.
UNITS = {"": 1, "s": 1, "days": 86_400, "MiB": 2**20}
#: The options that a sentence of their row describes, and other names of options.
NOT_LISTED = {"maxOffsetsPerTrigger", *SEND_SINK_OPTIONS}
#: The defaults that depend on the machine, or that a row describes.
IN_WORDS = {"numPartitions"}


def read_rows(table):
    """Yield the options of each row of a table, with their defaults, and the description."""
    for line in table.splitlines():
        names, defaults, text = re.fullmatch(r"\| (.*?) \|(.*?)\| ?(.*?) ?\|", line).groups()
        yield re.findall(r"`(\w+)`", names), defaults.strip().replace("`", "").split(", "), text


ROWS = [list(read_rows(each)) for each in TABLES]


def read_default(text):
    """Return a default as an option has it; None for an empty one."""
    number = re.fullmatch(r"([\d,.]+)(?: (\w+))?", text)
    if number:
        return float(number[1].replace(",", "")) * UNITS[number[2] or ""]
    return {"true": True, "false": False, "": None, "all": None}.get(text, text)


def defaults_of(record):
    """Return the defaults of the options that fill a record, by name."""
    found = {}
    for name, read, arguments in (
        each.metadata["option"] for each in fields(record) if each.metadata
    ):
        default = arguments[0] if arguments else None
        if read.__name__ == "read_flag":
            default = bool(default)
        elif read.__name__ == "read_choice":
            default = default[0]
        found[name] = default
    return found


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (ROWS[0], CONNECTION_OPTIONS),
        (ROWS[1], (*SOURCE_OPTIONS, *SNAPSHOT_OPTIONS, *STREAM_OPTIONS)),
        (ROWS[2], SINK_OPTIONS),
    ],
    ids=["connection", "source", "sink"],
)
def test_a_table_has_each_option_and_no_other(rows, options):
    listed = {name for names, _, _ in rows for name in names}
    described = {name for names, _, text in rows for name in re.findall(r"`(\w+)`", text)}
    assert listed - NOT_LISTED <= set(options)
    assert set(options) - NOT_LISTED - listed <= described


@pytest.mark.parametrize(
    ("rows", "record"),
    [
        (ROWS[0], ConnectionOptions), (ROWS[1], SourceOptions), (ROWS[1], SnapshotOptions),
        (ROWS[1], StreamOptions), (ROWS[2], SinkOptions),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)  # fmt: skip
def test_a_table_has_the_defaults(rows, record):
    listed = {}
    for names, texts, _ in rows:
        values = texts if len(texts) == len(names) else texts * len(names)
        listed |= dict(zip(names, map(read_default, values), strict=True))
    for name, default in defaults_of(record).items():
        if name not in IN_WORDS and name in listed:
            assert listed[name] == (None if default == "all" else default), name


def test_a_row_says_for_which_reads_its_options_are():
    for names, _, text in ROWS[1]:
        begin = text.partition(":")[0]
        for name in names:
            kind = (
                "frames"
                if name in SNAPSHOT_OPTIONS
                else "streams"
                if name in STREAM_OPTIONS
                else ""
            )
            assert (begin if begin in {"frames", "streams"} else "") == kind, name
