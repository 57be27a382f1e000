"""Moments that are marked, and those at which somebody has changed a queue, in its charts."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from rsmq.errors import InvalidFormat
from rsmq.history.recorder import record_queues
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.access.secrets import hash_token
from tests.web.asgi import Http
from tests.web.pages_client import read_page


async def _entries(queues):
    stream = queues.namespace.audit
    entries = await queues.run(plain_command("XRANGE", stream, "-", "+"))
    return [dict(zip(fields[::2], fields[1::2], strict=True)) for _, fields in entries]


async def _record(queues):
    now = int(datetime.now(UTC).timestamp()) // 60 + 1
    await record_queues(queues, now - 1)
    await record_queues(queues, now)


def _moments(page):
    lines = re.findall(r'<line class="moment([^"]*)"[^>]*><title>([^<]*)</title>', page)
    return [(kind.strip(), re.sub(r"^[^:]*:[^:]*:[^:]*: ", "", text)) for kind, text in lines]


async def test_a_mark_is_an_entry_of_the_audit_stream(http, queues):
    id = await queues.mark("v2.3", by="ci")
    reply = await http("POST", "/marks", {"text": "v2.4"})
    assert reply.status == 201
    by_client, by_http = await _entries(queues)
    assert by_client == {
        b"user": b"ci", b"address": b"", b"call": b"POST /marks", b"queue": b"",
        b"target": b"v2.3", b"phase": b"end", b"outcome": b"201",
    }  # fmt: skip
    assert by_http == {
        **by_client, b"user": b"everyone", b"address": b"127.0.0.1", b"target": b"v2.4",
    }  # fmt: skip
    listed = (await http("GET", "/audit?call=POST%20%2Fmarks")).json["entries"]
    assert [each["id"] for each in listed] == [reply.json["id"], id]


async def test_a_mark_that_is_not_valid_is_refused(http, queues):
    for wrong in ("", "a" * 129, None, 7):
        with pytest.raises(InvalidFormat):
            await queues.mark(wrong)
    with pytest.raises(InvalidFormat):
        await queues.mark("v2", by="")
    assert (await http("POST", "/marks", {"text": ""})).status == 422
    assert (await http("POST", "/marks", {})).status == 422
    assert await _entries(queues) == []


async def test_charts_of_a_queue_have_marks_and_its_changes_and_no_others(http, queues):
    for name in ("q", "other"):
        await queues.create_queue(name)
    await _record(queues)
    await queues.mark("v2.3 <b>", by="ci")
    await http("POST", "/queues/q:pause")
    await http("PATCH", "/queues/q", {"vt": 60})
    await http("POST", "/queues/other:pause")
    await http("POST", "/queues/q:release-all")
    await http("POST", "/queues/q:resume")
    pages = Http(http.app, prefix="", headers={"accept": "text/html"})
    page = await read_page(pages, "/queues/q?span=24h")
    one_chart = _moments(page)[: len(_moments(page)) // 3]
    assert one_chart == [
        ("", "v2.3 &lt;b&gt; (marked by ci)"),
        ("change", "a caller paused q"),
        ("change", "a caller changed attributes of q: visibility timeout 30 s → 60 s"),
        ("change", "a caller resumed q"),
    ]
    assert "Changes in this time" in page
    assert "v2.3 &lt;b&gt; (marked by ci)</li>" in page
    # The axis and the table of figures say the zone.
    assert page.count(" UTC</span></div>") == 3
    assert page.count("time (UTC)") == 3


async def test_a_caller_without_the_audit_sees_no_marks(queues, tmp_path):
    await queues.create_queue("q")
    await _record(queues)
    await queues.mark("v2.3")
    path = tmp_path / "users.toml"
    path.write_text(
        f'[tokens.viewer]\nsha256 = "{hash_token("viewer")}"\nscopes = ["stats"]\nqueues = ["*"]\n'
    )
    path.chmod(0o600)
    headers = {"accept": "text/html", "authorization": "Bearer viewer"}
    pages = Http(create_app(queues, users=path), prefix="", headers=headers)
    page = await read_page(pages, "/queues/q?span=24h")
    assert '<svg class="chart"' in page
    assert _moments(page) == []
    assert "Changes in this time" not in page
