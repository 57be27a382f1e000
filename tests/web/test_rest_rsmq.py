"""The routes of rest-rsmq answer as the original has answered."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from rsmq import AsyncRSMQ
from rsmq.web import create_app
from rsmq.web.rest_rsmq.values import parse_int
from tests.scale import scaled
from tests.web.asgi import Http
from tests.web.rest_rsmq_sequences import Answer, NodeRequest, Sequence, mask

_RECORD = json.loads((Path(__file__).parent / "rest_rsmq_answers.json").read_text())
_ID = re.compile(r"\b[a-z0-9]{10}[A-Za-z0-9]{22}\b")
_NUMBER = re.compile(r'("(?:fr|sent|created|modified)": )\d+')
#: Requests whose answers differ, as docs/from-rest-rsmq.md says.
_DEVIATIONS = {
    "create broken json": "the text",
    "create json string": "the text",
    "send huge 2MB": "the text",
    "README path singular": "accepted, as its documentation has it",
}


_SEQUENCES = Path(__file__).parent / "rest_rsmq_sequences.jsonl"


def _mask(text):
    return _NUMBER.sub(r"\g<1>0", _ID.sub("ID", text))


def _sorted_queues(text):
    content = json.loads(text)
    return {**content, "queues": sorted(content["queues"])} if "queues" in content else content


def _body_of(case):
    body = case["body"]
    sizes = {"<3015 B>": 3000, "<2000015 B>": 2_000_000}
    if body in sizes:
        return json.dumps({"message": "x" * sizes[body]}).encode()
    return None if body is None else body.encode()


def _type_of(case):
    if case["case"] == "send text/plain":
        return "text/plain"
    form = case["case"] in {"send form", "method override form"}
    return "application/x-www-form-urlencoded" if form else "application/json"


async def test_each_recorded_request_has_the_recorded_answer(http, queues):
    http.prefix = "/rest-rsmq"
    ids = {}  # ours, by that of the record
    etag = None
    for case in _RECORD["cases"]:
        method, path = case["request"].split(" ", 1)
        for theirs, ours in ids.items():
            path = path.replace(theirs, ours)
        body = _body_of(case)
        headers = {"content-type": _type_of(case)} if body else {}
        if case["case"] == "if-none-match":
            headers["if-none-match"] = etag
        reply = await http(method, path, body=body, headers=headers)
        etag = reply.headers.get("etag", etag)
        if case["case"] in _DEVIATIONS:
            expected = 200 if "singular" in case["case"] else case["status"]
            assert reply.status == expected, case
            continue
        assert (reply.status, reply.headers.get("content-type")) == (
            case["status"], case["content_type"],
        ), case  # fmt: skip
        assert reply.headers.get("allow") == case["allow"]
        text, expected = _mask(reply.content.decode()), _mask(case["response"])
        if case["case"] in {"list", "HEAD queues"} and text:
            text, expected = _sorted_queues(text), _sorted_queues(expected)
        assert text == expected, case
        if case["content_length"]:
            assert reply.headers["content-length"] == case["content_length"], case
        if case["case"].startswith("send") and case["status"] == 200:
            ids[json.loads(case["response"])["id"]] = reply.json["id"]


def test_recorded_sequences_have_the_answers_of_the_original(server, ns):
    """Of 300 sequences that scripts/compare-rest-rsmq has recorded."""
    rows = [json.loads(line) for line in _SEQUENCES.read_text().splitlines()]
    answers = [Answer(*each) for each in rows.pop(0)]

    async def replay(row, ns):
        async with AsyncRSMQ.from_url(server.url, ns=ns) as queues:
            http = Http(create_app(queues, auth=False), "/rest-rsmq")
            sequence = Sequence()
            for *parts, number in row:
                request = NodeRequest(*parts)
                body = request.encode_body()
                headers = request.headers
                if body is not None:
                    headers = {**headers, "content-length": str(len(body))}
                path = sequence.path_of(request)
                reply = await http(request.method, path, body=body, headers=headers)
                text = reply.content.decode()
                sequence.note(text)
                found = mask(reply.status, reply.headers.get("content-type"), text)
                assert found == answers[number], (row, request)
                if "/messages" in request.path.lower():
                    await asyncio.sleep(0.0015)  # The order of messages is by milliseconds.

    async def test():
        for number, row in enumerate(rows[:: scaled(4, 1)]):
            await replay(row, f"{ns}{number}")

    asyncio.run(test())


async def test_the_time_of_a_send_is_that_of_the_original(http, queues):
    http.prefix = "/rest-rsmq"
    await queues.create_queue("q")
    id = (await http("POST", "/messages/q", {"message": "a"})).json["id"]
    assert (await http("GET", "/messages/q")).json["sent"] == int(id[:10], 36) // 1000


async def test_fields_in_thousands_of_brackets_are_read(http, queues):
    http.prefix = "/rest-rsmq"
    headers = {"content-type": "application/x-www-form-urlencoded"}
    for text, status in (("[]" * 5000, 200), (f"[{'9' * 5000}]", 500)):
        body = f"vt{text}=60".encode()
        assert (await http("POST", "/queues/q", body=body, headers=headers)).status == status
    assert (await queues.get_queue_attributes("q")).vt == 60
    body = b'{"vt": ' + b"[" * 500 + b"60" + b"]" * 500 + b"}"
    headers = {"content-type": "application/json"}
    assert (await http("POST", "/queues/r", body=body, headers=headers)).status == 200


async def test_head_does_not_receive(http, queues):
    http.prefix = "/rest-rsmq"
    await queues.create_queue("q")
    await queues.send_message("q", "a")
    assert (await http("HEAD", "/messages/q")).status == 200
    assert (await queues.get_queue_attributes("q")).visible_messages == 1


async def test_a_page_of_another_site_can_not_receive(http, queues):
    http.prefix = "/rest-rsmq"
    await queues.create_queue("q")
    await queues.send_message("q", "a")
    for headers in (
        {"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"},
        {"referer": "https://evil.example/page"}, {"referer": "http://localhost@evil.example"},
        {"referer": "http://["},
    ):  # fmt: skip
        reply = await http("GET", "/messages/q", headers=headers)
        assert (reply.status, reply.json["code"]) == (403, "crossSite"), headers
    assert (await queues.get_queue_attributes("q")).visible_messages == 1
    own = {"referer": "http://localhost/page"}
    assert (await http("GET", "/messages/q", headers=own)).json["message"] == "a"


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("5abc", 5), (" +7", 7), ("-1", -1), ("0x10", 0), ("", None), ("abc", None), (1.9, 1),
        (1e21, 1), (1e-7, 1), (9.9999999e25, 9), (float("inf"), None), (-0.5, 0), (True, None),
        ("\ufeff5", 5), ("\x1c5", None), ("\u0665", None), ({"a": 1}, None), ([[], 5], None),
        ([3, 4], 3), ([], None), ({}, None), (10**30, 1),
        ("9" * 5000, int("9" * 25)),
    ],
)  # fmt: skip
def test_numbers_are_read_as_in_javascript(value, number):
    assert parse_int(value) == number
