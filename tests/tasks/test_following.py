"""Tasks that follow others: sent in the script that deletes the message before."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import json
import time

import pydantic
import pytest

from rsmq import InvalidFormat, InvalidValue, MessageTooLong
from rsmq.errors import JobFailed, JobNotEnded, JobNotTracked, NotPossible
from rsmq.jobs import FollowingJob
from rsmq.operations.plain import plain_command
from rsmq.tasks import RESULT
from rsmq.worker.operations import FollowingMessage, Identity, finish_messages
from tests.scale import WAIT_SECONDS

_numbers = itertools.count()


class Sum(pydantic.BaseModel):
    total: int
    at: dt.date = dt.date(2026, 1, 1)


def declare(tasks, ran, *, is_async=False):
    """Return two tasks; the first one returns a model."""

    @tasks.task(queue="a", name="add")
    def add(first: int, second: int) -> Sum:
        ran.append((first, second))
        return Sum(total=first + second)

    @tasks.task(queue="b", name="report")
    def report(sum: Sum | None = None, title: str = "") -> str:
        ran.append((sum, title))
        return title.upper()

    if not is_async:
        return add, report

    @tasks.task(queue="c", name="add_async")
    async def add_async(first: int, second: int) -> Sum:
        return add(first, second)

    return add_async, report


@pytest.mark.parametrize("is_async", [False, True])
def test_the_next_task_gets_the_result(tasks, raw, is_async):
    ran = []
    add, report = declare(tasks, ran, is_async=is_async)
    add.options(then=report.signature(RESULT, title="x")).send(1, 2)

    assert raw(add.queue) == [
        '{"task":"' + add.name + '","args":{"first":1,"second":2},'
        '"then":{"queue":"b","task":"report","args":{"title":"x"},"result":"sum"}}'
    ]
    tasks.run_all()
    assert ran == [(1, 2), (Sum(total=3), "x")]
    assert raw(add.queue) == raw("b") == []


def test_a_chain_runs_in_order_and_in_immediate_too(tasks):
    ran = []
    add, report = declare(tasks, ran)
    last = report.signature(title=RESULT)
    chain = add.options(then=report.options(then=last).signature(title="x"))

    def send_in_a_loop():
        async def send():
            await chain.asend(1, 2)

        asyncio.run(send())

    chain.send(1, 2)
    tasks.run_all()
    with tasks.immediate():
        chain.send(1, 2)
        send_in_a_loop()
    assert ran == [(1, 2), (None, "x"), (None, "X")] * 3


def test_the_next_message_is_sent_by_the_script_that_deletes(tasks, raw):
    tasks.client.create_queue("a")
    tasks.client.create_queue("b")
    tasks.client.send_messages("a", ["1", "2"])
    first, second = tasks.client.receive_messages("a", 2, vt=0)
    again = tasks.client.receive_messages("a", 2)
    namespace = tasks.client.namespace
    worker = Identity(namespace, "w", "token")

    def finish(*messages, queue="b", body=b"next"):
        results = tasks.client.run(
            finish_messages(
                worker,
                namespace.queue("a"),
                messages[0].receive_count,
                [(each.id, FollowingMessage(queue, body, len(body))) for each in messages],
            )
        )
        return [each.decode() for each in results]

    assert finish(first, second) == ["2", "2"]
    assert raw("b") == []
    assert finish(again[0], queue="missing") == [f"QUEUENOTFOUND {namespace.name}:missing:Q"]
    tasks.client.set_queue_attributes("b", maxsize=1024)
    assert finish(again[0], body=b"x" * 2000) == ["MESSAGETOOLONG 2000 1024"]
    assert len(raw("a")) == 2
    # A message that is refused leaves the others alone.
    results = tasks.client.run(
        finish_messages(
            worker,
            namespace.queue("a"),
            2,
            [
                (again[0].id, FollowingMessage("missing", b"", 0)),
                (again[1].id, FollowingMessage("b", b'"next"', 6)),
            ],
        )
    )
    assert [len(each) > 1 for each in results] == [True, False]
    assert [each.id for each in tasks.client.peek_messages("a")] == [first.id]
    assert raw("b") == ['"next"']
    assert finish(again[0], body=b"last") == ["1"]
    assert raw("a") == []
    assert raw("b") == ['"next"', "last"]
    assert finish(again[0]) == ["0"]
    assert raw("b") == ['"next"', "last"]
    assert tasks.client.get_queue_attributes("b").total_sent == 2


def test_a_result_that_is_no_argument_of_the_next_task_is_a_dead_letter(tasks):
    ran = []
    add, _ = declare(tasks, ran)

    @tasks.task(queue="d", name="number")
    def number(value: int) -> None: ...

    add.options(then=number.signature(RESULT)).send(1, 2)
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)

    [dead] = tasks.client.peek_messages("a-dead")
    assert dead.reason.text == (
        "given up by its handler: its result can't be passed to task number: value is not valid, "
        "int_type (Input should be a valid integer)"
    )
    assert ran == [(1, 2)]


def test_a_task_that_follows_is_refused_if_it_is_wrong(tasks):
    add, report = declare(tasks, [])
    for then, hint in (
        (report, "Pass a call"),
        (report.options(delay=1).signature(), "without options but level and then"),
    ):
        with pytest.raises(InvalidFormat, match=hint):
            add.options(then=then)
    with pytest.raises(InvalidFormat, match="title is RESULT: pass this call as then="):
        report.send(title=RESULT)
    with pytest.raises(InvalidFormat, match="only one of them can be RESULT"):
        report.signature(RESULT, RESULT)
    with pytest.raises(InvalidFormat, match="pass this call as then="):
        tasks.send_many([report.signature(RESULT)])
    assert tasks.client.list_queues() == []


def test_a_call_that_is_too_large_to_follow_is_refused_at_the_send(tasks):
    first, report = declare(tasks, [])
    tasks.client.create_queue("b", maxsize=1024)
    large = report.signature(title="x" * 1000)
    for then in large, report.options(then=large).signature(title="y"):
        call = first.options(then=then)
        for send in (
            lambda call=call: call.send(1, 1),
            lambda call=call: tasks.send_many([call.signature(1, 1)]),
            lambda call=call: asyncio.run(call.asend(1, 1)),
            lambda call=call: asyncio.run(tasks.asend_many([call.signature(1, 1)])),
        ):
            with pytest.raises(MessageTooLong, match="maxsize of queue 'b' is 1024"):
                send()
    assert tasks.client.list_queues() == ["b"]
    for change in (
        lambda: tasks.client.set_queue_attributes("b", maxsize=-1),
        lambda: tasks.client.delete_queue("b"),
    ):
        change()
        first.options(then=large).send(1, 1)
    tasks.run_all()
    assert tasks.client.get_queue_attributes("b").total_sent == 2


def declare_tracked(tasks):
    """Return a task whose argument is its result; 0 fails."""

    @tasks.task(queue="t", name="copy", track=True, max_retries=0)
    def copy(number: int) -> int:
        if number == 0:
            raise ValueError("zero")
        return number

    @tasks.task(queue="t_end", name="total", track=True, concurrency=2)
    def total(numbers: list[int]) -> dt.timedelta:
        return dt.timedelta(seconds=sum(numbers))

    return copy, total


def call(tasks, step, *, is_async):
    """Return the result of one of the two functions of step: the first waits, the second awaits."""
    if not is_async:
        return step[0]()

    async def run():
        try:
            return await step[1]()
        finally:
            await tasks.close_asyncio()

    return asyncio.run(run())


@pytest.mark.parametrize("is_async", [False, True])
def test_the_end_of_a_chain_is_awaited(tasks, is_async):
    copy, total = declare_tracked(tasks)
    chain = copy.options(then=copy.options(then=total.signature([4, 5])).signature(RESULT))

    def end():
        job, places = chain.send(2), []
        tasks.run_all()
        for _ in range(2):
            places.append(job.status().following)
            job = job.following(timeout=WAIT_SECONDS)
            assert places[-1] == FollowingJob(job.queue, job.id)
        with pytest.raises(NotPossible, match="No task has followed"):
            job.following(timeout=0)
        return places, job.result(timeout=0)

    async def aend():
        job, places = await chain.asend(2), []
        await tasks.arun_all()
        for _ in range(2):
            places.append((await job.status()).following)
            job = await job.following(timeout=WAIT_SECONDS)
        with pytest.raises(NotPossible, match="No task has followed"):
            await job.following(timeout=0)
        return places, await job.result(timeout=0)

    places, result = call(tasks, (end, aend), is_async=is_async)
    assert [each.queue for each in places] == ["t", "t_end"]
    assert result == dt.timedelta(seconds=9)


def test_what_follows_is_waited_for_until_the_first_job_has_succeeded(tasks):
    copy, total = declare_tracked(tasks)
    job = copy.options(then=total.signature([1])).send(1)
    with pytest.raises(JobNotEnded):
        job.following(timeout=0)
    assert job.status().following is None
    tasks.run_all()
    assert job.following().result(timeout=0) == dt.timedelta(seconds=1)
    assert tasks.client.job(job.queue, job.id).following().result(timeout=0) == "PT1S"
    failed = copy.options(then=total.signature([1])).send(0)
    tasks.worker().run(until_empty=True)
    with pytest.raises(JobFailed, match="zero"):
        failed.following(timeout=0)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_end_of_a_map_is_awaited(tasks, is_async):
    copy, total = declare_tracked(tasks)
    then = total.signature(RESULT)

    def end(items):
        jobs = tasks.map(copy, items, then=then)
        if items:
            with pytest.raises(JobNotEnded):
                jobs.following(timeout=0)
        tasks.run_all()
        return jobs.following(timeout=WAIT_SECONDS).result(timeout=0)

    async def aend(items):
        jobs = await tasks.amap(copy, items, then=then)
        await tasks.arun_all()
        return await (await jobs.following(timeout=WAIT_SECONDS)).result(timeout=0)

    for items in ([], [3, 4, 5]):
        steps = [lambda step=step, items=items: step(items) for step in (end, aend)]
        assert call(tasks, steps, is_async=is_async) == dt.timedelta(seconds=sum(items))


def test_a_map_of_which_an_item_has_failed_raises_its_error(tasks):
    copy, total = declare_tracked(tasks)
    jobs = tasks.map(copy, [1, 0], then=total.signature(RESULT))
    tasks.worker().run(until_empty=True)
    with pytest.raises(JobFailed, match="zero"):
        jobs.following(timeout=0)
    body = tasks.client.peek_messages("t-dead")[0].raw.replace(b'"number":0}', b'"number":7}', 1)
    tasks.client.send_message("t", body.decode(), track=True)
    tasks.run_all()
    [end] = tasks.client.jobs("t_end")
    assert tasks.client.job("t_end", end.id).result(timeout=0) == "PT8S"

    @tasks.task(queue="untracked", name="untracked")
    def untracked(number: int) -> None: ...

    with pytest.raises(JobNotTracked):
        tasks.map(untracked, [1], then=total.signature([1])).following(timeout=0)


def test_a_job_that_begins_again_has_nothing_after_it(tasks):
    copy, total = declare_tracked(tasks)
    job = copy.options(then=total.signature([1])).send(1)
    tasks.run_all()
    caller = tasks.client
    key = caller.namespace.queue("t").job(job.id)
    following = job.status().following
    stored = caller.run(plain_command("HGET", key, "next"))
    assert stored == f"{following.id} {following.queue}".encode()
    body = b'{"task":"copy","args":{"number":3}}'
    caller.run(plain_command("HSET", caller.namespace.queue("t").hash, job.id, body))
    caller.run(plain_command("ZADD", caller.namespace.queue("t").zset, "1", job.id))
    tasks.run_all()
    assert (job.result(timeout=0), job.status().following) == (3, None)


def test_what_follows_is_known_without_redis(tasks):
    copy, total = declare_tracked(tasks)
    with tasks.immediate():
        job = copy.options(then=total.signature([4, 5])).send(2)
        assert job.following().result() == dt.timedelta(seconds=9)
        jobs = tasks.map(copy, [1, 2], then=total.signature(RESULT))
        assert jobs.following().result() == dt.timedelta(seconds=3)

        async def send():
            job = await copy.options(then=total.signature([6])).asend(2)
            return await (await job.following()).result()

        assert asyncio.run(send()) == dt.timedelta(seconds=6)


def keys_of_maps(tasks):
    caller = tasks.client
    return caller.run(plain_command("KEYS", b"rsmq:x:map:*"))


@pytest.mark.parametrize("is_async", [False, True])
def test_a_map_sends_the_next_task_after_all_items(tasks, raw, is_async):
    ran = []

    @tasks.task(queue="items", name="item", concurrency=4)
    def item(number: int) -> None:
        ran.append(number)

    @tasks.task(queue="ends", name="end")
    def end(title: str) -> None:
        ran.append(title)

    if is_async:
        jobs = asyncio.run(tasks.amap(item, range(20), then=end.signature("all")))
    else:
        jobs = tasks.map(item, range(20), then=end.signature("all"))

    assert [each.queue for each in jobs] == ["items"] * 20
    [key] = keys_of_maps(tasks)
    id = key.decode().removeprefix("rsmq:x:map:")
    assert raw("items")[3] == (
        '{"task":"item","args":{"number":3},"map":{"id":"' + id + '","number":3,"queue":"ends"}}'
    )
    tasks.run_all()
    assert sorted(ran[:-1]) == list(range(20))
    assert ran[-1] == "all"
    assert keys_of_maps(tasks) == []
    assert tasks.client.get_queue_attributes("ends").total_sent == 1


def test_an_item_that_runs_twice_counts_once_and_a_failed_one_is_waited_for(tasks, raw):
    ran = []
    is_broken = True

    @tasks.task(queue="items", name="item", max_retries=0)
    def item(number: int) -> None:
        if number == 1 and is_broken:
            raise ValueError
        ran.append(number)

    @tasks.task(queue="ends", name="end")
    def end() -> None:
        ran.append("end")

    tasks.map(item, [0, 1], then=end.signature())
    [body] = [each for each in raw("items") if '"number":0}' in each]
    tasks.client.send_message("items", body)  # as a redelivery after the item has returned
    tasks.worker().run(until_empty=True, timeout=WAIT_SECONDS)
    assert ran == [0, 0]
    [key] = keys_of_maps(tasks)
    assert tasks.client.run(plain_command("HKEYS", key)) == [b"then", b"1"]
    assert 0 < tasks.client.run(plain_command("PTTL", key)) <= 7 * 24 * 3600 * 1000

    is_broken = False
    tasks.client.redrive_messages("items-dead")
    tasks.run_all()
    tasks.client.send_message("items", body)
    tasks.run_all()
    assert ran == [0, 0, 1, "end", 0]


def test_a_map_without_items_sends_the_next_task_and_immediate_runs_all(tasks):
    ran = []

    @tasks.task(queue="q", name="item")
    def item(number: int) -> None:
        ran.append(number)

    @tasks.task(queue="q", name="end")
    def end() -> None:
        ran.append("end")

    assert tasks.map(item, [], then=end.signature()) == []
    tasks.run_all()
    with tasks.immediate():
        assert len(tasks.map(item, [1, 2], then=end.signature())) == 2
        assert len(asyncio.run(tasks.amap(item, [3], then=end.signature()))) == 1
    assert ran == ["end", 1, 2, "end", 3, "end"]


@pytest.fixture
def sums(tasks):
    """Declare a task whose results a next one takes; return what has run."""
    ran = []

    @tasks.task(queue="items", name="item", track=True, concurrency=4, max_retries=0)
    def item(number: int) -> str:
        if number < 0:
            raise ValueError("negative")
        ran.append(number)
        return "ä𝄞" * number

    @tasks.task(queue="ends", name="end")
    def end(texts: list[str], title: str = "") -> None:
        ran.append((texts, title))

    tasks.item, tasks.end = item, end
    return ran


def fields_of_map(tasks):
    [key] = keys_of_maps(tasks)
    names = sorted(tasks.client.run(plain_command("HKEYS", key)))
    return dict(zip(names, tasks.client.run(plain_command("HMGET", key, *names)), strict=True))


def test_the_results_of_a_map_reach_the_next_task_in_order(tasks, sums, raw):
    tasks.map(tasks.item, [3, 1, -1, 2], then=tasks.end.signature(RESULT, title="%1\\1"))
    assert json.loads(raw("items")[1])["map"]["results"] is True
    found = fields_of_map(tasks)
    assert (found[b"left"], found[b"total"], found[b"size"]) == (b"4", b"4", b"0")
    size, body = found[b"then"].split(b":", 1)
    assert b'"texts":\x01results\x01' in body
    assert int(size) == len(body)
    tasks.worker().run(until_empty=True)
    found = fields_of_map(tasks)
    assert found[b"left"] == b"1"
    assert found[b"r0"] == '"{}"'.format("ä𝄞" * 3).encode()
    assert found[b"size"] == b"%d" % sum(3 * number + 2 + 1 for number in (3, 1, 2))
    assert [name for name in found if name.isdigit()] == [b"2"]
    [dead] = tasks.client.peek_messages("items-dead")
    body = json.loads(dead.raw)
    body["args"]["number"] = 0
    tasks.client.send_message("items", json.dumps(body))
    tasks.run_all()
    assert sums[-1] == (["ä𝄞" * 3, "ä𝄞", "", "ä𝄞" * 2], "%1\\1")
    assert keys_of_maps(tasks) == []


def test_a_result_that_makes_the_results_of_a_map_too_large_fails_at_once(tasks, sums):
    tasks.client.create_queue("ends", maxsize=1024)
    jobs = tasks.map(tasks.item, [200, 200, 1], then=tasks.end.signature(RESULT))
    worker = tasks.worker(concurrency=1)
    worker.run(until_empty=True)
    states = [each.status().state.value for each in jobs]
    assert sorted(states) == ["failed", "succeeded", "succeeded"]
    assert tasks.client.peek_messages("items-dead")
    assert fields_of_map(tasks)[b"left"] == b"1"
    failed = jobs[states.index("failed")].status()
    assert "queue ends" in failed.error
    assert "1024" in failed.error
    assert sums.count((1,)) == 0


@pytest.mark.parametrize("is_async", [False, True])
def test_a_map_with_a_dedup_id_is_sent_once(tasks, sums, is_async):
    def send():
        if is_async:

            async def call():
                jobs = await tasks.amap(
                    tasks.item, [1, 2], then=tasks.end.signature(RESULT), dedup_id="import-7"
                )
                await tasks.close_asyncio()
                return jobs

            return asyncio.run(call())
        return tasks.map(tasks.item, [1, 2], then=tasks.end.signature(RESULT), dedup_id="import-7")

    first, second = send(), send()
    assert [each.id for each in first] == [each.id for each in second]
    assert tasks.client.get_queue_attributes("items").total_sent == 2
    tasks.run_all()
    assert [each.id for each in send()] == [each.id for each in first]
    assert keys_of_maps(tasks) == []
    tasks.run_all()
    assert sums.count((["ä𝄞", "ä𝄞ä𝄞"], "")) == 1
    assert len(sums) == 3
    for _ in range(2):
        assert tasks.map(tasks.item, [], then=tasks.end.signature(RESULT), dedup_id="e") == []
    tasks.run_all()
    assert sums[3:] == [([], "")]
    with pytest.raises(InvalidFormat):
        tasks.map(tasks.item, [1], then=tasks.end.signature([]), dedup_id="")


def test_a_map_is_sent_again_when_its_dedup_ids_have_ended(tasks, sums):
    def send():
        return tasks.map(tasks.item, [1, 2], then=tasks.end.signature(RESULT), dedup_id="d")

    caller, records = tasks.client, tasks.client.namespace.queue("items").dedup
    send()
    tasks.run_all()
    names = [each for each in caller.run(plain_command("HKEYS", records)) if each]
    for seconds, number, kept in ((61, 0, 0), (1, 0, 1), (-1, 2, 1)):
        end = round((time.time() + seconds) * 1000)
        for name in names:
            _, rest = caller.run(plain_command("HGET", records, name)).split(b":", 1)
            caller.run(plain_command("HSET", records, name, b"%d:%s" % (end, rest)))
        send()
        assert caller.get_queue_attributes("items").messages == number
        assert len(keys_of_maps(tasks)) == kept
    tasks.run_all()
    assert sums.count((["ä𝄞", "ä𝄞ä𝄞"], "")) == 2
    assert keys_of_maps(tasks) == []


def test_the_results_of_a_map_without_redis(tasks, sums):
    with tasks.immediate():
        tasks.map(tasks.item, [1, 2], then=tasks.end.signature(RESULT))
        asyncio.run(tasks.amap(tasks.item, [], then=tasks.end.signature(RESULT)))
    assert sums == [1, 2, (["ä𝄞", "ä𝄞ä𝄞"], ""), ([], "")]


def test_a_wrong_map_is_refused_and_sends_nothing(tasks):
    _, report = declare(tasks, [])

    @tasks.task(queue="q", name="item")
    def item(number: int) -> None: ...

    last = report.signature()
    for call, error, hint in (
        (lambda: tasks.map(item, ["x"], then=last), InvalidFormat, "number is not valid"),
        (lambda: tasks.map(item, range(10_001), then=last), InvalidValue, "10000"),
        (lambda: tasks.map(item, [1], then=report), InvalidFormat, "Pass a call"),
        (lambda: tasks.map(item, [1], then=report.signature(RESULT)), InvalidFormat, "RESULT"),
        (lambda: tasks.map(print, [1], then=last), InvalidFormat, "Pass a task"),
        (
            lambda: tasks.map(item.options(unique_key="k"), [1], then=last),
            InvalidFormat,
            "has no then, dedup_id or unique_key",
        ),
    ):
        with pytest.raises(error) as refused:
            call()
        assert hint in str(refused.value).replace(",", "") or hint in str(refused.value)
    assert tasks.client.list_queues() == []
    assert keys_of_maps(tasks) == []
