"""The page of activity: undo, operations, and the audit stream in words."""

import re

from rsmq.operations.plain import plain_command
from rsmq.web.audit import is_audited
from rsmq.web.bulk.records import OperationKind
from rsmq.web.pages.phrases import PHRASES
from rsmq.web.routes import TABLE
from tests.web.pages_client import open_pages, read_page, run_action


async def _add_entry(queues, id, **facts):
    words = [each for pair in facts.items() for each in pair]
    await queues.run(plain_command("XADD", queues.namespace.audit, id, *words))


def _rows(text):
    """Return the texts of the rows of the audit stream."""
    table = text[text.index('id="audit"') :].partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in rows]


def test_each_recorded_call_has_words():
    calls = set()
    for each in TABLE:
        names = dict.fromkeys(re.findall(r"{(\w+)}", each.path), "a")
        values = {field.name: "a" for field in each.body} if isinstance(each.body, tuple) else {}
        if is_audited(each.scope, each.method, names, values):
            calls.add(f"{each.method} {each.path}")
    assert calls == {each for each in PHRASES if not each.startswith("operation ")}
    operations = {each for each in PHRASES if each.startswith("operation ")}
    assert operations == {f"operation {each.value}" for each in OperationKind}


def test_calls_are_said_in_words_with_their_outcome(run):
    async def test(http, queues):
        await queues.create_queue("orders")
        facts = {"user": "anna", "call": "POST /queues/{queue}:purge", "queue": "<b>"}
        await _add_entry(queues, "1000000000000-0", **facts, phase="begin")
        await http("POST", "/queues/orders:pause")
        await http("POST", "/queues/none:resume")
        first, second, third = _rows(await read_page(open_pages(http), "/activity"))
        assert "a caller resumed none failed queueNotFound" in first
        assert "a caller paused orders done" in second
        assert "anna purged &lt;b&gt; did not end" in third

    async def without(http, queues):
        text = await read_page(open_pages(http), "/activity")
        assert "curl -u :KEY -X POST http://localhost/api/v1/queues/QUEUE:pause" in text
        assert "rsmq purge QUEUE --undo" in text

    run(test)
    run(without)


async def test_a_call_whose_end_is_on_the_page_before_has_ended(http, queues):
    facts = {"user": "anna", "call": "POST /queues/{queue}:pause"}
    for number in range(150):
        begin, queue = f"{1000 + number}-1", f"q{number:03}"
        await _add_entry(queues, begin, **facts, queue=queue, phase="begin")
        ids = {"phase": "end", "outcome": "200", "begin": begin}
        if number % 2:
            before = {"phase": "end", "outcome": "200", "begin": f"{999 + number}-1"}
            await _add_entry(
                queues, f"{1000 + number}-2", **facts, queue=f"q{number - 1:03}", **before
            )
            await _add_entry(queues, f"{1000 + number}-3", **facts, queue=queue, **ids)
    text = await read_page(open_pages(http), "/activity")
    shown = _rows(text)
    while 'href="?before=' in text:
        [older] = re.findall(r'href="(\?before=[^"]+)"', text)
        text = await read_page(http, "/activity" + older.replace("&amp;", "&"))
        shown += _rows(text)
    assert len(shown) == 150
    assert all("done" in each for each in shown)
    assert len({re.search(r"q\d{3}", each)[0] for each in shown}) == 150


async def test_the_stream_is_filtered_by_user_queue_and_call(http, queues):
    for number in range(1500):
        user = "anna" if number % 500 == 0 else "ben"
        facts = {"user": user, "call": "POST /queues/{queue}:pause", "queue": f"q{number}"}
        await _add_entry(queues, f"{1000 + number}-1", **facts, phase="end", outcome="200")
    reply = (await http("GET", "/audit?user=anna&limit=2")).json
    assert [each["queue"] for each in reply["entries"]] == ["q1000", "q500"]
    rest = (await http("GET", f"/audit?user=anna&limit=2&before={reply['before']}")).json
    assert [each["queue"] for each in rest["entries"]] == ["q0"]
    assert rest["before"] is None
    open_pages(http)
    assert len(_rows(await read_page(http, "/activity?user=anna"))) == 3
    assert len(_rows(await read_page(http, "/activity?user=ben&queue=q7"))) == 1
    assert "No call is recorded that fits" in await read_page(http, "/activity?call=none")


async def test_a_deletion_is_undone(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a", "b"])
    await http("POST", "/queues/q:purge", {"undo": True})
    open_pages(http)
    text = await read_page(http, "/activity")
    [id] = re.findall(r'action="/actions/undo"><input type="hidden" name="id" value="(\w+)"', text)
    done = await run_action(http, "undo", id=id)
    assert done.headers["location"] == "/activity"
    assert (await queues.get_queue_attributes("q")).messages == 2
    text = await read_page(http, "/activity")
    assert 'action="/actions/undo"' not in text
    assert ">undone<" in text
    assert '<a class="mono" href="/queues/q">q</a>' in text
    row = _rows(await read_page(http, "/activity?queue=q"))[0]
    assert f"a caller undid the deletion {id} of q done" in row
    purged = await queues.trash.purge_queue("q")
    done = await run_action(http, "undo", id=purged.id, queue="q")
    assert done.headers["location"] == "/queues/q"
    assert (await run_action(http, "undo", id="none")).status == 404


async def test_an_operation_is_paused_resumed_and_cancelled(http, queues):
    for name in ("q", "dead"):
        await queues.create_queue(name)
    await queues.set_dead_letter_policy("q", "dead", 3)
    await queues.send_message("dead", "x")
    reply = await http("POST", "/queues/dead:redrive", {"rate": 1})
    operation = {"operation": reply.json["operation"], "queue": "dead"}
    open_pages(http)
    assert "<progress" in await read_page(http, "/activity")
    await run_action(http, "pause-operation", **operation)
    assert ">paused<" in await read_page(http, "/activity")
    await run_action(http, "resume-operation", **operation)
    page = await read_page(
        http, f"/actions/cancel-operation?operation={operation['operation']}&queue=dead"
    )
    assert "Ends the redrive of dead. 0 messages that it has changed stay" in page
    await run_action(http, "cancel-operation", **operation)
    assert ">cancelled<" in await read_page(http, "/activity")
