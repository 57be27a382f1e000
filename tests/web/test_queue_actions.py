"""The actions on queues: what they say, and what they do."""

from datetime import UTC, datetime
from urllib.parse import urlencode

from rsmq.history.recorder import record_queues

_HTML = {"accept": "text/html"}
_FORM = {**_HTML, "content-type": "application/x-www-form-urlencoded"}


def _pages(http):
    http.prefix, http.headers = "", _HTML
    return http


async def _post(http, action, **fields):
    body = urlencode(fields, doseq=True).encode()
    return await http("POST", f"/actions/{action}", body=body, headers=_FORM)


async def test_a_queue_is_created_changed_and_gets_a_policy(http, queues):
    _pages(http)
    assert "1 to 160 characters" in (await http("GET", "/actions/create-queue")).content.decode()
    values = {"vt": "5", "delay": "0", "maxsize": "-1", "keep": "60"}
    done = await _post(http, "create-queue", queue="q", **values)
    assert (done.status, done.headers["location"]) == (303, "/queues/q")
    attributes = await queues.get_queue_attributes("q")
    assert (attributes.vt, attributes.maxsize, attributes.keep) == (5, -1, 60)
    assert (await _post(http, "create-queue", queue="a b", **values)).status == 422
    page = (await http("GET", "/actions/change-queue?queue=q&vt=7&keep=0")).content.decode()
    assert "rsmq attributes q --vt=7 --delay=0 --maxsize=-1 --keep=0 --expired=drop" in page
    page = (await http("GET", "/actions/change-queue?queue=q")).content.decode()
    assert '<input type="number" step="any" name="vt" value="5">' in page
    assert '<input type="number" step="any" name="keep" value="60">' in page
    # Also beside what somebody has typed.
    wrong = await _post(http, "change-queue", queue="q", vt="-7")
    assert (wrong.status, 'value="-7"' in wrong.content.decode()) == (422, True)
    for shown in (page, wrong.content.decode()):
        for now in ("5 s", "0 s", "unlimited", "60 s", "they are removed"):
            assert f">Now {now}." in shown
    done = await _post(http, "change-queue", queue="q", vt="7", keep="0", delay="", expired="drop")
    assert done.status == 303
    attributes = await queues.get_queue_attributes("q")
    assert (attributes.vt, attributes.keep, attributes.maxsize) == (7, None, -1)
    page = (await http("GET", "/actions/change-queue?queue=q")).content.decode()
    assert ">Now never." in page
    assert " a caller changed attributes of q: visibility timeout 5 s \u2192 7 s." in page
    policy = {"queue": "q", "dead_letter_queue": "dead", "max_receives": "4"}
    assert (await _post(http, "set-policy", **policy)).status == 404
    await queues.create_queue("dead")
    assert (await _post(http, "set-policy", **policy)).status == 303
    assert (await queues.get_queue_attributes("q")).max_receives == 4
    assert (await _post(http, "remove-policy", queue="q")).status == 303
    assert (await queues.get_queue_attributes("q")).dead_letter_queue is None


async def test_limits_are_set_changed_and_removed(http, queues):
    await queues.create_queue("q")
    _pages(http)
    assert "Set the limits" in (await http("GET", "/queues/q")).content.decode()
    limits = {"queue": "q", "max_running": "5", "rate": "100/m"}
    assert (await _post(http, "set-limits", **limits)).status == 303
    attributes = await queues.get_queue_attributes("q")
    assert (attributes.max_running, attributes.rate) == (5, "100/m")
    page = (await http("GET", "/queues/q")).content.decode()
    assert "at most 5 at a time" in page
    assert "at most 100/m" in page
    page = (await http("GET", "/actions/set-limits?queue=q")).content.decode()
    assert 'name="rate" value="100/m"' in page
    assert "rsmq limit q --max-running=5 --rate=100/m" in page
    wrong = await _post(http, "set-limits", queue="q", max_running="", rate="often")
    assert wrong.status == 422
    only = await _post(http, "set-limits", queue="q", max_running="", rate="9/s")
    assert only.status == 303
    assert (await queues.get_queue_attributes("q")).max_running is None
    assert (await _post(http, "remove-limits", queue="q")).status == 303
    assert (await queues.get_queue_attributes("q")).rate is None


async def test_messages_in_flight_are_counted_and_released(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"] * 5, delay=60)
    await queues.send_messages("q", ["a"] * 101)
    await queues.receive_messages("q", 101)
    _pages(http)
    page = (await http("GET", "/actions/release-all?queue=q")).content.decode()
    assert "Makes 101 messages of q visible at once" in page
    assert (await _post(http, "release-all", queue="q")).status == 422
    assert (await _post(http, "release-all", queue="q", **{"typed-name": "q"})).status == 303
    assert (await queues.get_queue_attributes("q")).visible_messages == 101


async def test_a_resume_says_how_many_messages_it_releases(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a"] * 100)
    await queues.pause_queue("q")
    await queues.send_message("q", "a", delay=60)
    _pages(http)
    assert '"/actions/resume?queue=q"' in (await http("GET", "/queues/q")).content.decode()
    page = (await http("GET", "/actions/resume?queue=q")).content.decode()
    assert "from q again: 100 messages at once, and 1 hidden message when visible." in page
    assert '<button class="main">Resume</button>' in page
    assert (await _post(http, "resume", queue="q")).status == 303
    assert not (await queues.get_queue_attributes("q")).paused
    page = (await http("GET", "/actions/resume?queue=q")).content.decode()
    assert "q is not paused." in page


async def test_the_page_of_a_queue_that_was_just_resumed_has_no_rates_of_the_time_before(
    http, queues
):
    await queues.create_queue("q")
    minute = int(datetime.now(UTC).timestamp()) // 60
    for at in (minute - 2, minute - 1, minute):
        await record_queues(queues, at)
        await queues.send_messages("q", ["a"] * 60)
        await queues.pop_message("q")
    _pages(http)
    page = (await http("GET", "/queues/q")).content.decode()
    assert "Queue q is filled faster than it is drained: 60 messages a minute" in page
    await _post(http, "pause", queue="q")
    await _post(http, "resume", queue="q")
    page = (await http("GET", "/queues/q")).content.decode()
    assert '<i class="dot good"></i>177 messages of queue q are visible; the queue was ' in page
    assert "filled faster" not in page


async def test_a_purge_and_a_deletion_can_be_undone_from_the_page_that_follows(http, queues):
    await queues.create_queue("q")
    await queues.send_messages("q", ["a", "b"])
    _pages(http)
    for action in ("purge", "delete-queue"):
        page = (await http("GET", f"/actions/{action}?queue=q")).content.decode()
        assert "It can be undone for ten minutes." in page
        assert f"rsmq {action} q --undo" in page
        form = {"queue": "q", "undo": "true", "typed-name": "q"}
        done = await _post(http, action, **form)
        cookie = done.headers["set-cookie"].partition(";")[0]
        shown = (await http("GET", "/queues", headers={"cookie": cookie})).content.decode()
        id = shown.split('name="id" value="')[1].split('"')[0]
        assert (await _post(http, "undo", id=id)).status == 303
        assert (await queues.get_queue_attributes("q")).messages == 2


async def test_the_page_of_a_purged_queue_says_so_and_has_the_undo(http, queues):
    await queues.create_queue("q")
    _pages(http)
    assert "purged" not in (await http("GET", "/queues/q")).content.decode()
    await queues.send_messages("q", ["a", "b"])
    await _post(http, "purge", queue="q", undo="true", **{"typed-name": "q"})
    page = (await http("GET", "/queues/q")).content.decode()
    assert "Queue q has no messages. 2 messages were purged at " in page
    id = page.partition("Undo the purge")[0].rpartition('name="id" value="')[2].partition('"')[0]
    assert 'value="q"><button>Undo the purge' in page
    asked = (await http("GET", f"/actions/undo?id={id}&queue=q")).content.decode()
    assert "Restores 2 messages of q, which a purge has removed." in asked
    await queues.create_queue("other")
    assert (await http("GET", f"/actions/undo?id={id}&queue=other")).status == 404
    assert (await _post(http, "undo", id=id, queue="other")).status == 404
    assert (await http("GET", "/actions/undo?id=none&queue=q")).status == 404
    done = await _post(http, "undo", id=id, queue="q")
    assert (done.status, done.headers["location"]) == (303, "/queues/q")
    assert (await queues.get_queue_attributes("q")).messages == 2
    assert "purged" not in (await http("GET", "/queues/q")).content.decode()


async def test_a_sweep_moves_what_was_received_too_often(http, queues):
    for name in ("q", "dead"):
        await queues.create_queue(name, vt=0)
    await queues.send_message("q", "a")
    await queues.receive_message("q")
    await queues.set_dead_letter_policy("q", "dead", 1)
    _pages(http)
    page = (await http("GET", "/actions/sweep?queue=q")).content.decode()
    assert "received 1 time or more to dead: at most 1000 of 1 visible message." in page
    assert (await _post(http, "sweep", queue="q", **{"typed-name": "q"})).status == 303
    assert (await queues.get_queue_attributes("dead")).messages == 1
