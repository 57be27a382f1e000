"""The times of a page are of one zone, which it names once."""

import re
from importlib import resources

from rsmq.operations.plain import plain_command
from tests.web.test_pages import _pages


async def test_each_page_names_the_zone_of_its_times_once(http, queues):
    await queues.create_queue("q")
    [id] = await queues.send_messages("q", ["a"])
    await queues.receive_message("q")
    _pages(http)
    for path in ("/", "/queues", "/queues/q", "/queues/q/messages", f"/queues/q/messages/{id}"):
        page = (await http("GET", path)).content.decode()
        assert page.count("All times are UTC") == 1
        times = re.findall(r"<time[^>]*>([^<]*)</time>", page)
        assert all(re.fullmatch(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d", each) for each in times)
        assert times or path in {"/", "/queues", "/queues/q"}


def test_no_script_of_a_page_shows_another_zone():
    for file in (resources.files("rsmq.web.pages") / "static").iterdir():
        if file.name.endswith(".js"):
            text = file.read_text()
            assert not re.search(r"toTimeString|toLocaleTimeString|get(Hours|Date|Month)\b", text)
            assert not re.search(r"textContent = .*(Date|\bat\b|clock)", text)


async def test_an_alert_of_a_pause_has_the_time_of_the_pause(http, queues):
    await queues.create_queue("q")
    [id] = await queues.send_messages("q", ["a"])
    key = queues.namespace.queue("q").zset
    await queues.run(plain_command("ZADD", key, 1000, id))  # the oldest one is much older
    before = (await queues.get_message("q", id)).visible_at_ms
    await queues.pause_queue("q")
    found = (await http("GET", "/alerts")).json["alerts"]
    [pause] = [each for each in found if each["kind"] == "paused"]
    stored = await queues.run(plain_command("HGET", queues.namespace.queue("q").hash, b"x:paused"))
    assert pause["since_ms"] == int(stored) > before
