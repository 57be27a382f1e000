"""The report as an HTML page: complete, and safe whatever names and reasons contain."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest

from rsmq.spark.pipelines import pictures

START = datetime(2026, 1, 31, 12, 7)  # noqa: DTZ001 - as tables have it
HOSTILE = [
    "<script>alert(1)</script>",
    "</bdi></td><img src=http://127.0.0.1/x onerror=alert(1)>",
    "$\\frac$ $x$",
    "_private",
    "a\x00\x1b[31m\u202e-->]]>",
    "\N{SNOWMAN}\N{GRINNING FACE} \u4e2d\u6587 " + "long " * 30,
]


class Reader(HTMLParser):
    """Collects the elements, the attributes and the texts of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.texts, self.open = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = dict(attrs)
        assert not [name for name in names if name.startswith("on")], names
        self.links += [names[name] for name in ("src", "href") if name in names]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.texts.append(data)


def make_tables(queues=("q",), causes=(), workers=("w1",)):
    dead = [(cause, START + timedelta(minutes=place)) for place, cause in enumerate(causes)]
    return {
        "queues": tuple(
            {
                "queue": name, "messages": 1234, "visible": 1200, "in_flight": 34,
                "retrying": 0, "held_back": 0, "delayed": 0,
                "age_p50": 3.0, "age_p90": 7200.0, "age_p99": 90_000.0, "age_max": None,
                "bytes": 10, "mean_bytes": 2.5, "max_bytes": 4,
            }
            for name in queues
        ),
        "receive_counts": tuple(
            {"queue": name, "receive_count": 1, "messages": 3} for name in queues
        ),
        "by_minute": tuple({"queue": name, "minute": START, "messages": 2} for name in queues),
        "dead_by_cause": tuple(
            {
                "queue": queues[0], "cause": cause, "messages": 7, "first_died": at,
                "last_died": at, "example": f"{cause}: text",
            }
            for cause, at in dead
        ),
        "dead_by_worker": tuple(
            {"queue": queues[0], "worker": name, "messages": 7, "last_died": START}
            for name in workers
        ),
        "dead_by_minute": tuple(
            {"queue": queues[0], "minute": at, "cause": cause, "messages": 7} for cause, at in dead
        ),
    }  # fmt: skip


def build(tables):
    plotted = pictures.draw_svg(tables)
    return pictures.build_page(tables, plotted, "rsmq", datetime(2026, 1, 31, 13, 0, tzinfo=UTC))


def find_plots(reader):
    """Return the trees of the plots of a page."""
    begin = "data:image/svg+xml;base64,"
    assert all(link.startswith(begin) for link in reader.links)
    return [ET.fromstring(base64.b64decode(each[len(begin) :])) for each in reader.links]


def test_page_has_tables_and_plots_and_loads_nothing():
    text = build(make_tables(causes=["ValueError", "PushFailed 401"]))
    reader = Reader(text)

    assert reader.open == []
    assert len(find_plots(reader)) == 7
    assert "script" not in reader.tags
    assert "default-src 'none'" in text
    assert not re.search(r"url\(|@import|http-equiv=.refresh", text)
    for cell in (
        "1,234",
        "120.0 minutes",
        "25.0 hours",
        "PushFailed 401: text",
        "2026-01-31 12:07:00",
    ):
        assert cell in reader.texts
    assert "Read on 2026-01-31 at 13:00:00 UTC. All times are UTC." in reader.texts


@pytest.fixture(scope="module")
def harmless():
    return Reader(build(make_tables(["q"], ["c"], ["w"])))


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_stay_texts(text, harmless):
    reader = Reader(build(make_tables([text], [text], [text])))

    assert reader.tags == harmless.tags
    for root in find_plots(reader):
        assert not [each for each in root.iter() if each.tag.endswith(("script", "image"))]
    if text.isprintable():
        assert text in reader.texts
    else:
        assert "a\\x00\\x1b[31m\\u202e-->]]>" in reader.texts


def test_legends_show_every_name():
    tables = make_tables(["_a", "$b$"], ["_c", "d"])
    legends = {
        name: [each.get_text() for each in figure.legends[0].get_texts()]
        for name, figure in pictures.draw(tables)
        if figure.legends
    }
    assert legends["by_minute"] == ["$b$", " _a"]
    assert legends["dead_by_minute"] == [" _c", "d"]


def test_long_tables_say_how_much_is_left_out():
    reader = Reader(build(make_tables(causes=[f"Error{n}" for n in range(250)])))
    assert "Dead letters by cause (50 more rows left out)" in reader.texts


def test_page_without_dead_letters_says_so():
    reader = Reader(build(make_tables(workers=())))
    assert "No reason of a dead letter is stored beside these queues." in reader.texts
    assert len(find_plots(reader)) == 4
