"""The fields of calls follow from the table of calls: HTTP refuses what their rows do not allow."""

import json
from urllib.parse import urlencode

import pytest

from rsmq.vocabulary.calls import BY_NAME
from rsmq.web.fields import Shape
from rsmq.web.routes import TABLE
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import RawBody

ID = "a" * 32
REQUIRED = {
    "queues": ["q"], "idle": 1, "vt": 1, "queue": "q", "dead_letter_queue": "dead",
    "max_receives": 3, "every": 1, "ids": [ID],
    "url": "https://example.org", "why": "new workers",
}  # fmt: skip
ROUTES = {f"{each.method} {each.path}": each for each in TABLE}
NUMBERS = [
    (call.route, field)
    for call in BY_NAME.values()
    # A flow must be there, and a worker alive.
    if call.route and "{worker}" not in call.route and call.name != "flow"
    for field in list_arguments(call.name)
    if field.kind in {Shape.NUMBER, Shape.WHOLE} and field.rule
]  # fmt: skip


@pytest.mark.parametrize(
    ("route", "field"), NUMBERS, ids=[f"{route}-{each.name}" for route, each in NUMBERS]
)
@pytest.mark.parametrize("end", ["minimum", "maximum"])
async def test_a_number_out_of_range_is_refused_with_the_range(http, queues, route, field, end):
    await queues.create_queue("q")
    entry = ROUTES[route]
    path = entry.path.format(queue="q", id=ID, schedule="s", subscriber="crm", kind="all")
    value = field.rule[end] + (1 if end == "maximum" else -1)
    body = () if isinstance(entry.body, RawBody) else entry.body
    names = {each.name for each in (*entry.query, *body)}
    values = {name: REQUIRED[name] for name in REQUIRED.keys() & names} | {field.name: value}
    if field in entry.query:
        answer = await http(entry.method, f"{path}?{urlencode({field.name: value})}")
    else:
        if route.endswith("redrive"):
            del values["ids"]  # which goes without a number
        answer = await http(entry.method, path, values)
    problem = json.loads(answer.content)
    assert (answer.status, problem["code"], problem["field"]) == (422, "invalidValue", field.name)
    assert problem["range"] == [field.rule["minimum"], field.rule["maximum"]]
    assert problem["value"] == value
