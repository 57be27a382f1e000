"""The figures of tasks over HTTP, on their page, and for Prometheus."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest

from rsmq.history.call_operations import record_calls
from rsmq.history.call_records import CallCounts, bucket_of
from rsmq.history.operations import record_minute
from rsmq.operations.plain import plain_command
from rsmq.web import create_app
from rsmq.web.pages.views.figures import count_complete
from tests.web.asgi import Http
from tests.web.pages_client import read_page

#: A minute that has not begun: the present one is taken.
_LATER = 2**40


async def _record(queues, queue, task, calls=1, seconds=0.25, **counts):
    counted = CallCounts(calls, durations={bucket_of(seconds): calls}, **counts)
    keys = queues.namespace.queue(queue)
    await queues.run(record_calls(keys, _LATER, [(task, counted.pack())]))


async def test_the_tasks_of_all_queues_or_of_one_are_listed(http, queues):
    for name in ("a", "b"):
        await queues.create_queue(name)
    assert (await http("GET", "/tasks")).json["tasks"] == []
    await _record(queues, "a", "mail", 3, failed=2, retried=1, dead_letters=1)
    await _record(queues, "b", "")
    mail, other = (await http("GET", "/tasks?span=24h")).json["tasks"]
    assert (mail["queue"], mail["task"], mail["calls"], mail["failed"]) == ("a", "mail", 3, 2)
    assert (mail["retried"], mail["dead_letters"], mail["wait"]) == (1, 1, None)
    assert mail["duration"]["p95"] == pytest.approx(0.25, rel=0.02)
    assert (len(mail["calls_by_step"]), mail["step"]) == (24, 3600)
    assert (other["queue"], other["task"]) == ("b", "")
    assert len((await http("GET", "/tasks?queue=b")).json["tasks"]) == 1
    assert (await http("GET", "/tasks?queue=none")).json["tasks"] == []
    assert (await http("GET", "/tasks?span=2h")).status == 422


async def test_the_page_has_the_tasks_sorted_and_found_by_a_part_of_the_name(http, queues):
    await queues.create_queue("a")
    pages = Http(http.app, prefix="", headers={"accept": "text/html"})
    await _record(queues, "a", "app.<b>mail", 3, 0.004, failed=2)
    await _record(queues, "a", "app.report", 5, 2.0)

    async def names(**query):
        shown = await read_page(pages, f"/tasks?{urlencode(query)}")
        return re.findall(r'class="name">([^<]*)<br>', shown), shown

    found, shown = await names()
    assert found == ["app.report", "app.&lt;b&gt;mail"]
    assert "<b>mail" not in shown
    assert re.search(r"(3\.9|4\.0)\d* ms · ", shown)
    assert (await names(sort="duration"))[0] == found[::-1]
    assert (await names(q="REPORT"))[0] == ["app.report"]
    assert (await names(sort="nothing", span="90d"))[0] == found[::-1]
    assert "No task has this name." in (await names(q="x"))[1]


async def test_the_page_has_the_first_two_hundred_tasks_and_finds_the_others(http, queues):
    for number in range(203):
        name = f"q{number % 3}"  # a queue has at most 100 tasks
        await queues.create_queue(name, exist_ok=True)
        await _record(queues, name, f"t{number:03}")
    pages = Http(http.app, prefix="", headers={"accept": "text/html"})
    page = await read_page(pages, "/tasks?sort=task")
    shown = re.findall(r'class="name">(t\d+)', page)
    assert (len(shown), shown[0], shown[-1]) == (200, "t000", "t199")
    assert "3 further tasks: sort by another column, or find them by name." in page
    page = await read_page(pages, "/tasks?q=t202")
    assert re.findall(r'class="name">(t\d+)', page) == ["t202"]
    assert "further task" not in page


async def test_the_page_without_a_task_says_how_there_will_be_some(http):
    pages = Http(http.app, prefix="", headers={"accept": "text/html"})
    assert "No worker of this library has counted" in await read_page(pages, "/tasks")


async def test_metrics_have_the_tasks_as_counters_and_histograms(http, queues):
    await queues.create_queue("a")
    await _record(queues, "a", 'ma"il', 3, 0.25, failed=2)
    lines = (await Http(http.app, prefix="")("GET", "/metrics")).content.decode().splitlines()
    labels = f'ns="{queues.namespace.name}",queue="a",task="ma\\"il"'
    assert f"rsmq_task_calls_total{{{labels}}} 3" in lines
    assert f"rsmq_task_failed_total{{{labels}}} 2" in lines
    assert f'rsmq_task_duration_seconds_bucket{{{labels},le="0.1"}} 0' in lines
    assert f'rsmq_task_duration_seconds_bucket{{{labels},le="0.5"}} 3' in lines
    assert f'rsmq_task_duration_seconds_bucket{{{labels},le="+Inf"}} 3' in lines
    assert f"rsmq_task_duration_seconds_count{{{labels}}} 3" in lines
    assert f"rsmq_task_wait_seconds_count{{{labels}}} 0" in lines


@pytest.fixture
def read_at(monkeypatch):
    """Return a function that sets how many seconds of a far minute have passed at a read."""

    def set_seconds(seconds):
        clock = SimpleNamespace(time=lambda: time.time() // 60 * 60 + seconds)
        monkeypatch.setattr("rsmq.web.routes.task_figures.time", clock)

    set_seconds(120)
    return set_seconds


@pytest.mark.parametrize(("seconds", "complete"), [(-3, 1), (0, 1), (9.9, 1), (10, 2), (60, 2)])
def test_a_minute_is_complete_ten_seconds_after_its_end(seconds, complete):
    task = {"start_ms": 600_000, "step": 60, "calls_by_step": [5, 5, 1]}
    read_ms = 720_000 + int(seconds * 1000)
    assert count_complete({"read_ms": read_ms, "tasks": [task]}) == complete


async def test_a_minute_is_not_drawn_before_all_workers_can_have_written_it(queues, read_at):
    await queues.create_queue("a")
    keys = queues.namespace.queue("a")
    await queues.run(record_calls(keys, 0, [("", CallCounts(3).pack())]))  # the minute before

    async def is_drawn():
        pages = Http(create_app(queues, auth=False), prefix="", headers={"accept": "text/html"})
        overview, tasks = await read_page(pages, "/"), await read_page(pages, "/tasks")
        line = re.search(r'calls over 1 h"><path class="line s1" d="([^"]*)"', tasks)[1]
        heights = {each.split()[1] for each in line[1:].split("L")}
        return 'id="calls"' in overview, len(heights) > 1

    read_at(-60)
    assert await is_drawn() == (False, False)
    read_at(120)
    assert await is_drawn() == (True, True)


async def test_the_overview_has_a_chart_of_the_calls_by_the_busiest_queues(http, queues, read_at):
    for number in range(7):
        await queues.create_queue(f"q{number}")
        keys = queues.namespace.queue(f"q{number}")
        packed = [("", CallCounts(number + 1, failed=1).pack())]
        await queues.run(record_calls(keys, 0, packed))  # the minute before
    pages = Http(http.app, prefix="", headers={"accept": "text/html"})
    page = await read_page(pages, "/")
    chart = page[page.index('id="calls"') :].partition("</figure>")[0]
    names = re.findall(r'<th scope="col" class="number">([^<]*)</th>', chart)
    assert names == ["q6", "q5", "q4", "q3", "q2", "other queues", "failed, of all"]
    rows = re.findall(r'<td class="number">([0-9,]*)</td>', chart)
    by_column = [sum(int(each) for each in rows[at::7]) for at in range(7)]
    assert by_column == [6, 5, 4, 3, 2, 1, 7]


async def test_a_minute_without_calls_is_a_gap_in_that_chart_unless_it_is_known_to_be_idle(
    queues, read_at
):
    await queues.create_queue("a")
    await queues.run(record_calls(queues.namespace.queue("a"), 0, [("", CallCounts(5).pack())]))

    async def calls():
        pages = Http(create_app(queues, auth=False), prefix="", headers={"accept": "text/html"})
        page = await read_page(pages, "/")
        chart = page[page.index('id="calls"') :].partition("</figure>")[0]
        found = re.findall(r'<th scope="row">[0-9:]+</th><td class="number">([^<]*)</td>', chart)
        assert len(found) == 59
        return Counter(found)

    assert await calls() == {"5": 1, "\u2013": 58}
    seconds = int((await queues.run(plain_command("TIME", key=b"rsmq")))[0])
    for minute in (seconds // 60 - 20, seconds // 60 - 19):  # nothing was received between them
        await queues.run(record_minute(queues.namespace, minute, ["a"], is_last=True))
    assert await calls() == {"5": 1, "0": 1, "\u2013": 57}
    facts = {"since_ms": (seconds // 60 - 10) * 60_000, "host": "h", "pid": 7, "queues": {}}
    entry = f"{seconds * 1000 + 60_000}:token:{json.dumps(facts)}"
    await queues.run(plain_command("HSET", queues.namespace.workers, "w", entry))
    found = await calls()
    assert found["0"] in {10, 11}  # one more if a minute has ended since
    assert found["5"] == 1


async def test_the_overview_without_calls_has_no_chart_of_them(http, queues):
    await queues.create_queue("q")
    pages = Http(http.app, prefix="", headers={"accept": "text/html"})
    assert 'id="calls"' not in await read_page(pages, "/")
