"""The table of actions: all faces of an action follow from its entry, with one verb."""

import json
import re
import shlex
import time
from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode, urlsplit

import click
import pytest

from rsmq import RSMQ
from rsmq.cli.app.program import root
from rsmq.vocabulary.calls import CALLS, FACE_CALLS
from rsmq.web.bulk.records import OperationKind, begin_operation
from rsmq.web.pages.actions import ACTIONS, BY_NAME
from rsmq.web.pages.phrases import PHRASES
from rsmq.web.routes import TABLE
from rsmq.web.table import Scope
from tests.web.crawling import crawl, page_paths
from tests.web.planting import Planting
from tests.web.test_crawler import _with_site as with_site

_ROUTES = {f"{each.method} {each.path}": each for each in TABLE}
#: Values of fields that are not texts.
_VALUES = {
    "id": ["i" * 32],
    "ids": ["i" * 32, "j" * 32],
    "vt": ["60"],
    "body": ["-x"],
    "max_receives": ["3"],
}
of_each_action = pytest.mark.parametrize("action", ACTIONS, ids=lambda each: each.name)


def _fields_of(action):
    inputs = {each.name for each in action.inputs}
    declared = {*action.path_names, *action.address, *action.form, *inputs}
    fields = {name: [name] for name in action.path_names} | {"queue": ["orders"]}
    return fields | {name: value for name, value in _VALUES.items() if name in declared}


def _words(text):
    """Return the words of a text, without those that only refer to something."""
    return set(re.findall(r"[a-z]+", text.lower())) - {"it", "its", "the", "a", "all"}


def _parse(words):
    """Parse a line as the program does, and run nothing."""
    command, context, rest = root, click.Context(root), words[1:]
    while isinstance(command, click.Group):
        name, command, rest = command.resolve_command(context, rest)
    command.make_context(name, rest)


@of_each_action
def test_the_line_of_an_action_is_one_that_the_program_accepts_or_the_page_says_why_not(action):
    fields = _fields_of(action)
    if action.why_not:
        assert action.command_of(fields) == []
        assert action.why_not[0].islower()
        assert action.why_not[-1] != "."  # it ends a sentence
        return
    for more in ({"every": ["60"]}, {"cron": ["0 8 * * *"]}):
        words = action.command_of({**fields, **more})
        _parse(shlex.split(shlex.join(["rsmq", *words])))


@of_each_action
def test_the_command_of_an_action_is_that_of_the_table_of_calls(action):
    named = {
        each.command
        for each in (*CALLS, *FACE_CALLS)
        if each.route == action.route and each.command
    }
    if named and not action.why_not:
        line = " ".join(action.command_of(_fields_of(action)))
        assert any(line.startswith(each.partition(" --")[0]) for each in named), (line, named)


def test_actions_have_names_of_their_own_and_an_entry_each():
    names = [each.name for each in ACTIONS]
    assert len(names) == len(set(names))
    assert {each.route for each in ACTIONS} <= set(_ROUTES)


def test_each_field_of_an_action_is_one_of_its_entry():
    for action in ACTIONS:
        route = _ROUTES[action.route]
        known = set(re.findall(r"{(\w+)}", action.route))
        known |= {each.name for each in route.query}
        known |= {each.name for each in route.body} if isinstance(route.body, tuple) else set()
        assert {each.name for each in action.inputs} <= known, action.name
        assert set(action.fixed) <= known, action.name


@of_each_action
def test_the_words_of_a_button_are_in_the_title_of_its_page(action):
    title = action.title_of({**_fields_of(action), "node": ["3"]})
    assert _words(action.label) <= _words(title), title
    assert title.startswith(action.verb)
    assert action.label.startswith(action.verb)


#: Answers with what the texts afterwards name.
_ANSWER = {
    "changed": 1, "id": "i", "ids": ["i"], "messages": ["i"], "left": 0, "done": 1, "released": 1,
    "operation": None, "kind": "redrive", "queue": "q", "repairs": [], "arguments": {},
    "result": "cancelled",
}  # fmt: skip
_ANSWERS = {
    "undo": {**_ANSWER, "kind": "purge", "messages": 1, "in_queue": 0},
    "delete-group": {**_ANSWER, "kind": "delete"},
    "repair": {**_ANSWER, "left": ()},
}


@of_each_action
def test_the_verb_of_a_button_is_in_the_text_afterwards_and_in_the_audit_stream(action):
    answer = _ANSWERS.get(action.name, _ANSWER)
    done = action.done_of(_fields_of(action), answer).text.lower()
    # Of work that only begins, the text has it as a noun.
    past, participle = action.pasts
    assert participle in done or action.verb.lower() in done, done
    phrase = PHRASES.get(action.route)
    if _ROUTES[action.route].scope is Scope.SEND:
        assert phrase is None  # sends are not recorded
    else:
        # To run messages now is to release them, and the text afterwards has both.
        assert phrase.startswith(f"{past} ") or phrase.split()[0] in done, (
            phrase,
            done,
        )


def test_the_button_of_what_removes_something_is_red_and_no_other():
    assert {each.name for each in ACTIONS if each.destroys} == {
        "purge", "delete-queue", "remove-policy", "remove-limits", "sweep-expired",
        "delete-messages", "delete-matching", "delete-group", "delete-schedule",
        "remove-subscriber", "remove-alert-target", "end-silence", "cancel-job", "cancel-flow",
        "cancel-operation",
    }  # fmt: skip


class _Buttons(HTMLParser):
    """The buttons of actions on a page: names, fields and labels; and the title of the page."""

    def __init__(self, text):
        super().__init__()
        self.found, self.title = [], ""
        self._form, self._fields, self._open = "", {}, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        values = {name: value or "" for name, value in attributes}
        if tag == "form":
            self._form, self._fields = values.get("action", ""), {}
        elif tag == "input" and values.get("name"):
            self._fields.setdefault(values["name"], values.get("value", ""))
        elif tag == "a":
            address = urlsplit(values.get("href", ""))
            self._begin(address.path, dict(parse_qsl(address.query, errors="surrogateescape")))
        elif tag == "button":
            self._begin(values.get("formaction", self._form), self._fields)
        elif tag == "h1":
            self._open = ("h1", {}, [])

    def _begin(self, path, fields):
        if path.startswith("/actions/"):
            self._open = (path.removeprefix("/actions/"), fields, [])

    def handle_data(self, data):
        if self._open:
            self._open[2].append(data)

    def handle_endtag(self, tag):
        if tag in {"a", "button", "h1"} and self._open:
            name, fields, texts = self._open
            if name == "h1":
                self.title = "".join(texts)
            else:
                self.found.append((name, fields, "".join(texts).strip()))
            self._open = None


def _plant_states(server, ns):
    """Plant what has buttons and what ``Planting`` does not have."""
    with RSMQ.from_url(server.url, ns=ns) as queues, server.raw() as raw:
        namespace = queues.namespace
        queues.set_queue_limits("bodies", max_running=3)
        queues.schedules.pause("schedule")
        job = queues.send_message("jobs", "begins", track=True)
        raw.hset(namespace.queue("jobs").job(job), "worker", "w")
        for state in ("waiting", "paused"):
            arguments = {"destination": "bodies", "filter": ""}
            id, operation = begin_operation(
                namespace, OperationKind.REDRIVE, "dead", arguments, total=9, creator="", address=""
            )
            queues.run(operation)
            raw.hset(namespace.operation(id), "state", state)
        held = queues.receive_message("bodies", vt=600)
        now_ms = int(time.time() * 1000)
        for name, at_ms, paused in (("dies", -60_000, False), ("pauses", 600_000, True)):
            info = {"since_ms": 1, "host": "h", "pid": 7, "queues": {"bodies": 1}, "paused": paused}
            raw.hset(namespace.workers, name, f"{now_ms + at_ms}:token:{json.dumps(info)}")
            fields = {"": "token", held.id: f"{held.receive_count}:bodies"}
            raw.hset(namespace.held(name), mapping=fields)
    return job


def _actions_of(pages):
    """Return the fields of each button of the pages, by the name of the action and the label."""
    return {(name, label): fields for text in pages for name, fields, label in _Buttons(text).found}


def test_each_action_has_a_button_and_its_page_has_the_same_words(server, ns):
    names = Planting(server, ns).plant()
    job = _plant_states(server, ns)

    async def test(http):
        further = ("/workers/dies", "/workers/pauses", f"/queues/jobs/messages/{job}")
        starts = ["/", *page_paths(names), *further]
        pages = [
            reply.content.decode()
            async for path, reply in crawl(http, starts)
            if not path.startswith("/actions/") and "html" in reply.headers["content-type"]
        ]
        offered = _actions_of(pages)
        assert {name for name, _ in offered} == set(BY_NAME)
        for (name, label), fields in offered.items():
            action = BY_NAME[name]
            assert _words(action.label) <= _words(label), (name, label)
            shown = {k: v for k, v in fields.items() if k in {*action.path_names, *action.address}}
            query = urlencode(shown, errors="surrogateescape")
            reply = await http("GET", f"/actions/{name}?{query}")
            assert reply.status in {200, 404, 409}, (name, reply.content)
            if reply.status == 200:
                page = _Buttons(reply.content.decode())
                button = "Count them" if action.preview else action.label
                assert [each[2] for each in page.found if each[0] == name] == [button]
                assert _words(action.label) <= _words(page.title), (name, page.title)

    with_site(server, ns, test)
