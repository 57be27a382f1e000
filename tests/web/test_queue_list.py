"""The list of queues: its orders, its pages, and how many commands it takes."""

import pytest

from rsmq.history.operations import record_minute


async def _pages(http, query):
    """Return the names on each page."""
    found, cursor = [], ""
    while cursor is not None:
        page = (await http("GET", f"/queues?{query}{cursor and '&cursor=' + cursor}")).json
        found.append([each["name"] for each in page["queues"]])
        cursor = page["cursor"]
    return found


async def test_queues_are_sorted_by_the_rates_that_are_shown_and_by_their_dead_letters(
    http, queues
):
    names = ["a", "b", "c", "unrecorded"]
    for name in [*names, "dead-a", "dead-c"]:
        await queues.create_queue(name)
    await queues.send_messages("dead-a", ["x"] * 2)
    await queues.send_messages("dead-c", ["x"] * 3)
    for name in "ac":
        await queues.set_dead_letter_policy(name, f"dead-{name}", 3)
    await queues.set_dead_letter_policy("b", "dead-a", 3)
    assert await _pages(http, "sort=-dead_letters") == [
        ["c", "a", "b", "dead-a", "dead-c", "unrecorded"]
    ]
    minute = int((await queues.run(_plain("TIME", key=b"rsmq")))[0]) // 60
    recorded = list("abc")
    await queues.run(record_minute(queues.namespace, minute - 1, recorded, is_last=True))
    for number, name in enumerate(recorded, 1):
        await queues.send_messages(name, ["x"] * number)
        for _ in range(4 - number):
            await queues.receive_message(name, vt=0)
    await queues.run(record_minute(queues.namespace, minute, recorded, is_last=True))
    for sort, expected in (
        ("-sent_per_second", ["c", "b", "a"]),
        ("-received_per_second", ["a", "b", "c"]),
    ):
        page = (await http("GET", f"/queues?sort={sort}&activity=true")).json["queues"]
        assert [each["name"] for each in page][:3] == expected
        rates = [each["activity"][sort[1:]] for each in page]
        assert rates[:3] == sorted(rates[:3], reverse=True)


async def test_dead_letter_queues_can_be_left_out(http, queues):
    for name in ("a", "b", "dead"):
        await queues.create_queue(name)
        await queues.send_message(name, "x")
    await queues.set_dead_letter_policy("a", "dead", 3)
    for sort in ("name", "oldest", "-sent_per_second"):
        found = await _pages(http, f"sort={sort}&dead_letter_queues=false")
        assert sorted(found[0]) == ["a", "b"]
    # The policy of a queue that is not listed counts.
    assert await _pages(http, "q=dead&dead_letter_queues=false") == [[]]
    assert await _pages(http, "q=dead") == [["dead"]]


async def _fill(queues):
    """Make queues of 1, 0, 2 and 1 messages; b has received one, and d sent one and deleted it."""
    for name, number in {"a": 1, "b": 0, "c": 2, "d": 1}.items():
        await queues.create_queue(name)
        for _ in range(number):
            await queues.send_message(name, "x")
    await queues.send_message("b", "x")
    await queues.pop_message("b")


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("name", ["a", "b", "c", "d"]),
        ("-name", ["d", "c", "b", "a"]),
        ("depth", ["b", "a", "d", "c"]),
        ("-depth", ["c", "a", "d", "b"]),
        ("-visible", ["c", "a", "d", "b"]),
        ("hidden", ["a", "b", "c", "d"]),
        ("-sent", ["c", "a", "b", "d"]),
        ("-received", ["b", "a", "c", "d"]),
        ("oldest", ["a", "c", "d", "b"]),
    ],
)
async def test_queues_are_sorted_and_each_is_on_one_page(sort, expected, http, queues):
    await _fill(queues)
    for at, name in enumerate("acd"):
        first = (await queues.peek_messages(name))[0]
        await queues.run(_plain("ZADD", f"rsmq:{name}", 1000 + at, first.id))
    assert await _pages(http, f"sort={sort}") == [expected]
    assert await _pages(http, f"sort={sort}&limit=2") == [expected[:2], expected[2:]]
    assert await _pages(http, f"sort={sort}&limit=1") == [[each] for each in expected]


async def test_a_page_begins_behind_the_last_queue_even_if_that_is_gone(http, queues):
    await _fill(queues)
    page = (await http("GET", "/queues?sort=-depth&limit=2")).json
    await queues.delete_queue("a")
    rest = (await http("GET", f"/queues?sort=-depth&cursor={page['cursor']}")).json
    assert [each["name"] for each in rest["queues"]] == ["d", "b"]


@pytest.mark.parametrize("activity", ["false", "true"])
async def test_a_queue_whose_attributes_cannot_be_read_is_left_out(activity, http, queues):
    for name in ("a", "ill"):
        await queues.create_queue(name)
        await queues.send_message(name, "x", delay=5)
    await queues.run(_plain("HSET", f"{queues.namespace.name}:ill:Q", "vt", "no number"))
    page = await http("GET", f"/queues?activity={activity}")
    assert [each["name"] for each in page.json["queues"]] == ["a"]


async def test_names_are_found_by_a_part_or_a_pattern(http, queues):
    for name in ("orders", "orders-dead", "other"):
        await queues.create_queue(name)
    assert await _pages(http, "q=rders") == [["orders", "orders-dead"]]
    assert await _pages(http, "q=o*r&sort=-depth") == [["other"]]
    assert await _pages(http, "q=none&sort=oldest") == [[]]


@pytest.mark.parametrize(
    "query", ["sort=size", "cursor=x", "sort=depth&cursor=WyJuYW1lIiwgZmFsc2UsIDAsICJhIl0="]
)
async def test_a_bad_order_and_the_cursor_of_another_one_are_refused(query, http, queues):
    assert (await http("GET", f"/queues?{query}")).status == 422


async def test_many_queues_are_read_in_short_steps(http, queues):
    for number in range(201):
        await queues.create_queue(f"q{number:03}")
    steps, run_operation = [], queues.run

    async def count(operation):
        steps.append((operation.script.name, len(operation.keys)))
        return await run_operation(operation)

    queues.run = count
    assert len(await _pages(http, "limit=1000")) == 1
    names, *attributes = steps
    assert names == ("", 1)
    assert attributes == [("read_queues", 2 * number) for number in (50, 50, 50, 50, 1)]
    steps.clear()
    assert (await http("GET", "/queues?limit=100&sort=oldest")).status == 200
    assert steps[1:3] == [("read_queues", 2 * number) for number in (150, 51)]
    assert len(steps) == 1 + 2 + 2
    steps.clear()
    assert (await http("GET", "/queues?activity=true&sort=oldest")).status == 200
    assert steps[3:] == [("read_queues", 3 * number) for number in (27, 27, 27, 19)]
    steps.clear()
    assert (await http("GET", "/dead-letters")).status == 200
    assert steps[1:] == [("read_queues", 2 * number) for number in (150, 51)]


def _plain(*words, **options):
    from rsmq.operations.plain import plain_command

    return plain_command(*words, **options)
