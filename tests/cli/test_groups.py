"""Commands on a Redis Cluster and on a primary with Sentinels."""

from __future__ import annotations

import itertools

import pytest
import redis

from rsmq import RSMQ
from rsmq.worker import Worker
from tests.proxy import Proxy
from tests.scale import WAIT_SECONDS

_numbers = itertools.count()


@pytest.fixture(params=["cluster", "sentinels"])
def group(request):
    """The URL of a group of servers, and a namespace for it."""
    started = request.getfixturevalue(request.param)
    number = next(_numbers)
    return started.url, f"{{cli{number}}}" if request.param == "cluster" else f"cli{number}"


@pytest.fixture
def on_group(cli, group):
    """Run the program for the namespace of the group."""
    url, ns = group

    def run(*arguments, **options):
        return cli("--url", url, "--ns", ns, *arguments, **options)

    return run


def test_messages_are_sent_received_and_deleted(on_group, group):
    assert on_group("create", "q").lines == ["q: created"]
    id = on_group("send", "q", "hello").lines[0]
    (received,) = on_group("receive", "q", "--json").json
    assert (received["id"], received["body"]) == (id, "hello")
    assert on_group("delete", "q", id).code == 0
    assert on_group("list").lines == ["q"]
    with RSMQ.from_url(group[0], ns=group[1]) as rsmq:
        assert rsmq.get_queue_attributes("q").messages == 0


def test_waiting_receive_ends(on_group, group):
    on_group("create", "q")
    with RSMQ.from_url(group[0], ns=group[1]) as rsmq:
        rsmq.send_message("q", "later", delay=1)
    assert [each["body"] for each in on_group("receive", "q", "--wait", "20", "--json").json] == [
        "later"
    ]


def test_doctor_reads_the_settings_of_the_server(on_group):
    codes = {each["code"] for each in on_group("doctor", "--json").json["findings"]}

    assert "no-persistence" in codes
    assert not {"not-looked-at", "no-hash-tag"} & codes


def test_export_is_imported_into_another_group(on_group, group, cli, tmp_path, server, ns):
    on_group("create", "q")
    with RSMQ.from_url(group[0], ns=group[1]) as rsmq:
        ids = rsmq.send_messages("q", ["a", "b", "c"])
    path = str(tmp_path / "queues.jsonl")

    assert on_group("export", "q", "--output", path).code == 0
    assert cli("--url", server.url, "--ns", ns, "import", path).code == 0

    with RSMQ.from_url(server.url, ns=ns) as rsmq:
        assert [message.id for message in rsmq.receive_messages("q", 10)] == ids


def test_rfq_version_shows_the_release_of_redis(on_group):
    assert on_group("rfq", "version").lines[1].startswith("redis 7.")


@pytest.fixture
def mapped(request, group):
    """A proxy in front of the server of the namespace, and a URL that names it."""
    url, ns = group
    started = request.getfixturevalue(request.node.callspec.params["group"])
    owner = started.node_of(ns) if hasattr(started, "node_of") else started.primary
    proxy = Proxy(owner.port)
    yield proxy, f"{url}?address_remap=127.0.0.1:{owner.port}=127.0.0.1:{proxy.port}"
    proxy.close()


def test_addresses_are_changed_by_the_url(cli, group, mapped):
    proxy, url = mapped
    assert cli("--url", url, "--ns", group[1], "create", "q").code == 0
    before = proxy.scripts
    assert cli("--url", url, "--ns", group[1], "send", "q", "hello").code == 0
    assert proxy.scripts > before


def test_wrong_address_remap_is_refused(cli):
    result = cli("--url", "redis+cluster://h?address_remap=10.0.0.1:6379", "--ns", "{t}", "list")

    assert result.code == 2
    assert "Invalid address_remap format: '10.0.0.1:6379'. It is HOST:PORT=HOST:PORT" in (
        result.stderr
    )


def test_namespace_without_a_hash_tag_is_refused(cli, cluster):
    result = cli("--url", cluster.url, "--ns", "rsmq", "list")

    assert result.code == 2
    assert result.stderr == (
        "rsmq: Invalid ns format: 'rsmq'. On Redis Cluster all keys of a queue must be in one "
        "slot. Use a namespace with a hash tag, as in --ns '{rsmq}'.\n"
    )


def test_groups_that_are_away_are_named(cli):
    for url, shown in (
        ("redis+cluster://127.0.0.1:1,127.0.0.1:2", "127.0.0.1:1, 127.0.0.1:2 (Redis Cluster)"),
        ("redis+sentinel://127.0.0.1:1/x", "127.0.0.1:1 (Sentinels)"),
    ):
        result = cli("--url", url, "--ns", "{rsmq}", "list")
        assert result.code == 4
        assert f"Is Redis running at {shown}?" in result.stderr


def test_unknown_name_of_a_primary_is_an_error(cli, sentinels):
    result = cli("--url", sentinels.url.replace("mymaster", "other"), "list")

    assert result.code == 5
    assert "No Sentinel watches a primary with the name 'other'" in result.stderr


@pytest.mark.parametrize("way", ["--move", "--copy"])
def test_queue_is_migrated_to_a_cluster_and_back(cli, cluster, sentinels, ns, way):
    tag = f"{{{ns}}}"
    with (
        RSMQ.from_url(sentinels.url, ns=ns) as old,
        RSMQ.from_url(cluster.url, ns=tag) as new,
    ):
        old.create_queue("q")
        ids = old.send_messages("q", [str(number) for number in range(300)])

        there = cli(
            "migrate", "--from", "rsmq:q", "--from-url", sentinels.url, "--from-ns", ns,
            "--to", "q", "--url", cluster.url, "--ns", tag, way,
        )  # fmt: skip
        assert (there.code, there.stderr) == (0, "")
        assert [message.id for message in new.receive_messages("q", 1000, vt=0)] == ids
        assert old.get_queue_attributes("q").messages == (0 if way == "--move" else 300)

        back = cli(
            "migrate", "--from", "rsmq:q", "--from-url", cluster.url, "--from-ns", tag,
            "--to", "back", "--url", sentinels.url, "--ns", ns, way,
        )  # fmt: skip
        assert (back.code, back.stderr) == (0, "")
        assert [message.id for message in old.receive_messages("back", 1000, vt=0)] == ids


def test_queue_is_moved_to_another_slot_of_a_cluster(cli, cluster, ns):
    with (
        RSMQ.from_url(cluster.url, ns=f"{{{ns}-a}}") as old,
        RSMQ.from_url(cluster.url, ns=f"{{{ns}-b}}") as new,
    ):
        old.create_queue("q")
        ids = old.send_messages("q", [str(number) for number in range(300)])

        moved = cli(
            "migrate", "--from", "rsmq:q", "--from-url", cluster.url, "--from-ns", f"{{{ns}-a}}",
            "--to", "q", "--url", cluster.url, "--ns", f"{{{ns}-b}}", "--move",
        )  # fmt: skip

        assert (moved.code, moved.stderr) == (0, "")
        assert [message.id for message in new.receive_messages("q", 1000)] == ids
        assert old.get_queue_attributes("q").messages == 0


def test_list_is_moved_if_its_namespace_is_in_its_slot(cli, cluster, ns):
    key = f"{{{ns}}}work"
    cluster.raw.rpush(key, *range(10))

    moved = cli(
        "migrate", "--from", f"list:{key}", "--from-url", cluster.url, "--from-ns", f"{{{ns}}}",
        "--to", "q", "--url", cluster.url, "--ns", f"{{{ns}-b}}", "--move",
    )  # fmt: skip

    assert (moved.code, moved.stderr) == (0, "")
    assert cluster.raw.exists(key) == 0
    with RSMQ.from_url(cluster.url, ns=f"{{{ns}-b}}") as rsmq:
        assert rsmq.count_messages("q").visible == 10


def test_list_in_another_slot_is_left_as_it_is(cli, cluster, ns):
    key = f"{{{ns}}}work"
    cluster.raw.rpush(key, *range(10))

    refused = cli(
        "migrate", "--from", f"list:{key}", "--from-url", cluster.url, "--from-ns", f"{{{ns}-a}}",
        "--to", "q", "--url", cluster.url, "--ns", f"{{{ns}-b}}", "--move",
    )  # fmt: skip

    assert refused.code != 0
    assert "one slot" in refused.stderr
    assert cluster.raw.llen(key) == 10


def test_worker_handles_messages_of_a_group(group):
    url, ns = group
    seen = []
    with RSMQ.from_url(url, ns=ns) as rsmq:
        rsmq.create_queue("q")
        rsmq.send_messages("q", ["1", "2", "3"])
    worker = Worker(RSMQ.from_url(url, ns=ns), name="w", concurrency=2)

    @worker.listener("q", drop=True)
    async def handle(body):
        seen.append((body, (await worker.aio.get_queue_attributes("q")).total_received))

    worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)

    assert sorted(body for body, _ in seen) == ["1", "2", "3"]
    assert {received for _, received in seen} <= {1, 2, 3}
    with RSMQ.from_url(url, ns=ns) as rsmq:
        assert rsmq.get_queue_attributes("q").messages == 0


def test_worker_with_a_client_of_redis_py_has_an_asyncio_client(cluster, ns):
    seen = []
    with redis.RedisCluster(host="127.0.0.1", port=cluster.nodes[0].port) as client:
        worker = Worker(RSMQ(client, ns=f"{{{ns}}}"), name="w")

        @worker.listener("q", drop=True)
        async def handle(body):
            seen.append((body, await worker.aio.list_queues()))

        worker.rsmq.create_queue("q")
        worker.rsmq.send_message("q", "1")
        worker.run(until_empty=True, timeout=WAIT_SECONDS, raise_errors=True)
        worker.rsmq.close()

    assert seen == [("1", ["q"])]
