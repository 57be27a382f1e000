"""The operations of the API: statuses, answers, and what is stored."""

import json

import pytest

from rsmq import MSGPACK
from rsmq.vocabulary.sends import SEND
from rsmq.web.routes import TABLE


async def _raw(queues, *words):
    from rsmq.operations.plain import plain_command

    return await queues.run(plain_command(*words))


async def test_a_queue_is_created_read_changed_listed_and_deleted(http, queues):
    made = await http("PUT", "/queues/q", {"vt": 5, "maxsize": -1})
    assert (made.status, made.json["vt"], made.json["maxsize"]) == (201, 5, -1)
    assert (await http("PUT", "/queues/q", {"vt": 5})).status == 200
    other = await http("PUT", "/queues/q", {"vt": 6})
    assert (other.status, other.json["code"], other.json["value"]) == (
        409, "queueExists", "vt 5",
    )  # fmt: skip
    assert (await http("PATCH", "/queues/q", {"delay": 2})).json["delay"] == 2
    assert (await queues.get_queue_attributes("q")).vt == 5
    await queues.create_queue("r")
    page = (await http("GET", "/queues?limit=1")).json
    assert [each["name"] for each in page["queues"]] == ["q"]
    page = (await http("GET", f"/queues?limit=1&cursor={page['cursor']}")).json
    assert ([each["name"] for each in page["queues"]], page["cursor"]) == (["r"], None)
    gone = await http("DELETE", "/queues/q")
    assert (gone.status, gone.content) == (204, b"")
    assert "content-length" not in gone.headers
    assert (await http("GET", "/queues/q")).status == 404


async def test_a_message_is_sent_received_extended_and_deleted_by_its_receipt(http, queues):
    await queues.create_queue("q")
    sent = await http("POST", "/queues/q/messages", {"body": "hällo"})
    assert sent.status == 201
    assert await _raw(queues, "HGET", "rsmq:q:Q", sent.json["id"]) == "hällo".encode()
    [message] = (await http("POST", "/receive", {"queues": ["q"]})).json["messages"]
    assert (message["id"], message["body"], message["receive_count"]) == (
        sent.json["id"], "hällo", 1,
    )  # fmt: skip
    path = f"/queues/q/messages/{message['id']}?receipt={message['receipt']}"
    assert (await http("PATCH", path, {"vt": 50})).status == 204
    assert (await http("DELETE", path)).status == 204
    assert (await http("DELETE", path)).json["code"] == "messageNotFound"
    assert await _raw(queues, "ZCARD", "rsmq:q") == 0


async def test_a_receipt_of_an_earlier_receive_is_refused(http, queues):
    await queues.create_queue("q")
    await queues.send_message("q", "a")
    first = await queues.receive_message("q", vt=0)
    second = await queues.receive_message("q")
    path = f"/queues/q/messages/{first.id}?receipt={first.id}."
    refused = await http("DELETE", path + "1")
    assert (refused.status, refused.json["code"]) == (409, "receiptExpired")
    assert await _raw(queues, "ZCARD", "rsmq:q") == 1
    assert (await http("DELETE", path + str(second.receive_count))).status == 204


async def test_bodies_are_bytes_text_or_json(http, queues):
    await queues.create_queue("q")
    for content in ({"body_base64": "/w=="}, {"json": {"a": [1, None]}}, {"json": None}):
        assert (await http("POST", "/queues/q/messages", content)).status == 201
    found = (await http("POST", "/pop", {"queues": ["q"], "max": 9})).json["messages"]
    assert [each.get("body", each.get("body_base64")) for each in found] == [
        "/w==", '{"a":[1,null]}', "null",
    ]  # fmt: skip
    for content in ({}, {"body": "a", "json": 1}, {"body_base64": "!"}):
        assert (await http("POST", "/queues/q/messages", content)).status == 422
    headers = {"content-type": "application/json"}
    for number in (b"1e400", b"[-1e999]"):
        sent = await http(
            "POST", "/queues/q/messages", body=b'{"json": %s}' % number, headers=headers
        )
        assert (sent.status, sent.json["code"]) == (422, "invalidFormat")
    assert (await queues.get_queue_attributes("q")).messages == 0


async def test_raw_bodies_go_in_and_out_unchanged(http, queues):
    await queues.create_queue("q")
    body = MSGPACK.encode({"a": b"\xff\x00"})
    sent = await http("POST", "/queues/q/raw?delay=0", body=body)
    assert sent.status == 201
    found = await http("POST", "/queues/q/raw:receive?vt=9")
    assert (found.status, found.content) == (200, body)
    assert found.headers["rsmq-id"] == sent.headers["rsmq-id"] == sent.json["id"]
    assert found.headers["rsmq-receipt"] == f"{sent.json['id']}.1"
    assert found.headers["content-type"] == "application/octet-stream"
    assert (await http("POST", "/queues/q/raw:receive")).status == 204
    await http("POST", "/queues/q/messages:release", {"receipts": [f"{sent.json['id']}.1"]})
    assert (await http("POST", "/queues/q/raw:pop")).content == body
    assert await _raw(queues, "ZCARD", "rsmq:q") == 0


async def test_a_batch_is_stored_completely_or_not_at_all(http, queues):
    await queues.create_queue("q", maxsize=1024)
    messages = [{"body": "a"}, {"json": 1}]
    sent = await http("POST", "/queues/q/messages:batch", {"messages": messages, "delay": 0})
    assert len(sent.json["ids"]) == 2
    refused = await http(
        "POST", "/queues/q/messages:batch", {"messages": [*messages, {"body": "x" * 2000}]}
    )
    assert (refused.status, refused.json["code"]) == (413, "messageTooLong")
    assert await _raw(queues, "ZCARD", "rsmq:q") == 2


async def test_the_same_idempotency_key_sends_one_message_and_refuses_another_body(http, queues):
    await queues.create_queue("q")
    headers = {"idempotency-key": "order-1"}
    first = await http("POST", "/queues/q/messages", {"body": "a"}, headers=headers)
    await queues.delete_message("q", first.json["id"])
    again = await http("POST", "/queues/q/messages", {"body": "a"}, headers=headers)
    assert again.json == first.json
    for content in ({"body": "b"}, {"body": "a", "delay": 9}):
        other = await http("POST", "/queues/q/messages", content, headers=headers)
        assert (other.status, other.json["code"]) == (422, "idempotencyKeyReused")
    assert await _raw(queues, "ZCARD", "rsmq:q") == 0
    assert await _raw(queues, "PTTL", "rsmq:q:x:dedup") > 3_600_000
    await queues.purge_queue("q")
    assert (await http("POST", "/queues/q/messages", {"body": "b"}, headers=headers)).status == 201


async def test_a_batch_with_an_idempotency_key_is_stored_once(http, queues):
    await queues.create_queue("q")
    content = {"messages": [{"body": "a"}, {"body": "b"}]}
    replies = [
        await http("POST", "/queues/q/messages:batch", content, headers={"idempotency-key": "k"})
        for _ in range(2)
    ]
    assert replies[0].json == replies[1].json
    assert await _raw(queues, "ZCARD", "rsmq:q") == 2


def _key(text):
    return {"idempotency-key": text}


@pytest.mark.parametrize(
    "option",
    [each for each in SEND.options.values() if each.of_message and each.name != "dedup_id"],
    ids=lambda option: option.name,
)
async def test_a_reused_key_with_another_option_of_a_message_is_refused(option, http, queues):
    await queues.create_queue("q")
    further = {"max_running": 1} if option.needs else {}
    replies = []
    for value in ("a", "b"):
        content = {"messages": [{"body": "m", option.name: value}], **further}
        replies.append(await http("POST", "/queues/q/messages:batch", content, headers=_key("k")))
    assert [each.status for each in replies] == [201, 422]
    assert replies[1].json["code"] == "idempotencyKeyReused"


async def test_keys_of_batches_are_not_those_of_single_messages(http, queues):
    await queues.create_queue("q")
    single, batch = "/queues/q/messages", "/queues/q/messages:batch"
    two = {"messages": [{"body": "b0"}, {"body": "b1"}]}
    assert (await http("POST", single, {"body": "first"}, headers=_key("k:0"))).status == 201
    assert (await http("POST", batch, two, headers=_key("k"))).status == 201
    assert (await http("POST", single, {"body": "last"}, headers=_key("k:1"))).status == 201
    bodies = sorted(each.body for each in await queues.peek_messages("q"))
    assert bodies == ["b0", "b1", "first", "last"]
    reused = await http("POST", single, {"body": "x"}, headers=_key("k"))
    assert (reused.status, reused.json["code"]) == (422, "idempotencyKeyReused")


@pytest.mark.parametrize("window", [None, 1, 9_999_999])
async def test_a_key_is_remembered_for_longer_than_what_was_sent_with_it(window, http, queues):
    await queues.create_queue("q")
    content = {"body": "a"} | ({} if window is None else {"dedup_window": window})

    async def ends():
        found = await _raw(queues, "HGETALL", "rsmq:q:x:dedup")
        records = (
            found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))
        )
        return {
            "digest" if name.startswith(b"http:") else "message": int(value.split(b":")[0])
            for name, value in records.items()
            if name
        }

    for _ in range(3):
        sent = await http("POST", "/queues/q/messages", content, headers=_key("k"))
        assert sent.status == 201
        found = await ends()
        assert found["digest"] - found["message"] > 500_000
        # Its time has ended, and that of the digest has not.
        before = (await _raw(queues, "HGET", "rsmq:q:x:dedup", "k")).partition(b":")[2]
        await _raw(queues, "HSET", "rsmq:q:x:dedup", "k", b"1:" + before)
    other = await http("POST", "/queues/q/messages", {"body": "b"}, headers=_key("k"))
    assert other.status == 422
    assert await _raw(queues, "ZCARD", "rsmq:q") == 3


async def test_a_send_that_is_refused_leaves_its_key_free(http, queues):
    await queues.create_queue("q", maxsize=1024)
    refused = [
        ({"body": "x" * 2000}, 413),
        ({"body": "a", "delay": -5}, 422),
        ({"body": "a", "dedup_window": 10**12}, 422),
        ({"body": "a", "unique_key": "x" * 200}, 422),
    ]
    for number, (content, status) in enumerate(refused):
        headers = _key(f"k{number}")
        reply = await http("POST", "/queues/q/messages", content, headers=headers)
        assert reply.status == status
        batch = {"messages": [content, {"body": "b"}], "delay": -1}
        reply = await http("POST", "/queues/q/messages:batch", batch, headers=headers)
        assert reply.status in {413, 422}
        assert "Reused" not in reply.json["code"]
        sent = await http("POST", "/queues/q/messages", {"body": "a"}, headers=headers)
        assert sent.status == 201
    # A repetition that is refused does not free the key of what was sent.
    await queues.set_queue_attributes("q", maxsize=2048)
    long = {"body": "y" * 2000}
    assert (await http("POST", "/queues/q/messages", long, headers=_key("l"))).status == 201
    await queues.set_queue_attributes("q", maxsize=1024)
    assert (await http("POST", "/queues/q/messages", long, headers=_key("l"))).status == 413
    other = await http("POST", "/queues/q/messages", {"body": "a"}, headers=_key("l"))
    assert other.json["code"] == "idempotencyKeyReused"


async def test_dead_letters_are_swept_and_redriven(http, queues):
    await queues.create_queue("q")
    await queues.create_queue("dead")
    policy = {"dead_letter_queue": "dead", "max_receives": 1}
    assert (await http("PUT", "/queues/q/dead-letter-policy", policy)).json["max_receives"] == 1
    id = await queues.send_message("q", "a")
    await queues.receive_message("q", vt=0)
    assert (await http("POST", "/queues/q:sweep")).json == {"ids": [id]}
    [moved] = (await http("POST", "/queues/dead:redrive")).json["messages"]
    assert moved["old_id"] == id
    stored = (await http("GET", f"/queues/q/messages/{moved['id']}")).json
    assert (stored["body"], stored["state"]) == ("a", "visible")
    assert (await http("GET", f"/queues/q/messages/{moved['id']}/body")).content == b"a"
    removed = await http("DELETE", "/queues/q/dead-letter-policy")
    assert removed.json["dead_letter_queue"] is None


async def test_lists_of_messages_are_moved_hidden_recovered_and_deleted(http, queues):
    await queues.create_queue("q")
    await queues.create_queue("r")
    ids = await queues.send_messages("q", ["a", "b"])
    base = "/queues/q/messages:"
    assert (await http("POST", base + "visibility", {"ids": ids, "vt": 60})).json["ids"] == ids
    assert (await http("POST", base + "release", {"ids": ids})).json["ids"] == ids
    received = (await http("POST", "/receive", {"queues": ["q"], "max": 2})).json["messages"]
    receipts = [each["receipt"] for each in received]
    recovered = (await http("POST", base + "recover", {"idle": 0, "max": 2})).json["messages"]
    assert [each["receive_count"] for each in recovered] == [2, 2]
    assert (await http("POST", base + "delete", {"receipts": receipts})).json["ids"] == []
    moving = {"receipts": [recovered[0]["receipt"]], "destination": "r"}
    assert (await http("POST", base + "move", moving)).json["ids"] == [recovered[0]["id"]]
    assert (await http("POST", base + "delete", {"ids": ids})).json["ids"] == [recovered[1]["id"]]
    counts = (await http("GET", "/queues/r/counts")).json
    assert (counts["visible"], counts["in_flight"]) == (1, 0)
    assert (await http("GET", "/queues/r/scaling")).json["unfinished"] == 1


async def test_schedules_are_added_read_and_run(http, queues):
    await queues.create_queue("q")
    schedule = {"queue": "q", "every": 3600, "body": "tick"}
    assert (await http("PUT", "/schedules/hourly", schedule)).status == 201
    assert (await http("PUT", "/schedules/hourly", schedule)).json == {"changed": False}
    assert (await http("POST", "/schedules/hourly:pause")).json == {"changed": True}
    shown = (await http("GET", "/schedules")).json["schedules"]
    assert [(each["name"], each["every"], each["queue"]) for each in shown] == [
        ("hourly", 3600, "q")
    ]
    id = (await http("POST", "/schedules/hourly:run")).json["id"]
    assert (await queues.get_message("q", id)).body == "tick"
    assert (await http("POST", "/schedules/hourly:resume")).json == {"changed": True}
    assert (await http("DELETE", "/schedules/hourly")).status == 204
    assert (await http("GET", "/schedules/hourly")).json["code"] == "scheduleNotFound"


async def test_publish_pause_purge_and_release_act_as_the_client_does(http, queues):
    await queues.create_queue("q")
    await queues.create_queue("r")
    ids = (await http("POST", "/publish", {"queues": ["q", "r"], "body": "a"})).json["ids"]
    assert set(ids) == {"q", "r"}
    assert (await http("POST", "/queues/q:pause")).json == {"changed": True}
    assert (await http("POST", "/queues/q:resume")).json == {"changed": True}
    await queues.receive_message("q")
    assert (await http("POST", "/queues/q:release-all")).json == {"released": 1}
    assert (await http("POST", "/queues/q:purge")).json == {"removed": 1, "undo": None}


@pytest.mark.parametrize(
    ("method", "path", "content", "status", "code"),
    [
        ("GET", "/queues/none", None, 404, "queueNotFound"),
        ("GET", "/queues/a%20b", None, 422, "invalidFormat"),
        ("GET", "/nothing", None, 404, "notFound"),
        ("GET", "/queues//counts", None, 404, "notFound"),
        ("POST", "/queues/q", None, 405, "methodNotAllowed"),
        ("GET", "/queues?limit=x", None, 422, "invalidFormat"),
        ("GET", "/queues?limit=0", None, 422, "invalidValue"),
        ("GET", "/queues?lmit=1", None, 422, "unknownField"),
        ("POST", "/queues/q/messages", {"body": "a", "delya": 1}, 422, "unknownField"),
        ("POST", "/queues/q/messages", {"body": "a", "delay": True}, 422, "invalidFormat"),
        ("POST", "/queues/q/messages", {"body": "a", "delay": -1}, 422, "invalidValue"),
        ("POST", "/queues/q/messages", {"body": "a", "deliver_at": "2026"}, 422, "invalidFormat"),
        ("POST", "/queues/q/messages", {"body": "\ud800"}, 422, "messageNotString"),
        ("POST", "/queues/q/messages", [1], 422, "invalidFormat"),
        ("POST", "/queues/q/messages", [], 422, "missingParameter"),
        ("POST", "/receive", {}, 422, "missingParameter"),
        ("POST", "/receive", {"queues": ["q"], "wait": 61}, 422, "invalidValue"),
        ("POST", "/receive", {"queues": []}, 422, "missingParameter"),
        ("DELETE", "/queues/q/messages/abc", None, 422, "invalidFormat"),
        ("DELETE", "/queues/q/messages/abc?receipt=x", None, 422, "invalidFormat"),
        ("POST", "/queues/q/messages:delete", {}, 422, "missingParameter"),
    ],
)  # fmt: skip
async def test_what_is_not_valid_is_a_problem_and_changes_nothing(
    method, path, content, status, code, http, queues
):
    await queues.create_queue("q")
    reply = await http(method, path, content)
    assert (reply.status, reply.json["code"], reply.json["status"]) == (status, code, status)
    assert reply.headers["content-type"] == "application/problem+json"
    assert await _raw(queues, "ZCARD", "rsmq:q") == 0


@pytest.mark.parametrize("body", [b"{", b"\xff", b"[" * 100_000, b'{"body": NaN}'])
async def test_broken_json_is_a_problem_without_the_body(body, http, queues):
    await queues.create_queue("q")
    headers = {"content-type": "application/json"}
    reply = await http("POST", "/queues/q/messages", body=body, headers=headers)
    assert (reply.status, reply.json["code"]) == (400, "invalidJson")
    other = await http("POST", "/queues/q/messages", body=b'{"body": "a"}')
    assert other.status == 415


async def test_a_path_has_405_with_the_methods_that_it_has(http, queues):
    del queues
    assert (await http("POST", "/queues/q")).headers["allow"] == "DELETE, GET, HEAD, PATCH, PUT"
    assert (await http("HEAD", "/queues")).content == b""


def test_a_read_only_server_refuses_each_change(run):
    async def test(http, queues):
        await queues.create_queue("q")
        await queues.send_message("q", "a")
        for route in TABLE:
            path = route.path.replace("{queue}", "q").replace("{id}", "x" * 32)
            reply = await http(route.method, path.replace("{schedule}", "s"))
            is_refused = reply.status == 403 and reply.json["code"] == "readOnly"
            assert is_refused == (route.method != "GET"), route
        assert (await queues.get_queue_attributes("q")).total_received == 0

    run(test, read_only=True)


async def test_probes_and_metrics_answer(http, queues):
    await queues.create_queue("q")
    await queues.send_message("q", "a")
    http.prefix = ""
    assert (await http("GET", "/healthz")).content == b"ok\n"
    assert (await http("GET", "/readyz")).content == b"ok\n"
    metrics = (await http("GET", "/metrics")).content.decode()
    assert 'rsmq_queue_visible{ns="rsmq",queue="q"} 1\n' in metrics
    assert json.loads((await http("GET", "/api/v1/openapi.json")).content)["openapi"] == "3.1.0"


def test_a_name_of_any_characters_can_be_in_a_path():
    from rsmq.web.router import PathRouter

    router = PathRouter(TABLE)
    for text, name in (("a%2Fb", "a/b"), ("a%3Apause", "a:pause"), ("a:b", "a:b")):
        route, names = router.find("GET", f"/queues/{text}")
        assert (route.path, names) == ("/queues/{queue}", {"queue": name})
    assert router.find("POST", "/queues/a:pause")[1] == {"queue": "a"}


def test_an_id_of_another_client_is_no_further_header(run):
    odd = "tiny é\r\nX-Evil: 1"

    async def test(http, queues):
        await queues.create_queue("q")
        raw = queues.namespace.queue("q")
        for command in (("HSET", raw.hash, odd, "m"), ("ZADD", raw.zset, 1, odd)):
            await _raw(queues, *command)
        reply = await http("POST", "/queues/q/raw:receive?vt=9")
        assert reply.content == b"m"
        assert reply.headers["rsmq-id"] == "tiny%20%C3%A9%0D%0AX-Evil:%201"
        receipt = reply.headers["rsmq-receipt"]
        path = f"/queues/q/messages/{reply.headers['rsmq-id']}"
        assert (await http("DELETE", f"{path}?receipt={receipt}")).status == 204

    run(test)


async def test_a_queue_whose_name_no_call_accepts_does_not_end_lists(http, queues):
    await queues.create_queue("q")
    for name in ("", "a:Q", "zwei Wörter", "QUEUES"):
        await _raw(queues, "SADD", queues.namespace.queues, name)
    reply = await http("GET", "/queues")
    assert [each["name"] for each in reply.json["queues"]] == ["q"]
    http.prefix = ""
    assert b'rsmq_up{ns="rsmq"} 1' in (await http("GET", "/metrics")).content


async def test_a_key_that_is_empty_in_a_batch_is_refused(http, queues):
    await queues.create_queue("q")
    for name in ("dedup_id", "unique_key"):
        reply = await http("POST", "/queues/q/messages:batch", {
            "messages": [{"body": "a", name: ""}],
        })  # fmt: skip
        assert reply.status == 422, name
    assert await queues.peek_messages("q") == []


def test_times_are_whole_milliseconds_and_none_is_an_estimate(run):
    def times(value):
        if isinstance(value, list):
            return [each for part in value for each in times(part)]
        if isinstance(value, dict):
            own = [(name, each) for name, each in value.items() if name.endswith("_ms")]
            return own + times(list(value.values()))
        return []

    async def test(http, queues):
        await queues.create_queue("q")
        await queues.send_messages("q", ["a", "b", "c"])
        found = times((await http("POST", "/receive", {"queues": ["q"]})).json)
        for path in ("/queues/q", "/queues/q/counts", "/queues/q/messages"):
            found += times((await http("GET", path)).json)
        names = {name for name, _ in found}
        assert {"sent_ms", "visible_at_ms", "oldest_sent_ms", "next_due_ms"} <= names
        assert "last_received_ms" not in names
        assert [each for each in found if not isinstance(each[1], int | None)] == []

    run(test)


async def test_options_of_a_raw_send_are_in_headers_or_in_the_query(http, queues):
    await queues.create_queue("q")
    for path, headers in (("?delay=60", {}), ("", {"rsmq-delay": "60"})):
        assert (
            await http("POST", f"/queues/q/raw{path}", body=b"a", headers=headers)
        ).status == 201
    assert (await queues.count_messages("q")).delayed == 2
    webhook = {"rsmq-queue": "other", "rsmq-receive-count": "1"}
    assert (await http("POST", "/queues/q/raw", body=b"a", headers=webhook)).status == 201
    for path, header, code in (
        ("", "rsmq-dely", "unknownField"),
        ("?delay=1", "rsmq-delay", "repeatedField"),
    ):
        reply = await http("POST", f"/queues/q/raw{path}", body=b"a", headers={header: "1"})
        assert reply.json["code"] == code
    assert (await queues.get_queue_attributes("q")).messages == 3


def test_an_answer_that_is_an_error_of_the_server_is_a_line_of_the_log(run, caplog):
    async def test(http, queues):
        async def fail(*_, **__):
            error = RuntimeError("the body")
            raise error

        queues.get_queue_attributes = fail
        assert (await http("GET", "/queues/a-secret-name")).status == 500
        assert (await http("GET", "/queues/a%20b/counts")).status == 422

    run(test)
    assert "GET /queues/{queue}: 500 internal" in caplog.messages
    assert "secret" not in caplog.text
    assert "the body" not in caplog.text
