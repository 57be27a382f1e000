"""Who may do what, and what a browser of another site may not do."""

import asyncio
import base64
import contextlib
import json
import os
import time

import pytest

from rsmq import AsyncRSMQ
from rsmq.errors import InvalidFormat, MissingParameter
from rsmq.operations.plain import plain_command
from rsmq.push.async_subscribers import AsyncSubscribers
from rsmq.web import create_app, liveness
from rsmq.web.access.attempts import Attempts
from rsmq.web.access.principals import Principal, scopes_of
from rsmq.web.access.secrets import hash_password, hash_token, is_password, make_token
from rsmq.web.access.users import Users, UsersFile, read_users
from rsmq.web.fields import Refused
from rsmq.web.routes import TABLE
from rsmq.web.table import Scope
from rsmq.worker.operations import Identity, register_worker
from tests.web.asgi import Http

_KEY = "a key of some length"

#: The scope of each operation, by hand: a change of the table must be seen here.
_SCOPES = {
    "stats": {
        "GET /queues", "GET /queues/{queue}", "GET /queues/{queue}/counts",
        "GET /queues/{queue}/scaling", "GET /schedules", "GET /schedules/{schedule}",
        "GET /subscribers", "GET /webhooks", "GET /workers", "GET /workers/{worker}/held",
        "GET /queues/{queue}/history", "GET /history", "GET /queues/{queue}/dead-letter-policy",
        "GET /queues/{queue}/subscribers/{subscriber}", "GET /operations",
        "GET /operations/{operation}", "GET /undo", "GET /alerts", "GET /queues/{queue}/why",
        "GET /delayed", "GET /dead-letters", "GET /tasks", "GET /find", "GET /alert-targets",
        "GET /alert-silences",
    },
    "peek": {
        "GET /queues/{queue}/messages/{id}/why", "GET /queues/{queue}/messages/{id}/timeline",
        "GET /queues/{queue}/dead-letters/groups",
        "GET /queues/{queue}/messages", "GET /queues/{queue}/messages/{id}",
        "GET /queues/{queue}/messages/{id}/body", "GET /queues/{queue}/jobs/{id}", "GET /doctor",
        "GET /queues/{queue}/jobs", "GET /queues/{queue}/tail", "GET /flows", "GET /flows/{flow}",
        "GET /queues/{queue}/messages:export", "GET /workers/{worker}/running",
    },
    "send": {
        "POST /queues/{queue}/messages", "POST /queues/{queue}/messages:batch", "POST /publish",
        "POST /queues/{queue}/raw",
    },
    "receive": {
        "POST /receive", "POST /pop", "POST /queues/{queue}/raw:receive",
        "POST /queues/{queue}/messages/{id}:progress",
        "POST /queues/{queue}/messages/{id}:succeed", "POST /queues/{queue}/messages/{id}:fail",
        "POST /queues/{queue}/messages/{id}:defer",
        "POST /queues/{queue}/raw:pop", "DELETE /queues/{queue}/messages/{id}",
        "PATCH /queues/{queue}/messages/{id}", "POST /queues/{queue}/messages:delete",
        "POST /queues/{queue}/messages:visibility", "POST /queues/{queue}/messages:release",
        "POST /queues/{queue}/messages:move",
    },
    "manage": {
        "PUT /queues/{queue}", "PATCH /queues/{queue}", "POST /queues/{queue}:pause", "POST /marks",
        "POST /queues/{queue}:resume", "POST /queues/{queue}:release-all",
        "POST /queues/{queue}/messages:recover", "PUT /queues/{queue}/dead-letter-policy",
        "DELETE /queues/{queue}/dead-letter-policy", "POST /queues/{queue}:sweep",
        "POST /queues/{queue}:redrive", "PUT /schedules/{schedule}",
        "POST /queues/{queue}/jobs/{id}:cancel",
        "POST /flows/{flow}:cancel", "POST /queues/{queue}:sweep-expired",
        "POST /queues/{queue}:sweep-groups",
        "PUT /queues/{queue}/limits", "DELETE /queues/{queue}/limits",
        "PUT /queues/{queue}/subscribers/{subscriber}",
        "DELETE /queues/{queue}/subscribers/{subscriber}", "POST /webhooks:resume",
        "PUT /alert-targets/{target}", "DELETE /alert-targets/{target}",
        "POST /alert-targets/{target}:test", "PUT /alert-silences/{kind}",
        "DELETE /alert-silences/{kind}",
        "POST /webhooks:forget", "DELETE /schedules/{schedule}", "POST /schedules/{schedule}:pause",
        "POST /schedules/{schedule}:resume", "POST /schedules/{schedule}:run",
        "POST /workers/{worker}:release", "POST /workers/{worker}:pause",
        "POST /workers/{worker}:resume", "PUT /workers/{worker}/concurrency",
        "POST /workers/{worker}:stop", "POST /workers/{worker}:running",
        "POST /operations/{operation}:cancel", "POST /operations/{operation}:pause",
        "POST /operations/{operation}:resume",
        "POST /undo/{id}", "POST /queues/{queue}/messages:preview",
    },
    "destroy": {"DELETE /queues/{queue}", "POST /queues/{queue}:purge"},
    "repair": {"POST /doctor:repair"},
    "metrics": set(),
    "audit": {"GET /audit"},
    None: {"GET /ns"},
}  # fmt: skip
#: Calls that concern every queue, so one who may do it for some is refused.
_OF_ALL_QUEUES = {
    "/history", "/queues/{queue}:redrive", "/alert-targets", "/alert-targets/{target}",
    "/alert-targets/{target}:test", "/alert-silences/{kind}",
}  # fmt: skip
#: Bodies with which a call gets as far as its check.
_BODIES = {
    "/publish": {"queues": ["own"], "body": "a"},
    "/receive": {"queues": ["own"]},
    "/pop": {"queues": ["own"]},
    "/queues/{queue}/raw": None,
    "/doctor:repair": {"queue": "own"},
    "/alert-silences/{kind}": {"seconds": 1, "why": "x"},
}


def _write(path, text):
    path.write_text(text)
    path.chmod(0o600)
    return path


def _bearer(token):
    return {"authorization": f"Bearer {token}"}


def _basic(name, password):
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.fixture
def users(tmp_path):
    """A users file with a token for each scope, for queues that begin with ``own``."""
    text = "".join(
        f'[tokens.{each.value}]\nsha256 = "{hash_token(each.value)}"\n'
        f'scopes = ["{each.value}"]\nqueues = ["own*"]\n'
        for each in Scope
    )
    text += f'[users.anna]\npassword = "{hash_password("sesame")}"\nrole = "viewer"\n'
    return _write(tmp_path / "users.toml", text)


def test_the_scope_of_each_operation_is_the_one_in_the_table_kept_by_hand():
    of_code = {}
    for route in TABLE:
        of_code.setdefault(route.scope and route.scope.value, set()).add(
            f"{route.method} {route.path}"
        )
    assert of_code == {name: routes for name, routes in _SCOPES.items() if routes}


def test_each_operation_is_refused_with_another_scope_and_for_another_queue(run, users):
    async def test(http, queues):
        await queues.create_queue("own")
        for route in TABLE:
            for scope in Scope:
                for queue in ("own", "other"):
                    path = route.path.replace("{queue}", queue).replace("{id}", "x" * 32)
                    path = path.replace("{schedule}", "none")
                    content = _BODIES.get(route.path, {} if route.method != "GET" else None)
                    if content and queue == "other" and "queues" in content:
                        content = {**content, "queues": ["own", "other"]}
                    is_own = "{queue}" in route.path and queue == "own"
                    if route.method == "DELETE" and (is_own or "{kind}" in route.path):
                        content = None
                    reply = await http(route.method, path, content, headers=_bearer(scope.value))
                    names_queue = "{queue}" in route.path or "queues" in (content or {})
                    may = route.scope in {None, scope} and (queue == "own" or not names_queue)
                    may = may and route.path not in _OF_ALL_QUEUES
                    assert (reply.status != 403) == may or _lacks_receipt(route, reply), (
                        route, scope, queue, reply.content,
                    )  # fmt: skip
                    if route.scope is Scope.DESTROY:
                        await queues.create_queue("own", exist_ok=True)

    def _lacks_receipt(route, reply):
        return route.scope is Scope.RECEIVE and "manage" in reply.json.get("hint", "")

    run(test, auth=True, users=users)


def test_an_order_to_a_worker_needs_a_scope_for_all_of_its_queues(run, users):
    async def test(http, queues):
        report = json.dumps(
            [[each, "x" * 32, 1, 1, 1.5, "process", []] for each in ("own", "other")]
        )
        for name, listened in (("both", ["own", "other"]), ("one", ["own"])):
            entry = f"9999999999999:token:{json.dumps({'queues': dict.fromkeys(listened, 0)})}"
            await queues.run(plain_command("HSET", queues.namespace.workers, name, entry))
            key = queues.namespace.held(name)
            await queues.run(plain_command("HSET", key, "", "token", ":running", report))
        for name, status in (("both", 403), ("one", 204)):
            for method, end in (("POST", ":pause"), ("POST", ":resume"), ("POST", ":stop"),
                                ("PUT", "/concurrency")):  # fmt: skip
                path = f"/workers/{name}{end}"
                reply = await http(method, path, {}, headers=_bearer("manage"))
                assert reply.status == status, (path, reply.content)
        reply = await http("GET", "/workers/both/running", headers=_bearer("peek"))
        assert [each["queue"] for each in reply.json["calls"]] == ["own"]

    run(test, auth=True, users=users)


_ID = "x" * 32
_HOOK = {"url": "https://example.org/"}
#: By hand: the rights that a call needs for its queue and for others that it names.
_RIGHTS = [
    ("POST", "/queues/a/messages:delete", {"ids": [_ID]}, ["receive a", "manage a"]),
    ("POST", "/queues/a/messages:release", {"ids": [_ID]}, ["receive a", "manage a"]),
    ("POST", "/queues/a/messages:visibility", {"ids": [_ID], "vt": 1}, ["receive a", "manage a"]),
    (
        "POST", "/queues/a/messages:move", {"ids": [_ID], "destination": "b"},
        ["receive a", "manage a", "send b"],
    ),
    (
        "POST", "/queues/a/messages:move", {"receipts": [f"{_ID}.1"], "destination": "b"},
        ["receive a", "send b"],
    ),
    ("DELETE", f"/queues/a/messages/{_ID}", None, ["receive a", "manage a"]),
    ("PATCH", f"/queues/a/messages/{_ID}", {"vt": 1}, ["receive a", "manage a"]),
    ("POST", "/queues/a/messages:recover", {"idle": 1}, ["manage a", "receive a"]),
    ("POST", "/queues/a/messages:delete", {"filter": "rc>3"}, ["receive a", "manage a", "peek a"]),
    (
        "POST", "/queues/a/messages:move", {"filter": "rc>3", "destination": "b"},
        ["receive a", "manage a", "peek a", "send b"],
    ),
    ("POST", "/queues/a/messages:preview", {"ids": [_ID]}, ["manage a"]),
    ("POST", "/queues/a/messages:preview", {"filter": "rc>3"}, ["manage a", "peek a"]),
    ("POST", "/queues/a/messages:delete", {"selection": "1.a"}, ["receive a", "manage a"]),
    (
        "POST", "/queues/a/messages:move", {"selection": "1.a", "destination": "b"},
        ["receive a", "manage a", "send b"],
    ),
    (
        "POST", "/queues/a/messages:move",
        {"receipts": [f"{_ID}.1"], "destination": "b", "create_destination": True},
        ["receive a", "manage a", "manage b", "send b"],
    ),
    ("POST", "/queues/a:redrive", {"destination": "b"}, ["manage a", "send b"]),
    ("POST", "/queues/a:redrive", {}, ["manage a", "send *"]),
    (
        "PUT", "/queues/a/dead-letter-policy", {"dead_letter_queue": "b", "max_receives": 3},
        ["manage a", "send b"],
    ),
    ("PUT", "/queues/a/subscribers/s", _HOOK, ["manage a", "manage a-s", "receive a"]),
    ("DELETE", "/queues/a/subscribers/s?drop=true", None, ["manage a", "destroy a-s"]),
    ("PUT", "/schedules/s", {"queue": "b", "every": 60}, ["manage b"]),
    ("POST", "/schedules/s:run", None, ["manage b"]),
    ("DELETE", "/schedules/s", None, ["manage b"]),
    ("POST", "/webhooks:resume", {"queue": "b"}, ["manage b"]),
    ("POST", "/webhooks:forget", {"queue": "b"}, ["manage b"]),
    ("POST", "/publish", {"queues": ["a", "b"], "body": "m"}, ["send a", "send b"]),
    ("POST", "/receive", {"queues": ["a", "b"]}, ["receive a", "receive b"]),
    ("POST", "/pop", {"queues": ["a", "b"]}, ["receive a", "receive b"]),
    ("GET", "/doctor?queue=a", None, ["peek a"]),
    ("GET", "/history", None, ["stats *"]),
]  # fmt: skip


def _checking(rights):
    """Return Principal.check of a caller with these rights alone."""
    check_one = Principal.check

    def check(_self, scope, queue, *, read_only):
        del read_only
        for right in rights:
            name, _, pattern = right.partition(" ")
            one = Principal(right, scopes_of([name]), (pattern,))
            with contextlib.suppress(Refused):
                return check_one(one, scope, queue, read_only=False)
        raise Refused("forbidden", "", status=403)

    return check


async def test_a_call_needs_each_of_its_rights(monkeypatch, http, queues):
    for name in ("a", "b", "a-s"):
        await queues.create_queue(name)
    for method, path, content, rights in _RIGHTS:
        for missing in (*rights, None):
            # A right for another queue is none for this one.
            had = {*rights, "send other", "manage other"} - {missing}
            with monkeypatch.context() as patch:
                patch.setattr(Principal, "check", _checking(had))
                reply = await http(method, path, content)
            assert (reply.status == 403) == (missing is not None), (path, missing)


async def test_a_message_is_not_changed_without_a_receipt_by_one_who_may_only_receive(
    users, http, queues
):
    await queues.create_queue("own")
    id = await queues.send_message("own", "a")
    http.headers = _bearer("receive")
    path = f"/queues/own/messages/{id}"
    assert (await http("DELETE", path)).status == 403
    assert (await http("POST", "/queues/own/messages:delete", {"ids": [id]})).status == 403
    [message] = (await http("POST", "/receive", {"queues": ["own"]})).json["messages"]
    assert (await http("DELETE", f"{path}?receipt={message['receipt']}")).status == 204


def _write_keepers(folder):
    """Write a users file with callers who may manage queues ``own*``, and send to ``queues``."""
    text = "".join(
        f'[tokens.{name}]\nsha256 = "{hash_token(name)}"\n'
        f'scopes = ["manage", "send"]\nqueues = {json.dumps(queues)}\n'
        for name, queues in {"keeper": ["own*", "?"], "owner": ["*"]}.items()
    )
    return _write(folder / "keepers.toml", text)


def test_dead_letters_go_only_to_queues_that_the_caller_may_send_to(run, tmp_path):
    async def test(http, queues):
        for name in ("own", "own-dead", "private"):
            await queues.create_queue(name)
        http.headers = _bearer("keeper")
        path = "/queues/own/dead-letter-policy"
        for target in ("private", "none", "*"):  # whether it exists is not told either
            reply = await http("PUT", path, {"dead_letter_queue": target, "max_receives": 1})
            assert (reply.status, reply.json["code"]) == (403, "forbidden")
        assert (await queues.get_queue_attributes("own")).dead_letter_queue is None
        policy = {"dead_letter_queue": "own-dead", "max_receives": 1}
        assert (await http("PUT", path, policy)).status == 200

        await queues.set_dead_letter_policy("private", "own-dead", 1)
        await queues.send_message("private", "a")
        await queues.receive_message("private", vt=0)
        assert await queues.receive_message("private") is None
        reply = await http("POST", "/queues/own-dead:redrive")
        assert (reply.status, reply.json["hint"]) == (
            403,
            "It needs the scope send for all queues.",
        )
        assert (await queues.get_queue_attributes("own-dead")).messages == 1
        redriven = await http("POST", "/queues/own-dead:redrive", {"destination": "own"})
        assert len(redriven.json["messages"]) == 1
        http.headers = _bearer("owner")
        assert (await http("POST", "/queues/own-dead:redrive")).status == 200

    run(test, auth=True, users=_write_keepers(tmp_path))


def test_the_dead_letters_of_a_created_target_go_only_where_the_caller_may_send(run, tmp_path):
    users = _write(
        tmp_path / "movers.toml",
        f'[tokens.mover]\nsha256 = "{hash_token("mover")}"\n'
        'scopes = ["manage", "send", "receive"]\nqueues = ["own*"]\n',
    )

    async def test(http, queues):
        for name in ("own", "private"):
            await queues.create_queue(name)
        await queues.set_dead_letter_policy("own", "private", 1)
        id = await queues.send_message("own", "a")
        http.headers = _bearer("mover")
        body = {"ids": [id], "destination": "own-new", "create_destination": True}
        reply = await http("POST", "/queues/own/messages:move", body)
        assert (reply.status, reply.json["code"]) == (403, "forbidden")
        assert sorted(await queues.list_queues()) == ["own", "private"]
        await queues.create_queue("own-dead")
        await queues.set_dead_letter_policy("own", "own-dead", 1)
        assert (await http("POST", "/queues/own/messages:move", body)).status == 200
        assert (await queues.get_queue_attributes("own-new")).dead_letter_queue == "own-dead"

    run(test, auth=True, users=users)


async def test_a_caller_sees_only_own_queues_in_lists_and_metrics(users, http, queues):
    await queues.create_queue("own1")
    await queues.create_queue("other")
    listed = await http("GET", "/queues", headers=_bearer("stats"))
    assert [each["name"] for each in listed.json["queues"]] == ["own1"]
    http.prefix = ""
    metrics = (await http("GET", "/metrics", headers=_bearer("metrics"))).content
    assert b"own1" in metrics
    assert b"other" not in metrics
    refused = await http("GET", "/metrics", headers=_bearer("stats"))
    assert (refused.status, refused.json["code"]) == (403, "forbidden")
    rest = await http("GET", "/rest-rsmq/queues", headers=_bearer("stats"))
    assert rest.json == {"queues": ["own1"]}
    assert (await http("GET", "/rest-rsmq/queues/other", headers=_bearer("stats"))).status == 403


async def test_of_a_worker_a_caller_sees_only_what_belongs_to_own_queues(users, http, queues):
    for name in ("own", "secret"):
        await queues.create_queue(name)
    stalled = {"cause": "The handler of secret blocks", "since_ms": 1, "queue": "secret", "id": "m"}
    info = {
        "queues": {"own": 1, "secret": 2}, "slots": 1, "running": 1, "stalled": stalled,
        "calls": {"own": {"mail": 1}, "secret": {"pay": 2}},
    }  # fmt: skip
    worker = Identity(queues.namespace, "w", "token")
    await queues.run(register_worker(worker, info, ttl=60, dead="token"))
    http.headers = _bearer("stats")
    [shown] = (await http("GET", "/workers")).json["workers"]
    assert (shown["in_flight"], shown["calls"]) == ({"own": 1}, {"own": {"mail": 1}})
    shown_stall = {"cause": "A call that you may not see blocks it", "queue": "", "id": ""}
    assert shown["stalled"] == {**shown_stall, "since_ms": 1}
    for path in ("/queues/own/why", "/alerts"):
        reply = await http("GET", path)
        assert b"blocked-worker" in reply.content
        assert b"secret" not in reply.content
    info |= {"stalled": {"cause": "The system allows no thread", "since_ms": 1}}
    worker = Identity(queues.namespace, "w2", "token2")
    await queues.run(register_worker(worker, info, ttl=60, dead=""))
    workers = (await http("GET", "/workers")).json["workers"]
    [shown] = [each for each in workers if each["name"] == "w2"]
    assert shown["stalled"]["cause"] == "The system allows no thread"  # of no queue, so of all


def test_a_caller_learns_and_changes_nothing_about_queues_of_others(run, tmp_path):
    users = _write(
        tmp_path / "users.toml",
        "".join(
            f'[tokens.{name}]\nsha256 = "{hash_token(name)}"\nscopes = {scopes}\n'
            'queues = ["own*"]\n'
            for name, scopes in [
                ("manager", ["manage"]), ("pusher", ["manage", "receive"]),
                ("reader", ["stats", "peek", "audit"]),
            ]
        ),
    )  # fmt: skip

    async def test(http, queues):
        await queues.create_queue("own")
        await queues.create_queue("other")
        hook = {"url": "https://example.org/"}
        # A subscriber gets the bodies.
        for name, status in [("manager", 403), ("pusher", 201)]:
            path = "/queues/own/subscribers/a"
            assert (await http("PUT", path, hook, headers=_bearer(name))).status == status
        dropping = await http("DELETE", "/queues/own/subscribers/a?drop", headers=_bearer("pusher"))
        assert dropping.status == 403
        for path in ("/webhooks:resume", "/webhooks:forget"):
            refused = await http("POST", path, {"queue": "other"}, headers=_bearer("pusher"))
            assert refused.status == 403
        await AsyncSubscribers(queues).add("other", "b", "https://example.org/")
        headers = _bearer("reader")
        listed = await http("GET", "/subscribers", headers=headers)
        assert [each["queue"] for each in listed.json["subscribers"]] == ["own"]
        entries = (await http("GET", "/audit", headers=headers)).json["entries"]
        assert {each["queue"] for each in entries} == {"own"}
        assert (await http("GET", "/doctor?queue=other", headers=headers)).status == 403
        report = (await http("GET", "/doctor", headers=headers)).json
        assert report["queues"] == 2  # own, and the queue of its subscriber
        assert all(each["queue"] for each in report["findings"])

    run(test, auth=True, users=users)


async def test_only_probes_answer_a_caller_who_is_not_known(users, http, queues):
    del queues
    http.prefix = ""
    for path in (
        "/api/v1/queues", "/api/v1/openapi.json", "/metrics", "/rest-rsmq/queues",
        "/api/v1", "/rest-rsmq", "/api/v1/", "/api/v1/docs/",
    ):  # fmt: skip
        reply = await http("GET", path)
        assert (reply.status, reply.json["code"]) == (401, "unauthorized")
        assert reply.headers["www-authenticate"].startswith("Basic")
    assert (await http("GET", "/healthz")).status == 200
    assert (await http("GET", "/readyz")).status == 200


async def test_a_user_has_a_password_and_attempts_are_limited(users, http, queues):
    del queues
    assert (await http("GET", "/queues", headers=_basic("anna", "sesame"))).status == 200
    assert (await http("GET", "/queues", headers=_basic("", "stats"))).status == 200
    for _ in range(10):
        assert (await http("GET", "/queues", headers=_bearer("wrong"))).status == 401
    limited = await http("GET", "/queues", headers=_basic("anna", "sesame"))
    assert limited.status == 429
    assert (await http("GET", "/queues", headers=_bearer("stats"))).status == 200
    assert (await http("GET", "/queues", headers=_basic("anna", "stats"))).status == 200
    assert int(limited.headers["retry-after"]) > 0
    http.peer = "10.0.0.9"
    assert (await http("GET", "/queues", headers=_basic("anna", "sesame"))).status == 200
    assert (await http("GET", "/queues", headers=_basic("anna", "x"))).status == 401
    assert (await http("GET", "/queues", headers=_basic("eve", "x"))).status == 401


def test_failures_of_at_most_ten_thousand_addresses_are_kept():
    now = [0.0]
    attempts = Attempts(lambda: now[0])
    for number in range(10_010):
        for _ in range(10 if number == 10_009 else 1):
            attempts.note_failure(str(number))
    assert len(attempts._failures) == 10_000
    assert attempts.seconds_to_wait("10009") == 60
    now[0] = 61
    assert attempts.seconds_to_wait("10009") == 0


def test_clients_behind_a_trusted_proxy_have_their_own_attempts_and_records(run, users):
    def from_client(forwarded, headers):
        return {**headers, "x-forwarded-for": forwarded}

    async def test(http, queues):
        wrong, right = _basic("anna", "x"), _basic("anna", "sesame")
        http.peer = "10.0.0.1"
        for number in range(10):  # what a client invents is before its address
            headers = from_client(f"7.7.7.{number}, 6.6.6.6:3999, 10.0.0.2", wrong)
            assert (await http("GET", "/queues", headers=headers)).status == 401
        for forwarded, status in (
            ("6.6.6.6", 429), ("1.1.1.1, 6.6.6.6", 429), ("6.6.6.7", 200),
            ("6.6.6.6, 6.6.6.7", 200), ("[2001:db8::1]:80", 200), ("unknown", 200), ("", 200),
        ):  # fmt: skip
            reply = await http("GET", "/queues", headers=from_client(forwarded, right))
            assert reply.status == status, forwarded
        http.peer = "8.8.8.8"  # not a proxy
        assert (await http("GET", "/queues", headers=from_client("6.6.6.6", right))).status == 200

        for http.peer, expected in (("10.0.0.1", "9.9.9.9"), ("8.8.8.8", "8.8.8.8")):
            headers = from_client("9.9.9.9", _bearer("manage"))
            await http("PUT", "/queues/own", headers=headers)
            (entry, *_) = (await http("GET", "/audit", headers=_bearer("audit"))).json["entries"]
            assert entry["address"] == expected

    run(test, auth=True, users=users, trusted_proxies=["10.0.0.0/8"])


def test_only_a_trusted_proxy_names_the_user(run, users):
    async def test(http, queues):
        del queues
        header = {"x-user": "anna"}
        http.peer = "10.1.2.3"
        assert (await http("GET", "/queues", headers=header)).status == 200
        assert (await http("GET", "/queues", headers={"x-user": "eve"})).status == 401
        http.peer = "11.1.2.3"
        assert (await http("GET", "/queues", headers=header)).status == 401

    run(test, auth=True, users=users, trusted_proxies=["10.0.0.0/8"], user_header="X-User")


def test_another_host_and_other_sites_are_refused(run):
    async def test(http, queues):
        del queues
        assert (await http("GET", "/queues", headers={"host": "localhost:8080"})).status == 200
        assert (await http("GET", "/queues", headers={"host": "[::1]:8080"})).status == 200
        rebound = await http("GET", "/queues", headers={"host": "evil.example"})
        assert (rebound.status, rebound.json["code"]) == (421, "unknownHost")
        for headers in (
            {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"},
            {"origin": "https://evil.example"}, {"origin": "null"},
        ):  # fmt: skip
            reply = await http("GET", "/queues", headers=headers)
            assert (reply.status, reply.json["code"]) == (403, "crossSite")
        own = {"origin": "http://localhost", "sec-fetch-site": "same-origin"}
        assert (await http("GET", "/queues", headers=own)).status == 200

    run(test, allow_hosts=["localhost", "::1"])


def test_no_path_is_redirected_and_none_tells_another_host_anything(run):
    async def test(http, queues):
        del queues
        http.prefix = ""
        for path in ("/api/v1", "/api/v1/", "/rest-rsmq", "/rest-rsmq/", "/api/v1/docs/"):
            assert (await http("GET", path)).status == 404, path
            assert (await http("GET", path, headers={"host": "evil.com"})).status == 421, path
        assert (await http("GET", "/metrics/", headers={"host": "evil.com"})).status == 421

    run(test, allow_hosts=["localhost"])


def test_a_key_may_do_everything_and_is_compared_by_its_hash(run):
    async def test(http, queues):
        assert (await http("PUT", "/queues/q", {}, headers=_bearer(_KEY))).status == 201
        assert (await http("DELETE", "/queues/q", headers=_basic("", _KEY))).status == 204
        assert (await http("GET", "/queues", headers=_bearer(_KEY[:-1]))).status == 401
        assert await queues.list_queues() == []

    run(test, auth=True, key=_KEY)


def test_an_application_without_a_decision_about_callers_is_not_made():
    queues = AsyncRSMQ.from_url("memory://")
    with pytest.raises(MissingParameter, match="auth=False"):
        create_app(queues)
    with pytest.raises(InvalidFormat, match="Invalid authentication format: 'key and auth=False'"):
        create_app(queues, key=_KEY, auth=False)
    with pytest.raises(InvalidFormat, match="16 characters"):
        create_app(queues, key="short")
    with pytest.raises(InvalidFormat, match="trusted_proxies"):
        create_app(queues, auth=False, trusted_proxies=["10.0.0.0/99"])
    asyncio.run(queues.close())


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("[", "not TOML"),
        ("[user.a]", "the file has user"),
        ('[users.a]\npassword = "sesame"\nrole = "admin"', "not a hash"),
        ('[users.a]\nrole = "king"', "'king'"),
        ("[users.a]\n", "a role or scopes"),
        ('[tokens.a]\nrole = "admin"', "sha256"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nscopes = ["all"]', "all"),
        (f'[tokens.a]\nsha256 = "{"0" * 64}"\nrole = "admin"\nqueues = "q"', "list of texts"),
    ],
)
def test_a_users_file_that_is_not_valid_is_refused(tmp_path, text, fault):
    with pytest.raises(InvalidFormat, match=fault):
        read_users(_write(tmp_path / "users.toml", text))


def test_a_users_file_that_others_may_read_is_refused(tmp_path):
    path = _write(tmp_path / "users.toml", "")
    path.chmod(0o640)
    with pytest.raises(InvalidFormat, match="chmod 600"):
        read_users(path)
    with pytest.raises(InvalidFormat, match="can't be read"):
        read_users(tmp_path / "none.toml")


def test_passwords_and_tokens_are_stored_as_hashes():
    stored = hash_password("sesame")
    assert "sesame" not in stored
    assert stored != hash_password("sesame")
    assert is_password("sesame", stored)
    assert not is_password("Sesame", stored)
    assert not is_password("sesame", "scrypt$x$8$1$AA==$AA==")
    assert len(make_token()) > 40


def test_a_users_file_that_has_changed_is_read_again_and_an_invalid_one_is_not(tmp_path, caplog):
    path = _write(tmp_path / "users.toml", _TOKEN_OF.format(name="one", sha256=hash_token("one")))

    async def test():
        async with AsyncRSMQ.from_url("memory://reload") as queues:
            http = Http(create_app(queues, users=path))

            async def statuses():
                return [
                    (await http("GET", "/queues", headers=_bearer(token))).status
                    for token in ("one", "two")
                ]

            assert await statuses() == [200, 401]
            _write(path, _TOKEN_OF.format(name="two", sha256=hash_token("two")) + "\n")
            assert await statuses() == [401, 200]
            _write(path, "[tokens")
            assert await statuses() == [401, 200]
            assert await statuses() == [401, 200]
            path.unlink()
            assert await statuses() == [401, 200]

    asyncio.run(test())
    lines = [each.getMessage() for each in caplog.records if each.name == "rsmq.web"]
    assert len(lines) == 2, lines
    assert "not TOML" in lines[0]


def test_a_users_file_that_is_empty_for_a_moment_locks_nobody_out(tmp_path):
    one = _TOKEN_OF.format(name="one", sha256=hash_token("one"))
    path = _write(tmp_path / "users.toml", one)
    file = UsersFile(path)
    _write(path, "")
    assert len(file.read().tokens) == 1
    _write(path, one + one.replace("one", "two").replace(hash_token("one"), hash_token("two")))
    assert len(file.read().tokens) == 2
    _write(path, "")
    os.utime(path, (time.time() - 60, time.time() - 60))
    assert file.read() == Users()
    _write(path, one)
    _write(path, "# nobody\n")
    assert file.read() == Users()


_TOKEN_OF = '[tokens.{name}]\nsha256 = "{sha256}"\nrole = "viewer"\n'


async def test_a_caller_that_is_not_known_learns_both_ways(users, http):
    reply = await http("GET", "/queues")
    assert "Basic " in reply.headers["www-authenticate"]
    assert "Bearer " in reply.headers["www-authenticate"]


@pytest.mark.parametrize(
    "text", ["# nobody\n", _TOKEN_OF.format(name="one", sha256=hash_token("one"))]
)
def test_a_call_that_waits_ends_when_its_token_is_removed_or_may_no_more(
    tmp_path, monkeypatch, text
):
    monkeypatch.setattr(liveness, "_BEAT_SECONDS", 0.05)
    operator = _TOKEN_OF.format(name="one", sha256=hash_token("one")).replace("viewer", "operator")
    path = _write(tmp_path / "users.toml", operator)

    async def test():
        async with AsyncRSMQ.from_url("memory://waits") as queues:
            await queues.create_queue("q")
            http = Http(create_app(queues, users=path), headers=_bearer("one"))
            content = {"queues": ["q"], "wait": 60}
            job = await queues.send_message("q", "a", delay=60, track=True)
            waiting = [
                asyncio.create_task(http("POST", path, content)) for path in ("/receive", "/pop")
            ]
            waiting.append(asyncio.create_task(http("GET", f"/queues/q/jobs/{job}?wait=60")))
            await asyncio.sleep(0.1)
            assert not any(each.done() for each in waiting)
            _write(path, text)
            for reply in await asyncio.gather(*waiting):
                assert (reply.status, reply.json["code"]) == (401, "unauthorized")
                assert "www-authenticate" in reply.headers
            await queues.delete_queue("q")

    asyncio.run(test())


def test_messages_that_come_after_the_token_was_removed_are_released(tmp_path):
    operator = _TOKEN_OF.format(name="one", sha256=hash_token("one")).replace("viewer", "operator")
    path = _write(tmp_path / "users.toml", operator)

    async def test():
        async with AsyncRSMQ.from_url("memory://after") as queues:
            await queues.create_queue("q")
            http = Http(create_app(queues, users=path), headers=_bearer("one"))
            content = {"queues": ["q"], "wait": 60}
            waiting = asyncio.create_task(http("POST", "/receive", content))
            await asyncio.sleep(0.1)
            _write(path, "# nobody\n")
            await queues.send_message("q", "a")
            assert (await waiting).status == 401
            assert (await queues.get_queue_attributes("q")).hidden_messages == 0

    asyncio.run(test())
