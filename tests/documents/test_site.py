"""The site of the documentation: its pages, its reference from the code, and the check of links."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

import rsmq
from rsmq.errors import RSMQError
from rsmq.metrics.workers import ALL_SERIES
from scripts.site import pages
from scripts.site.interface import PAGES, write_page
from scripts.site.links import find_faults
from scripts.site.programs import find_metrics

PUBLIC = (
    "rsmq", "rsmq.worker", "rsmq.migrate", "rsmq.transfer", "rsmq.doctor", "rsmq.metrics",
    "rsmq.opentelemetry", "rsmq.sqlalchemy", "rsmq.django", "rsmq.fastapi", "rsmq.tasks",
)  # fmt: skip


def test_a_page_of_the_repository_is_copied_with_all_that_it_leads_to(tmp_path, monkeypatch):
    docs = tmp_path / "docs"
    docs.mkdir()
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "DOCS", docs)
    (docs / "index.md").write_text(
        "[start.md](start.md#run), [wire](../WIRE.md), `[x](y.md)` [site](https://example.org/a.md)\n"
        "```text\n[x](y.md)\n```\n[`top`](#top) ![life](life.svg)\n"
    )
    (docs / "start.md").write_text("# Run\n")
    (docs / "life.svg").write_text("<svg/>")
    (docs / "contributing").mkdir()
    (docs / "contributing" / "undo.md").write_text("# Undo\n")
    (tmp_path / "WIRE.md").write_text("[code](rsmq/client.py) [home](docs/index.md)\n")
    (tmp_path / "rsmq").mkdir()
    (tmp_path / "rsmq" / "client.py").write_text("pass\n")
    pages.copy_pages(tmp_path / "pages")

    assert {
        path.relative_to(tmp_path / "pages").as_posix(): path.read_text()
        for path in (tmp_path / "pages").rglob("*.*")
    } == {
        "index.md": "[Run](start.md#run), [wire](repository/WIRE.md), `[x](y.md)` "
        "[site](https://example.org/a.md)\n"
        "```text\n[x](y.md)\n```\n[`top`](#top) ![life](life.svg)\n",
        "start.md": "# Run\n",
        "contributing/undo.md": "---\nsearch:\n  exclude: true\n---\n\n# Undo\n",
        "life.svg": "<svg/>",
        "repository/WIRE.md": "[code](rsmq/client-py.md) [home](../index.md)\n",
        "repository/rsmq/client-py.md": "# client.py\n\n`rsmq/client.py`\n\n```py\npass\n```\n",
    }


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('<a href="other/">', []),
        ('<a href="other/#there">', []),
        ('<p id="here"><a href="#here">', []),
        ('<a href="https://example.org/">', []),
        ('<link rel="canonical" href="https://example.org/">', []),
        ('<img src="missing.png">', ["index.html: there is no missing.png"]),
        ('<a href="../">', ["index.html: there is no ../"]),
        ('<a href="#nowhere">', ["index.html: there is no #nowhere"]),
        ('<a href="other/#nowhere">', ["index.html: there is no other/#nowhere"]),
        ('<script src="https://cdn.example/x.js">', ["index.html loads https://cdn.example/x.js"]),
        ('<img src="//cdn.example/x.png">', ["index.html loads //cdn.example/x.png"]),
        (
            '<link rel="stylesheet" href="https://fonts.example/x.css">',
            ["index.html loads https://fonts.example/x.css"],
        ),
        (
            "<style>@font-face { src: url(https://fonts.example/x.woff2) }</style>",
            ["index.html loads url(https://fonts.example/x.woff2"],
        ),
    ],
)
def test_faults_of_a_built_site_are_found(text, faults, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "index.html").write_text('<h2 id="there">There</h2>')
    (tmp_path / "index.html").write_text(text)

    assert list(find_faults(tmp_path)) == faults


def test_a_style_sheet_that_loads_a_font_is_found(tmp_path):
    (tmp_path / "a.css").write_text(
        "a { background: url('https://x.example/a.png') }\nb { url(b) }"
    )

    assert list(find_faults(tmp_path)) == ["a.css loads url('https://x.example/a.png"]


def test_the_reference_has_every_public_name():
    described = set()
    for title in PAGES:
        described |= set(
            re.findall(r"^(?:##|from \S+ import) (\w+)$", write_page(title), re.MULTILINE)
        )

    public = {
        name
        for each in PUBLIC
        for name in import_module(each).__all__
        if callable(getattr(import_module(each), name)) and name != "RESULT"  # a value
    }
    assert public - described == set()
    assert {each.__name__ for each in RSMQError.__subclasses__()} - described == set()


@pytest.mark.parametrize("client", [rsmq.RSMQ, rsmq.AsyncRSMQ])
def test_the_reference_has_every_method_of_a_client(client):
    methods = {name for name in vars(client) if name[0] != "_"}
    text = write_page(client.__name__)

    assert methods - set(re.findall(r"^### (\w+)$", text, re.MULTILINE)) == set()
    assert ("async receive_message(" in text) is (client is rsmq.AsyncRSMQ)


def test_the_metrics_are_those_of_workers_and_the_exporter():
    names = {each.name for each in find_metrics()}

    assert names >= {each.name for each in ALL_SERIES}
    assert names >= {"rsmq_up", "rsmq_queue_visible", "rsmq_worker_restarts"}
