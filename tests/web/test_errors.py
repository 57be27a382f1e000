"""Errors: in the words of HTTP, with the refused value as it was sent."""

import re

#: Words of Python and of the client, which a caller in another language does not know.
_PYTHON = re.compile(
    r"\b(None|True|False|str|dict|datetime|codec|qname|max_messages|max_jobs|kwargs|Error)\b"
    r"|\w+=\w|\w_\w+\(|\(\)|pip "
)


def _texts(problem):
    return f"{problem['detail']} {problem.get('hint', '')}"


def has_python(problem):
    """Return whether a problem has words of Python, the values of the request excepted."""
    return bool(_PYTHON.search(re.sub(r"'[^']*'", "''", _texts(problem))))


def test_errors_have_the_names_of_the_fields_and_no_words_of_python(run):
    long = "x" * 70_000
    cases = [
        ("GET", "/queues/none", None, "with PUT /queues/{queue}"),
        ("POST", "/queues/q/messages", {"body": long}, "maxsize of PATCH /queues/{queue}"),
        ("PUT", "/queues/a%20b", {}, "Invalid queue format: 'a b'"),
        ("POST", "/receive", {"queues": ["q"], "max": 0}, "max must be between 1 and"),
        ("POST", "/queues/q:sweep", {"max": 0}, "max must be between"),
        ("GET", "/queues/q/jobs?limit=0", None, "limit must be between"),
        ("GET", "/queues/q/messages?limit=0", None, "limit must be between"),
        ("GET", "/queues/q/messages?state=x", None, "It is one of"),
        ("POST", "/publish", {"queues": [], "body": "a"}, "No queue"),
        (
            "POST", "/queues/q/messages",
            {"body": "a", "deliver_at": "2027-01-01T00:00:00Z", "delay": 1},
            "2027-01-01T00:00:00+00:00",
        ),
        ("POST", "/queues/q/messages", {"body": "a", "front": True, "delay": 1}, "with front"),
        ("POST", "/queues/q/messages", {"body": "a", "max_wait": 1}, "It needs replace and delay"),
        ("POST", "/queues/q/messages", {"body": "a", "replace": True}, "format: true"),
        ("POST", "/queues/q/messages", {"body": "a", "dedup_id": ""}, "1 to 128 characters"),
        ("POST", "/queues/q/messages", {"body": "\ud800"}, "UTF-8 can't encode"),
        ("PATCH", "/queues/q", {}, "vt, delay, maxsize, keep and expired"),
        ("PATCH", "/queues/q", {"expired": "dead-letter"}, "PUT /queues/{queue}/dead-letter"),
        (
            "PUT", "/schedules/s", {"queue": "q", "every": 9, "body": "a", "tick_field": "t"},
            "a JSON object",
        ),
        ("GET", "/queues/q/jobs/" + "0" * 32, None, "track"),
        ("PUT", "/schedules/s", {"queue": "q"}, "There is no cron Pass either cron or every"),
    ]  # fmt: skip

    async def test(http, queues):
        await queues.create_queue("q")
        for method, path, content, words in cases:
            reply = await http(method, path, content)
            text = _texts(reply.json)
            assert 400 <= reply.status < 500, (path, reply.content)
            assert words in text, text
            assert not has_python(reply.json), text

    run(test)


async def test_a_refused_value_is_as_it_was_sent(http, queues):
    await queues.create_queue("q")

    async def value(method, path, content=None):
        return (await http(method, path, content)).json.get("value")

    assert await value("PUT", "/queues/q", {"vt": "60"}) == "60"
    assert await value("PUT", "/queues/q", {"vt": True}) is True
    assert await value("POST", "/receive", {"queues": "q"}) == "q"
    assert await value("PUT", "/queues/q", {"vt": -1}) == -1
    assert await value("PUT", "/queues/q", {"vt": [1]}) is None
    assert await value("PUT", "/queues/q", {"Vt": 1}) == "Vt"
    assert await value("PUT", "/schedules/s", {"queue": "q", "cron": "* x"}) == "* x"
    assert await value("POST", "/queues/q/messages", {"body": "a\ud800"}) is None
    assert len(await value("GET", f"/queues/{'a' * 200}")) == 81


async def test_a_problem_does_not_contain_a_body(http, queues):
    await queues.create_queue("q")
    for bad in ({"body": 123456}, {"body_base64": 123456}, {"body_base64": "123456"}):
        alone = await http("POST", "/queues/q/messages", bad)
        batch = await http("POST", "/queues/q/messages:batch", {"messages": [bad]})
        for reply in (alone, batch):
            assert reply.status == 422, bad
            assert b"123456" not in reply.content
    reply = await http("POST", "/queues/q/messages:batch", {"messages": "123456"})
    assert (reply.status, "value" in reply.json) == (422, False)


async def test_a_message_of_a_batch_that_is_not_valid_is_named_by_its_index(http, queues):
    await queues.create_queue("q")
    good = {"body": "a"}
    for bad, code in (
        ({"text": "b"}, "unknownField"),
        ({}, "missingParameter"),
        ({"body": "a", "json": 1}, "invalidFormat"),
        ({"body": "a", "dedup_id": "x" * 129}, "invalidFormat"),
        ({"body": "x" * 70_000}, "messageTooLong"),
        ({"body": "\ud800"}, "messageNotString"),
    ):
        reply = await http("POST", "/queues/q/messages:batch", {"messages": [good, good, bad]})
        assert (reply.json["code"], reply.json["index"]) == (code, 2), bad
        assert "Message 2 of the batch" in reply.json["detail"]
    assert (await queues.get_queue_attributes("q")).messages == 0


async def test_an_empty_list_is_an_empty_object_and_a_field_is_there_once(http, queues):
    assert (await http("PUT", "/queues/q", [])).status == 201  # as PHP writes no attributes
    assert (await http("PUT", "/queues/q", [1])).status == 422
    json = {"content-type": "application/json"}
    for body in (b'{"vt": 1, "vt": 2}', b'{"json": {"vt": 1, "vt": 2}}'):
        reply = await http("POST", "/queues/q/messages", body=body, headers=json)
        assert (reply.status, reply.json["code"]) == (400, "repeatedField")
        assert reply.json["value"] == "vt"
    sent = await http("POST", "/queues/q/messages", {"json": []})
    assert sent.status == 201


async def test_a_time_whose_plus_was_not_encoded_gets_the_remedy(http, queues):
    await queues.create_queue("q")
    path = "/queues/q/raw?deliver_at=2027-01-01T00:00:00"
    reply = await http("POST", f"{path}+00:00", body=b"a")
    assert (reply.status, reply.json["value"]) == (422, "2027-01-01T00:00:00 00:00")
    assert "%2B" in reply.json["hint"]
    assert (await http("POST", f"{path}%2B00:00", body=b"a")).status == 201


def test_a_thing_that_is_not_there_is_not_an_empty_answer(run):
    cases = [
        ("GET", "/queues/none/jobs", "queueNotFound"),
        ("DELETE", "/queues/none/messages/" + "a" * 32, "queueNotFound"),
        ("GET", "/queues/none/messages/" + "a" * 32, "queueNotFound"),
        ("DELETE", "/queues/q/messages/" + "a" * 32, "messageNotFound"),
        ("GET", "/workers/nope/held", "workerNotFound"),
        ("GET", "/subscribers?queue=none", "queueNotFound"),
        ("GET", "/queues/q/subscribers/none", "subscriberNotFound"),
        ("GET", "/queues/q/dead-letter-policy", "policyNotFound"),
        ("GET", "/queues/none/dead-letter-policy", "queueNotFound"),
        ("POST", "/webhooks:forget", "webhookNotFound"),
        ("POST", "/webhooks:resume", "webhookNotFound"),
        ("POST", "/alert-targets/none:test", "alertTargetNotFound"),
        ("DELETE", "/alert-silences/all", "silenceNotFound"),
    ]

    async def test(http, queues):
        await queues.create_queue("q")
        for method, path, code in cases:
            reply = await http(method, path, {"queue": "q"} if "webhooks" in path else None)
            assert (reply.status, reply.json.get("code")) == (404, code), path
        assert (await http("GET", "/subscribers?queue=q")).json == {"subscribers": []}

    run(test)


async def test_each_path_of_the_server_that_is_not_there_is_a_problem(http):
    for path in ("/foo", "/api/v2/queues", "/api", "/healthz/x"):
        http.prefix = ""
        reply = await http("GET", path)
        assert (reply.status, reply.json["code"]) == (404, "notFound"), path
        assert reply.headers["content-type"] == "application/problem+json"
    reply = await http("POST", "/healthz")
    assert (reply.status, reply.json["code"]) == (405, "methodNotAllowed")


async def test_a_field_in_the_wrong_part_of_a_request_is_named_with_the_right_one(http, queues):
    await queues.create_queue("q")
    purge = await http("POST", "/queues/q:purge?undo=true")
    assert (purge.status, purge.json["value"]) == (422, "undo")
    assert purge.json["hint"] == "It is a field of the body, as JSON."
    assert (await http("POST", "/queues/q:purge", {"undo": True})).status == 200
    read = await http("DELETE", "/queues/q/messages/a", {"receipt": "a-1"})
    assert read.json["hint"] == "It is a field of the query."
    other = await http("POST", "/queues/q:purge?other=true")
    assert other.json["hint"] == "This call has no fields here."
