"""The table of calls has each call of the clients, of HTTP and of the program, or says why not."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import get_args

import click
import pytest

from rsmq import AsyncRSMQ, cli
from rsmq.cli.app.call import Call as Context
from rsmq.cli.app.command_table import COMMANDS
from rsmq.cli.app.program import root
from rsmq.control.asyncio_ import AsyncWorkers
from rsmq.model import State
from rsmq.schedules.asyncio_ import AsyncSchedules
from rsmq.trash.asyncio_ import AsyncTrash
from rsmq.vocabulary.calls import BY_NAME, CALLS, FACE_CALLS, Outcome, User
from rsmq.vocabulary.queues import QUEUE_ATTRIBUTES
from rsmq.vocabulary.sends import SEND
from rsmq.web.routes import TABLE

DOCS = Path(__file__).parents[2] / "docs"
ONE_CALLS = [each for each in CALLS if each.one_call]


def find_methods(cls, prefix=""):
    return {
        prefix + name: member
        for name, member in inspect.getmembers(cls, inspect.isroutine)
        if not name.startswith("_")
    }


METHODS = {
    **find_methods(AsyncRSMQ),
    **find_methods(AsyncSchedules, "schedules."),
    **find_methods(AsyncTrash, "trash."),
    **find_methods(AsyncWorkers, "workers."),
}


def find_command(path):
    command, context = root, click.Context(root, obj=Context())
    for word in path.split():
        if word.startswith("-"):
            assert any(word in each.opts for each in command.params), path
        else:
            command = command.get_command(context, word)
            assert command is not None, path
    return command


def read_section(page, heading):
    text = (DOCS / page).read_text()
    return text.partition(f"\n{heading}\n")[2].partition("\n#")[0]


def test_each_method_of_the_clients_has_a_row():
    assert {each.name for each in CALLS} == METHODS.keys()
    assert len(BY_NAME) == len(CALLS) + len(FACE_CALLS)


def test_a_row_says_why_a_face_has_no_such_call():
    for each in CALLS:
        assert bool(each.command and each.route) is not bool(each.why_not), each.name


def test_what_no_client_has_is_in_a_row_that_says_why():
    own = {f"{each.method} {each.path}" for each in TABLE if not each.calls}
    assert sorted(each.route for each in FACE_CALLS if each.route) == sorted(own)
    commands = {each.command.split()[0] for each in (*CALLS, *FACE_CALLS) if each.command}
    assert commands == COMMANDS.keys()
    for each in FACE_CALLS:
        assert each.why_not
        if each.command:
            find_command(each.command)


def test_each_command_of_alerts_and_subscribers_has_a_row():
    for group in ("alerts", "subscribers"):
        rows = {each.command for each in FACE_CALLS if each.command.startswith(f"{group} ")}
        assert rows == {f"{group} {name}" for name in find_command(group).commands}


def test_the_options_of_push_that_change_targets_are_calls_of_http():
    routes = {each.command: each.route for each in FACE_CALLS if each.command.startswith("push ")}
    assert routes == {
        "push --resume": "POST /webhooks:resume", "push --remove": "POST /webhooks:forget",
    }  # fmt: skip


def test_no_call_that_changes_something_is_only_for_pages_to_show():
    shown = "what a page of the dashboard shows"
    of_pages = [each.route for each in FACE_CALLS if each.why_not == shown]
    assert of_pages
    assert all(each.startswith("GET ") for each in of_pages)


def test_each_route_is_that_of_its_calls():
    routes = {f"{each.method} {each.path}": each.calls for each in TABLE}
    for each in CALLS:
        if each.route:
            assert each.name in routes[each.route], each.name
    assert {name for calls in routes.values() for name in calls} == {
        each.name for each in CALLS if each.route
    }


def test_each_command_exists_and_calls_its_methods():
    program = Path(cli.__file__).parent
    text = "".join(path.read_text() for path in program.rglob("*.py"))
    called = {name for each in ONE_CALLS for name in (each.name, each.one_call.for_all)}
    called |= {f"trash.{each.name}" for each in ONE_CALLS if each.one_call.asks}
    for each in CALLS:
        if not each.command:
            continue
        find_command(each.command)
        of_several = each.name.replace("message", "messages", 1)  # it may call this instead
        if not {each.name, of_several} & called:
            method = re.sub("messages?", "messages?", each.name)
            assert re.search(rf"\b(rsmq|queues)\.{method}\b", text), each.name


#: The arguments of methods under other names in the program.
OF_PROGRAM = {
    "qname": {"queue", "queues"}, "qnames": {"queues"}, "name": {"names"}, "id": {"ids"},
    "message": {"ids"}, "messages": {"ids"}, "body": {"bodies"}, "dead_letter_queue": {"queue"},
    "max_messages": {"number"}, "max_jobs": {"count"},
    "max_flows": {"count"}, "start": {"last"}, "jobs": {"id"}, "timeout": {"wait"},
    "text": {"name"},
}  # fmt: skip
#: The arguments that no command has, and why.
NOT_IN_PROGRAM = {
    "codec": "--codec is an option for every command",
    "confirm": "a process that must know it uses a client",
    "by": "the program does not know its user",
    "end": "rsmq history ends now",
}


@pytest.mark.parametrize(
    "call", [each for each in CALLS if each.command], ids=lambda call: call.name
)
def test_a_command_has_each_argument_of_its_method(call):
    command = find_command(call.command)
    own = {each.name for each in command.params}
    method = METHODS[call.name]
    singular = {f"{name}s": {name} for name in SEND.options}  # the same for each message
    for name in inspect.signature(method).parameters.keys() - {"self"} - NOT_IN_PROGRAM.keys():
        assert own & {name, *OF_PROGRAM.get(name, ()), *singular.get(name, ())}, name


def test_no_reason_is_given_for_an_argument_that_a_command_has():
    names = {name for each in METHODS.values() for name in inspect.signature(each).parameters}
    assert NOT_IN_PROGRAM.keys() | OF_PROGRAM.keys() <= names


@pytest.mark.parametrize("call", ONE_CALLS, ids=lambda call: call.name)
def test_a_command_of_one_call_has_the_arguments_of_the_method(call):
    row = call.one_call
    command = find_command(call.command)
    assert command.help.startswith(f"{row.summary}\n")
    assert command.examples == row.examples
    parameters = inspect.signature(METHODS[call.name]).parameters
    passed = [each for each in command.params if each.expose_value]
    options = [each for each in passed if isinstance(each, click.Option)]
    flags = {"all_of_them"} if row.for_all else {"yes", "undo"} if row.asks else set()
    flags |= {"remove"} if row.phrases else set()
    named = set(re.findall(r"\{(\w+)", " ".join(row.phrases)))
    assert named <= {each.name for each in QUEUE_ATTRIBUTES} & parameters.keys()
    if row.outcome in {Outcome.RECEIVED, Outcome.POPPED, Outcome.STORED}:
        flags = {"raw", "no_newline", "null"}
    assert {each.name for each in options} - flags <= parameters.keys()
    for each in options:
        if isinstance(each.type, click.Choice) and not row.of_call:
            assert tuple(each.type.choices) == get_args(State)
        if each.name in flags or parameters[each.name].default is inspect.Parameter.empty:
            continue
        unset = False if each.is_flag else None
        default = each.default if isinstance(each.default, str | bool) else unset
        assert each.required or str(parameters[each.name].default) == str(default)
    arguments = {each.name for each in passed if each not in options}
    assert arguments - named <= {"queue", "queues", "name", "names", "ids"}
    if row.outcome in {Outcome.OF_QUEUES, Outcome.OF_NEW_QUEUES, Outcome.OF_NAMES}:
        assert row.word
        assert row.otherwise or row.asks


def test_the_table_of_the_program_in_the_docs_has_the_methods_of_each_command():
    section = read_section("command-line.md", "## Commands")
    listed = {}
    for commands, methods in re.findall(r"^\| (`.*?) \| .* \| (.*?) ?\|$", section, re.MULTILINE):
        for command in re.findall(r"`(\S+)`", commands):
            listed[command] = set(re.findall(r"`(\w+)`", methods))
    rows = {}
    for each in CALLS:
        if each.command:
            command, *_ = each.command.split()
            rows.setdefault(command, set()).add(each.name.partition(".")[0])
    aliases = {alias for alias in listed if alias not in rows}
    for command, methods in rows.items():
        # The method for one message has a row of its own, and the command calls that for several.
        of_several = {name for name in methods if re.sub("message$", "messages", name) in BY_NAME}
        assert methods - of_several <= listed[command] | {"trash"}, command
        assert listed[command] & BY_NAME.keys() <= set(BY_NAME), command
    assert not {name for alias in aliases for name in listed[alias]} & rows.keys()


def test_the_docs_list_who_may_call_what():
    section = read_section("security.md", "## Rights of a user")
    producer, consumer = re.search(
        r"A producer may call (.*?)\. A consumer may (.*?)\. All other", section
    ).groups()

    assert set(re.findall(r"`(\w+)`", producer)) == {
        each.name for each in CALLS if each.user is User.PRODUCER
    }
    words = {"receive", "pop", "delete", "release", "visibility", "get"}
    assert {
        next((word for word in words if word in each.name), each.name)
        for each in CALLS
        if each.user is User.CONSUMER
    } == words | {"consume", "processing"}
    assert all(word in consumer for word in words)


def test_the_docs_list_the_further_rights_of_commands():
    section = read_section("security.md", "### Rights of commands")
    listed = {
        command: rights
        for commands, rights in re.findall(r"^\| (`.*?) \| `(.*?)` \|$", section, re.MULTILINE)
        for command in re.findall(r"`(.*?)`", commands)
    }
    for each in CALLS:
        if each.further:
            assert listed[each.command] == each.further
