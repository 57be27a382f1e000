"""Faults of the server: full memory, lost scripts, kills, and error replies."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import threading
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest
import redis
import redis.exceptions as redis_errors

from rsmq import (
    BYTES,
    RSMQ,
    TEXT,
    AsyncRSMQ,
    Confirm,
    InvalidValue,
    MessageTooLong,
    NotReplicated,
    QueueNotFound,
)
from rsmq.transport.retry import has_not_run
from tests.blocking import Blocking
from tests.ledger import run_with_kills
from tests.ports import free_port
from tests.proxy import Proxy
from tests.scale import scaled
from tests.servers import Server, redis_7, redis_62

pytestmark = pytest.mark.slow


@pytest.fixture(params=[redis_7, redis_62])
def full(request):
    """A server whose memory is filled by one queue of small messages."""
    server = Server(request.param(), "--maxmemory", "5mb", "--maxmemory-policy", "noeviction")
    yield server
    server.stop()


@pytest.fixture(params=["sync", "asyncio"])
def open_client(request):
    """A function that opens a client of a URL."""
    runner = asyncio.Runner() if request.param == "asyncio" else None
    clients = []

    def open(url, **options):
        if runner is None:
            clients.append(RSMQ.from_url(url, **options))
        else:
            clients.append(Blocking(runner, AsyncRSMQ.from_url(url, **options)))
        return clients[-1]

    yield open
    for client in clients:
        client.close()
    if runner is not None:
        runner.close()


FULL = "command not allowed when used memory"


def shrink(server):
    """Lower the memory limit, so that freed buffers leave no room."""
    with server.raw() as raw:
        raw.config_set("maxmemory", raw.info("memory")["used_memory"] - 1_000_000)


def test_a_full_server_refuses_sends_and_can_be_drained(full, open_client):
    rsmq = open_client(full.url)
    rsmq.create_queue("q")
    body = "x" * 1000
    sent = 0
    with pytest.raises(redis_errors.ResponseError, match=FULL) as caught:
        while True:
            rsmq.send_message("q", body)
            sent += 1
    assert "Receiving and deleting still work" in str(caught.value)
    shrink(full)
    for call in (
        lambda: rsmq.send_message("q", body),
        lambda: rsmq.create_queue("other"),
        lambda: rsmq.set_queue_attributes("q", vt=1),
    ):
        with pytest.raises(redis_errors.ResponseError, match=FULL):
            call()

    with full.raw() as raw:
        fields = raw.hlen("rsmq:q:Q")
        assert raw.zcard("rsmq:q") == sent > 1000
        assert fields == 6 + sent
        assert raw.smembers("rsmq:QUEUES") == {b"q"}

        message_in_flight = rsmq.receive_message("q", vt=1000)
        assert rsmq.change_message_visibility(message_in_flight, 2000) is True
        assert rsmq.delete_message(message_in_flight) is True
        drained = 1
        while drained < sent // 2:
            message = rsmq.receive_message("q")
            assert rsmq.delete_message(message) is True
            drained += 1
        while rsmq.pop_message("q") is not None:
            drained += 1
        assert drained == sent
        assert raw.hlen("rsmq:q:Q") == 7
        assert rsmq.send_message("q", "again")


def test_a_full_server_is_drained_of_messages_with_large_counts(full, open_client):
    rsmq = open_client(full.url)
    rsmq.create_queue("q")
    large = 10**15
    with full.raw() as raw:
        raw.hset("rsmq:q:Q", "totalrecv", large)
        id = rsmq.send_message("q", "m")
        raw.hset("rsmq:q:Q", f"{id}:rc", large)
        raw.config_set("maxmemory", 1)

        message = rsmq.receive_message("q")
        assert (message.id, message.receive_count) == (id, large + 1)
        assert raw.hget("rsmq:q:Q", "totalrecv") == str(large + 1).encode()
        assert rsmq.delete_message(message) is True


def test_a_full_server_lets_queues_be_purged_and_deleted(full, open_client):
    rsmq = open_client(full.url)
    for name in ("a", "b"):
        rsmq.create_queue(name)
        rsmq.send_message(name, "m")
    rsmq.create_queue("q")
    with pytest.raises(redis_errors.ResponseError, match=FULL):
        while True:
            rsmq.send_message("q", "x" * 1000)
    shrink(full)

    assert rsmq.purge_queue("a") == 1
    assert rsmq.get_queue_attributes("a").total_sent == 1
    rsmq.delete_queue("b")
    rsmq.purge_queue("q")

    def send_again():
        try:
            return bool(rsmq.send_message("q", "again"))
        except redis_errors.ResponseError:
            return False

    assert becomes(send_again, expected=True)  # the server frees memory in the background


def test_calls_succeed_during_many_script_flushes(server):
    stop = threading.Event()

    def flush():
        with server.raw() as raw:
            while not stop.is_set():
                raw.script_flush()

    def work(number, done):
        with RSMQ.from_url(server.url, ns="storm") as rsmq:
            for _ in range(500):
                rsmq.send_message(f"q{number}", "m")
                message = rsmq.receive_message(f"q{number}")
                assert rsmq.change_message_visibility(message, 60) is True
                assert rsmq.delete_message(message) is True
        done.append(number)

    async def work_async(number, done):
        async with AsyncRSMQ.from_url(server.url, ns="storm") as rsmq:
            for _ in range(500):
                await rsmq.send_message(f"q{number}", "m")
                message = await rsmq.receive_message(f"q{number}")
                assert await rsmq.change_message_visibility(message, 60) is True
                assert await rsmq.delete_message(message) is True
        done.append(number)

    with RSMQ.from_url(server.url, ns="storm") as rsmq:
        for number in range(3):
            rsmq.create_queue(f"q{number}")
    done = []
    flusher = threading.Thread(target=flush)
    workers = [threading.Thread(target=work, args=(number, done)) for number in range(2)]
    for thread in (flusher, *workers):
        thread.start()
    asyncio.run(work_async(2, done))
    for worker in workers:
        worker.join()
    stop.set()
    flusher.join()

    assert sorted(done) == [0, 1, 2]


def test_kill_9_with_appendfsync_always_loses_nothing():
    messages, kills = scaled(8_000, 1_000_000), scaled(4, 200)
    ledger = run_with_kills(messages, kills)
    print(
        f"{len(ledger.sent)} sends acknowledged, {kills} kills, {ledger.unknown} sends unknown, "
        f"{len(ledger.lost)} lost, {len(ledger.problems)} problems, {ledger.seconds:.0f} s"
    )

    assert len(ledger.sent) == messages
    assert ledger.problems == []
    assert ledger.lost == set()
    assert ledger.unexpected <= ledger.unknown
    assert ledger.total_sent == messages + ledger.unexpected
    assert (ledger.left, ledger.fields_left) == (0, 7)
    for receives in ledger.receives.values():
        counts = [count for count, *_ in receives]
        assert len(counts) == len(set(counts))


@pytest.mark.parametrize("call", ["send", "receive", "delete"])
def test_a_log_that_breaks_off_leaves_no_message_without_a_body(call):
    """Cut the end of the append-only file at several bytes, and start the server twice."""
    server = Server(
        redis_7(), "--appendonly", "yes", "--appendfsync", "always", "--aof-use-rdb-preamble", "no"
    )
    folder = Path(server.folder) / "appendonlydir"
    with RSMQ.from_url(server.url) as rsmq:
        rsmq.create_queue("q")
        rsmq.send_message("q", "first")
        log = next(folder.glob("*.incr.aof"))
        before = log.stat().st_size
        if call == "send":
            rsmq.send_message("q", "second")
        else:
            message = rsmq.receive_message("q", vt=0)
            if call == "delete":
                before = log.stat().st_size
                rsmq.delete_message(message)
    content = log.read_bytes()
    assert len(content) > before
    for cut in range(before + 1, len(content), max(1, (len(content) - before) // 6)):
        server.kill()
        log.write_bytes(content[:cut])
        server.start()
        server.kill()
        server.start()
        with RSMQ.from_url(server.url) as rsmq, server.raw() as raw:
            for id in raw.zrange("rsmq:q", 0, -1):
                if call != "delete":
                    assert raw.hget("rsmq:q:Q", id) is not None
            while (message := rsmq.pop_message("q")) is not None:
                assert message.raw in (b"first", b"second")
    server.stop()


def test_threads_share_a_client(server):
    rsmq = RSMQ.from_url(server.url, ns="threads")
    rsmq.create_queue("q")
    received = []

    def work(part):
        for number in range(100):
            rsmq.send_message("q", f"{part}-{number}")
            message = rsmq.receive_message("q", vt=100)
            assert rsmq.delete_message(message) is True
            received.append(message.body)

    threads = [threading.Thread(target=work, args=(part,)) for part in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(received) == sorted(f"{part}-{n}" for part in range(8) for n in range(100))
    rsmq.close()


def connections(server):
    with server.raw() as raw:
        return raw.info("clients")["connected_clients"]


def becomes(value, *, expected):
    """Return whether the value is as expected, as soon as it is or after 20 seconds."""
    deadline = time.monotonic() + 20
    while value() != expected and time.monotonic() < deadline:
        time.sleep(0.01)
    return value() == expected


def test_connections_of_threads_that_ended_and_of_closed_clients_are_closed(server):
    before = connections(server)
    rsmq = RSMQ.from_url(server.url, ns="ended")
    rsmq.create_queue("q")
    threads = [threading.Thread(target=rsmq.list_queues) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del thread, threads

    assert becomes(lambda: connections(server), expected=before + 1)
    rsmq.close()
    assert becomes(lambda: connections(server), expected=before)


def test_a_pool_of_few_connections_serves_many_threads(server):
    before = connections(server)
    rsmq = RSMQ.from_url(server.url, ns="few", max_connections=2)  # a pool of the library
    rsmq.create_queue("q")
    done = []

    def work():
        for _ in range(20):
            rsmq.send_message("q", "m")
        done.append(True)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(done) == 6
    assert rsmq.get_queue_attributes("q").messages == 120
    assert connections(server) <= before + 2
    rsmq.close()
    assert becomes(lambda: connections(server), expected=before)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("is_wrapped", [False, True])
def test_a_child_process_does_not_use_the_connections_of_its_parent(server, is_wrapped):
    client = redis.Redis(port=server.port) if is_wrapped else None
    rsmq = RSMQ(client, ns="fork") if client else RSMQ.from_url(server.url, ns="fork")
    rsmq.create_queue("q", exist_ok=True)
    rsmq.purge_queue("q")
    children = []
    for part in range(4):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                for number in range(200):
                    id = rsmq.send_message("q", f"{part}-{number}")
                    status = 0 if rsmq.get_message("q", id).body == f"{part}-{number}" else 2
                    if status:
                        break
            finally:
                os._exit(status)
        children.append(pid)
    for number in range(200):
        id = rsmq.send_message("q", f"parent-{number}")
        assert rsmq.get_message("q", id).body == f"parent-{number}"

    assert [os.waitpid(pid, 0)[1] for pid in children] == [0, 0, 0, 0]
    assert rsmq.get_queue_attributes("q").messages == 1000
    rsmq.close()
    if client:
        client.close()


class ScriptedServer:
    """A server that answers each script call with the next of its replies."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0?protocol=2"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with client:
            while data := client.recv(1 << 20):
                if b"EVAL" in data:
                    self.asked += 1
                    client.sendall(self.replies.pop(0))
                else:
                    client.sendall(b"+OK\r\n" * data.count(b"*"))

    def close(self):
        self._listener.close()


@pytest.fixture
def scripted_server():
    servers = []

    def start(*replies):
        servers.append(ScriptedServer(*replies))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


ID = b"$32\r\n" + b"i" * 32 + b"\r\n"


@pytest.mark.parametrize(
    "reply",
    [
        b"-LOADING Redis is loading the dataset in memory\r\n",
        b"-READONLY You can't write against a read only replica.\r\n",
        b"-MASTERDOWN Link with MASTER is down\r\n",
        b"-BUSY Redis is busy running a script. You can only call SCRIPT KILL.\r\n",
        b"-TRYAGAIN Multiple keys request during rehashing of slot\r\n",
        b"-CLUSTERDOWN The cluster is down\r\n",
        (
            b"-ERR Error running script (call to f_0123456789): @user_script:9: @user_script: 9: "
            b"-READONLY You can't write against a read only replica.\r\n"
        ),
    ],
)
def test_replies_after_which_nothing_ran_are_retried(scripted_server, open_client, reply):
    server = scripted_server(reply, reply, ID)

    assert open_client(server.url).send_message("q", "m") == "i" * 32
    assert server.asked == 3

    server = scripted_server(*[reply] * 20)
    with pytest.raises(redis_errors.RedisError):
        open_client(server.url, retry_deadline=1).send_message("q", "m")
    assert server.asked > 1


@pytest.mark.parametrize(
    ("reply", "kind", "advice"),
    [
        (b"-ERR unknown\r\n", redis_errors.ResponseError, None),
        (b"-WRONGTYPE Operation against a key\r\n", redis_errors.ResponseError, "another type"),
        (b"-OOM command not allowed\r\n", redis_errors.OutOfMemoryError, "maxmemory"),
        (
            b"-NOPERM this user has no permissions\r\n",
            redis_errors.NoPermissionError,
            "commands that a producer, a consumer and an administrator need",
        ),
        (
            b"-NOAUTH Authentication required.\r\n",
            redis_errors.AuthenticationError,
            "password is need",
        ),
        (b"-MISCONF Redis is configured to save\r\n", redis_errors.ResponseError, "disk"),
        (b"-NOREPLICAS Not enough good replicas\r\n", redis_errors.ResponseError, "replicas"),
        (
            b"-MOVED 1234 127.0.0.1:7000\r\n",
            redis_errors.MovedError,
            "redis+cluster://HOST:PORT",
        ),
        (
            b"-CROSSSLOT Keys in request don't hash to the same slot\r\n",
            redis_errors.ClusterCrossSlotError,
            "hash tag",
        ),
        (b"-ASK 1234 127.0.0.1:7000\r\n", redis_errors.AskError, None),
        (b"-NOSCRIPT No matching script.\r\n", redis_errors.NoScriptError, None),
        (b"-EXECABORT Transaction discarded\r\n", redis_errors.ExecAbortError, None),
        (b"-NOPROTO unsupported protocol version\r\n", redis_errors.ResponseError, None),
        (b"-UNKILLABLE Sorry\r\n", redis_errors.ResponseError, None),
        (b"-UNBLOCKED client unblocked\r\n", redis_errors.ResponseError, None),
        (
            b"-WRONGPASS invalid username-password\r\n",
            redis_errors.AuthenticationError,
            "Check the",
        ),
        (b"-NOTBUSY No scripts in execution\r\n", redis_errors.ResponseError, None),
        (b"-QUEUENOTFOUND rsmq:q:Q\r\n", QueueNotFound, "create_queue"),
    ],
)
def test_other_error_replies_are_raised_immediately(
    scripted_server, open_client, reply, kind, advice
):
    again = 2 if b"NOSCRIPT" in reply else 1
    server = scripted_server(*[reply] * 4)

    with pytest.raises(kind) as caught:
        open_client(server.url).send_message("q", "m")

    assert server.asked == again
    assert not hasattr(caught.value, "__notes__")
    assert (advice or "") in str(caught.value)


def test_the_error_of_a_lost_reply_says_that_the_call_may_have_run(scripted_server, open_client):
    server = scripted_server(b"")

    with pytest.raises(redis_errors.TimeoutError) as caught:
        open_client(server.url, socket_timeout=0.3).send_message("q", "m")
    address = server.url.removeprefix("redis://").partition("/")[0]
    assert str(caught.value).endswith(f" Redis at {address} may have run the call, or not")


def test_a_client_reconnects_after_its_server_was_demoted(server, open_client):
    """A failover may keep connections open, as with a proxy: then the client reconnects."""
    demoted = Server(redis_7())
    proxy = Proxy(demoted.port)
    rsmq = open_client(proxy.url, ns="demoted")
    rsmq.create_queue("q", exist_ok=True)
    rsmq.send_message("q", "m")
    with demoted.raw() as raw:
        raw.replicaof("127.0.0.1", server.port)
    with RSMQ.from_url(server.url, ns="demoted") as master:
        master.create_queue("q", exist_ok=True)
        before = master.get_queue_attributes("q").messages
        proxy.target = server.port

        assert rsmq.send_message("q", "after the failover")
        assert master.get_queue_attributes("q").messages == before + 1
    proxy.close()
    demoted.stop()


def test_a_wrong_password_is_not_retried_and_not_shown(server, open_client):
    with server.raw() as raw:
        raw.execute_command("ACL", "SETUSER", "someone", "on", ">right", "~*", "+@all")

    with pytest.raises(redis_errors.AuthenticationError) as caught:
        open_client(f"redis://someone:s3cret@127.0.0.1:{server.port}/0").list_queues()

    assert "s3cret" not in str(caught.value)
    assert not hasattr(caught.value, "__notes__")  # a note would report the number of attempts


def test_a_unix_socket(open_client):
    server = Server(redis_7(), "--unixsocket", "redis.sock")
    rsmq = open_client(f"unix://{server.folder}/redis.sock?db=3")
    rsmq.create_queue("q")
    id = rsmq.send_message("q", "m")

    with server.raw(db=3) as raw:
        assert raw.hget("rsmq:q:Q", id) == b"m"
    server.stop()


def test_a_port_without_a_server(open_client):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(redis_errors.ConnectionError):
        open_client(f"redis://127.0.0.1:{port}/0", retry_deadline=0.1).list_queues()


def test_a_plain_client_on_a_cluster_without_a_hash_tag(cluster_server, open_client):
    with pytest.raises(redis_errors.ClusterCrossSlotError) as caught:
        open_client(cluster_server.url, ns="untagged").create_queue("q")

    assert "ns='{rsmq}'" in str(caught.value)
    tagged = open_client(cluster_server.url, ns="{tagged}")
    tagged.create_queue("q", exist_ok=True)
    assert tagged.send_message("q", "m")


def test_a_user_has_no_more_rights_than_its_rules(server, open_client):
    """A producer of the README, with access to only the two keys of one queue."""
    with server.raw() as raw:
        raw.execute_command(
            "ACL", "SETUSER", "exact", "on", ">p", "~exact:q", "~exact:q:Q", "-@all",
            "+eval", "+evalsha", "+script|load", "+time", "+hmget", "+zadd", "+hset", "+hincrby",
        )  # fmt: skip
        with RSMQ(raw, ns="exact") as admin:
            admin.create_queue("q", exist_ok=True)
            admin.create_queue("q2", exist_ok=True)
    producer = open_client(f"redis://exact:p@127.0.0.1:{server.port}/0", ns="exact")

    assert producer.send_message("q", "m")
    for call in (
        lambda: producer.send_message("q2", "m"),
        lambda: producer.receive_message("q"),
        lambda: producer.delete_queue("q"),
    ):
        with pytest.raises(redis_errors.ResponseError) as caught:
            call()
        assert "commands that a producer, a consumer and an administrator need" in str(caught.value)


def test_a_body_too_large_for_redis_is_refused_before_it_is_sent(server, open_client, raw, ns):
    """Redis would close the connection."""
    rsmq = open_client(server.url, ns=ns, codec=BYTES)
    rsmq.create_queue("q", maxsize=-1)
    size = 512 * 1024 * 1024 + 1
    for send in (
        lambda: rsmq.send_message("q", bytes(size)),
        lambda: rsmq.send_message("q", "x" * size, codec=TEXT),
        lambda: rsmq.send_message("q", bytes(size), dedup_id="one"),
        lambda: rsmq.publish(["q"], bytes(size)),
        lambda: rsmq.send_messages("q", [bytes(size)]),
    ):
        with pytest.raises(MessageTooLong) as caught:
            send()
        assert caught.value.value == size
        assert "at most 536,870,912" in str(caught.value)
    assert raw.zcard(f"{ns}:q") == 0
    assert rsmq.send_message("q", b"small")


def test_latency_does_not_mix_up_replies(server):
    """Many threads and tasks on a slow connection each get their own replies."""
    proxy = Proxy(server.port)
    proxy.delay = 0.002
    rsmq = RSMQ.from_url(proxy.url, ns="slow")
    rsmq.create_queue("q")
    wrong = []

    def work(part):
        for number in range(15):
            body = f"{part}-{number}"
            if rsmq.get_message("q", rsmq.send_message("q", body)).body != body:
                wrong.append(body)

    async def work_async():
        async with AsyncRSMQ.from_url(proxy.url, ns="slow") as client:

            async def one(part):
                for number in range(15):
                    body = f"{part}-{number}"
                    id = await client.send_message("q", body)
                    if (await client.get_message("q", id)).body != body:
                        wrong.append(body)

            await asyncio.gather(*(one(f"task{part}") for part in range(10)))

    threads = [threading.Thread(target=work, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    asyncio.run(work_async())
    for thread in threads:
        thread.join()
    rsmq.close()
    proxy.close()

    assert wrong == []


@pytest.fixture
def hung(open_client):
    """A function that opens a client of a server which hangs from then on."""
    server = Server(redis_7())

    def hang(**options):
        patient = open_client(server.url)
        patient.create_queue("q", exist_ok=True)
        patient.send_message("q", "first")  # so that the server has the script
        client = open_client(server.url, **options)
        while True:
            with suppress(redis_errors.TimeoutError):
                client.get_queue_attributes("q")  # so that it has a connection
                break
        os.kill(server.process.pid, signal.SIGSTOP)
        return client

    hang.server = server
    hang.open = lambda **options: open_client(server.url, **options)
    yield hang
    os.kill(server.process.pid, signal.SIGCONT)
    server.stop()


#: Much longer than the time limit of a test.
HOUR = 3600


@pytest.mark.parametrize(
    "call",
    [
        lambda rsmq: rsmq.send_message("q", "m"),
        lambda rsmq: rsmq.send_message("q", "m", dedup_id="d"),
        lambda rsmq: rsmq.receive_message("q"),
        lambda rsmq: rsmq.get_queue_attributes("q"),
    ],
    ids=["send", "send with a dedup_id", "receive", "read"],
)
def test_the_deadline_of_retries_ends_the_first_attempt_too(hung, call):
    rsmq = hung(retry_deadline=0.2, socket_timeout=HOUR)
    while True:  # on a slow machine, the time can be over before the call is sent
        with pytest.raises(redis_errors.TimeoutError) as caught:
            call(rsmq)
        if not has_not_run(caught.value):
            break
    assert "may have run the call, or not" in str(caught.value)


def test_the_deadline_of_retries_ends_an_attempt_to_connect(hung):
    hung()
    rsmq = None
    for kind in ("first", "again"):
        rsmq = rsmq or hung.open(retry_deadline=0.2, socket_timeout=HOUR)
        with pytest.raises(redis_errors.TimeoutError, match="Is Redis running at") as caught:
            rsmq.send_message("q", kind)
        assert has_not_run(caught.value)


def test_the_deadline_of_retries_ends_a_later_attempt(hung):
    """The first attempt ends by socket_timeout, the second one by what is left."""
    rsmq = hung(retry_deadline=0.5, socket_timeout=0.4)
    with pytest.raises(redis_errors.TimeoutError):
        rsmq.send_message("q", "m", dedup_id="d")


def test_a_call_that_is_over_time_breaks_no_other_call(hung):
    """The calls of an event loop share a connection, which stays open."""
    with hung.server.raw() as raw:
        raw.ping()
        rsmq = hung(socket_timeout=HOUR, retry_deadline=HOUR)
        with pytest.raises(redis_errors.TimeoutError):
            rsmq.send_message("q", "late", timeout=0.2)
        os.kill(hung.server.process.pid, signal.SIGCONT)
        connections = raw.info("stats")["total_connections_received"]
        while raw.zcard("rsmq:q") < 2:  # the call was run when the server continued
            time.sleep(0.005)
        first, second = rsmq.send_message("q", "1"), rsmq.send_message("q", "2")
        assert rsmq.get_message("q", first).body == "1"
        assert rsmq.get_message("q", second).body == "2"
        opened = raw.info("stats")["total_connections_received"] - connections
        assert opened == (0 if isinstance(rsmq, Blocking) else 1)
        assert raw.zcard("rsmq:q") == 4


def test_a_call_after_an_attempt_over_time_has_the_usual_timeout(hung):
    rsmq = hung(socket_timeout=HOUR, retry_deadline=HOUR)
    with pytest.raises(redis_errors.TimeoutError):
        rsmq.send_message("q", "late", timeout=0.2)
    os.kill(hung.server.process.pid, signal.SIGCONT)
    assert rsmq.get_queue_attributes("q").messages >= 1


def test_a_call_of_a_hung_server_logs_a_warning_before_it_ends(hung, caplog, monkeypatch):
    """Also if it is not retried: with the defaults, its one attempt takes all the time."""
    monkeypatch.setattr("rsmq.transport.retry._SECONDS_BEFORE_WARNING", 0.1)
    rsmq = hung(retry_deadline=0.3, socket_timeout=HOUR)
    for call in (lambda: rsmq.send_message("q", "m"), lambda: rsmq.get_queue_attributes("q")):
        caplog.clear()
        with pytest.raises(redis_errors.TimeoutError):
            call()
        (record,) = caplog.records
        assert (record.name, record.levelname) == ("rsmq.transport", "WARNING")
        assert record.getMessage().endswith(" The call has failed after 0 seconds.")


SENDS = [
    lambda rsmq, **options: rsmq.send_message("q", "m", **options),
    lambda rsmq, **options: rsmq.send_message("q", "m", dedup_id="d", **options),
    lambda rsmq, **options: rsmq.send_message("q", "m", confirm=Confirm(replicas=1, timeout=0.1),
                                              **options),
    lambda rsmq, **options: rsmq.send_messages("q", ["m", "n"], **options),
    lambda rsmq, **options: rsmq.send_messages("q", ["m" * 10_000] * 2, **options),
    lambda rsmq, **options: rsmq.publish(["q"], "m", **options),
]  # fmt: skip
SEND_IDS = ["send", "dedup_id", "replicas", "batch", "batch of large bodies", "publish"]


@pytest.mark.parametrize("send", SENDS, ids=SEND_IDS)
def test_a_timeout_ends_a_send_to_a_hung_server(hung, send):
    rsmq = hung(retry_deadline=HOUR, socket_timeout=HOUR)
    with pytest.raises(redis_errors.TimeoutError) as caught:
        send(rsmq, timeout=timedelta(seconds=0.2))
    assert "Tried 1 time within timeout=0.2 (seconds)." in caught.value.__notes__


@pytest.mark.parametrize("send", SENDS, ids=SEND_IDS)
def test_a_timeout_ends_the_connecting_of_a_send_too(hung, send):
    hung()
    rsmq = hung.open(retry_deadline=HOUR, socket_timeout=HOUR)
    with pytest.raises(redis_errors.TimeoutError) as caught:
        send(rsmq, timeout=0.2)
    # On asyncio, calls that wait for replicas connect behind the shared queue of such calls.
    is_queued = send is SENDS[2] and isinstance(rsmq, Blocking)
    assert has_not_run(caught.value) is not is_queued


@pytest.mark.parametrize("deadline", [0, HOUR])
def test_a_timeout_replaces_the_deadline_of_the_client(open_client, deadline):
    rsmq = open_client(f"redis://127.0.0.1:{free_port()}/0", retry_deadline=deadline)
    with pytest.raises(redis_errors.ConnectionError, match="Is Redis running at") as caught:
        rsmq.send_message("q", "m", timeout=0.5)
    (note,) = caught.value.__notes__
    assert re.fullmatch(r"Tried (\d\d|[2-9]) times within timeout=0.5 \(seconds\)\.", note)


@pytest.mark.parametrize("send", SENDS, ids=SEND_IDS)
def test_a_timeout_changes_nothing_if_the_server_answers(open_client, server, send):
    with server.raw() as raw:
        rsmq = open_client(server.url, ns="timeouts", retry_deadline=0)
        rsmq.create_queue("q", exist_ok=True)
        rsmq.purge_queue("q")
        with suppress(NotReplicated):
            send(rsmq, timeout=HOUR)
        assert raw.zcard("timeouts:q") in {1, 2}
        rsmq.delete_queue("q")


def test_a_timeout_breaks_no_call_that_waits_on_the_same_connection():
    server = Server(redis_7())

    async def calls(raw):
        async with AsyncRSMQ.from_url(server.url, socket_timeout=HOUR, retry_deadline=HOUR) as rsmq:
            await rsmq.create_queue("q")
            await rsmq.send_message("q", "first")
            connections = raw.info("stats")["total_connections_received"]
            os.kill(server.process.pid, signal.SIGSTOP)
            other = asyncio.ensure_future(rsmq.send_message("q", "other"))
            with pytest.raises(redis_errors.TimeoutError):
                await rsmq.send_message("q", "late", timeout=0.2)
            assert not other.done()
            os.kill(server.process.pid, signal.SIGCONT)
            id = await other
            assert raw.hget("rsmq:q:Q", id) == b"other"
            assert (await rsmq.get_message("q", id)).body == "other"
            assert raw.info("stats")["total_connections_received"] == connections

    try:
        with server.raw() as raw:
            asyncio.run(calls(raw))
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
        server.stop()


@pytest.mark.parametrize("timeout", [0, -1, 86_401, "2", True, float("nan")])
def test_a_timeout_that_is_not_a_positive_number_is_refused(open_client, timeout):
    rsmq = open_client(f"redis://127.0.0.1:{free_port()}/0", retry_deadline=HOUR)
    text = f"timeout must be between 0.001 and 86400, not {timeout!r}. Pass a number of seconds"
    for send in SENDS:
        with pytest.raises(InvalidValue, match=re.escape(text)):
            send(rsmq, timeout=timeout)


def test_a_server_without_hello_is_used_and_polled(open_client):
    """Some proxies do not know HELLO, which RESP3 and so CLIENT TRACKING need."""
    server = Server(redis_7(), "--rename-command", "HELLO", "")
    try:
        rsmq = open_client(server.url)
        rsmq.create_queue("q")
        sent = rsmq.send_message("q", "m")
        assert rsmq.receive_message("q").id == sent
        delayed = rsmq.send_message("q", "later", delay=0.3)
        assert rsmq.receive_message("q", wait=None).id == delayed
        with server.raw(protocol=2) as raw:
            assert raw.zcard("rsmq:q") == 2
            assert "cmdstat_client|tracking" not in raw.info("commandstats")
    finally:
        server.stop()
