"""The arguments of calls are those of the methods, with their ranges, and all faces have them."""

from __future__ import annotations

import inspect
from typing import get_args

import click
import pytest

from rsmq import AsyncRSMQ
from rsmq.cli.app.call import Call as Context
from rsmq.cli.app.errors import WORDS
from rsmq.cli.app.program import root
from rsmq.control.asyncio_ import AsyncWorkers
from rsmq.errors import InvalidFormat, InvalidValue
from rsmq.explain.alerts.record import FORMATS
from rsmq.history.call_records import CALL_SPANS
from rsmq.jobs.flows.status import FlowState
from rsmq.jobs.status import JobState
from rsmq.model import State
from rsmq.schedules.asyncio_ import AsyncSchedules
from rsmq.schedules.missed import Missed
from rsmq.vocabulary.calls import BY_NAME, CALLS, FACE_CALLS
from rsmq.vocabulary.queues import CREATE, LIMIT, POLICY, SET
from rsmq.vocabulary.sends import BATCH, PUBLISH, SCHEDULE, SEND, ValueKind
from rsmq.web.fields import Shape
from rsmq.web.routes import TABLE
from rsmq.web.send_fields import list_arguments
from rsmq.web.table import RawBody

CLASSES = {"": AsyncRSMQ, "schedules": AsyncSchedules, "workers": AsyncWorkers}
PAIRS = [(call, each) for call in CALLS for each in call.arguments]
OF_FACES = [*PAIRS, *((call, each) for call in FACE_CALLS for each in call.arguments)]


def with_pairs(pairs):
    names = [f"{call.name}-{each.name}" for call, each in pairs]
    return pytest.mark.parametrize(("call", "argument"), pairs, ids=names)


#: The arguments without a row, and why: they say what a call is about, or are of programs only.
WITHOUT_ROW = {
    "qname": "the queue", "qnames": "the queues", "queue": "the queue of a schedule",
    "name": "the name of a schedule or a worker", "id": "a message, a job or a flow",
    "message": "a message", "messages": "the messages", "ids": "the messages", "jobs": "the jobs",
    "body": "the body", "bodies": "the bodies", "codec": "an option for every command",
    "confirm": "a process that must know it uses a client", "definition": "code of a worker",
    "by": "the program does not know its user, and HTTP does",
}  # fmt: skip
#: What a handle has that a call returns, and the call not.
OF_HANDLES = {("flow", "timeout")}


def parameters_of(name):
    place, _, method = name.rpartition(".")
    return inspect.signature(getattr(CLASSES[place], method)).parameters


@pytest.mark.parametrize(
    "call", [each for each in CALLS if each.command and "trash" not in each.name],
    ids=lambda call: call.name,
)  # fmt: skip
def test_each_argument_of_a_method_has_a_row(call):
    tables = (SEND, BATCH, PUBLISH, CREATE, SET, LIMIT, POLICY)
    known = {name for each in tables if each.name == call.name for name in each.options}
    if call.name == SCHEDULE.name:
        known = set(SCHEDULE.options)
    rows = {each.name for each in call.arguments if (call.name, each.name) not in OF_HANDLES}
    names = set(parameters_of(call.name)) - {"self"}
    redriven = {"dead_letter_queue"} if call.name == "redrive_messages" else set()
    assert rows <= names
    assert names - rows - known - redriven <= WITHOUT_ROW.keys()


@with_pairs(OF_FACES)
def test_a_command_has_the_option_of_an_argument(call, argument):
    if argument.option is None or not call.command:
        return
    command, context = root, click.Context(root, obj=Context())
    for word in call.command.split():
        command = command.get_command(context, word)
    options = {name: each for each in command.params for name in each.opts}
    option = options[argument.option_name]
    words = " ".join((option.help or "").split())
    assert argument.text.partition("{")[0] in words or call.name.startswith("workers.")
    if argument.choices:
        assert tuple(option.type.choices) == argument.choices


@with_pairs(OF_FACES)
def test_a_route_has_the_field_of_an_argument(call, argument):
    if argument.field is None or not call.route:
        return
    fields = [
        field
        for route in TABLE
        if call.route == f"{route.method} {route.path}"
        or (call.name in route.calls and route.method == call.route.split()[0])
        for field in (*route.query, *(() if isinstance(route.body, RawBody) else route.body))
        if field.name == argument.field_name
    ]
    assert fields
    [made] = [each for each in list_arguments(call.name) if each.name == argument.field_name]
    assert all(each == made for each in fields)


CHOICES = {
    "peek_messages": get_args(State),
    "jobs": tuple(each.value for each in JobState),
    "flows": tuple(each.value for each in FlowState),
    "task_figures": tuple(CALL_SPANS),
    "schedules.add": get_args(Missed),
    "alerts.add": tuple(FORMATS),
}


def test_the_values_of_texts_are_those_of_the_methods():
    assert {call.name: each.choices for call, each in OF_FACES if each.choices} == CHOICES


@with_pairs(PAIRS)
def test_a_default_is_that_of_the_method_or_says_why_not(call, argument):
    parameter = parameters_of(call.name).get(argument.name)
    if parameter is None or argument.default is None:
        return
    # A person wants a part of a long list; a method without a default needs the number.
    of_people = {"max_jobs"}
    if parameter.default is not inspect.Parameter.empty and argument.name not in of_people:
        assert parameter.default == argument.default or not (parameter.default or argument.default)


REQUIRED = {
    "qname": "q", "qnames": ["q"], "name": "n", "id": "a" * 32, "message": "q", "messages": "q",
    "dead_letter_queue": "dead", "max_messages": 1, "body": "", "bodies": [""], "queue": "q",
    "idle": 1, "text": "v1", "ids": ["a" * 32], "vt": 1, "destination": "r", "every": 1,
    "concurrency": 1, "max_receives": 1,
}  # fmt: skip


def call_with(queues, call, argument, value):
    """Call a method with a value of an argument, and with those that it needs beside it."""
    place, _, method = call.name.rpartition(".")
    owner = getattr(queues, place) if place else queues
    arguments = {
        name: REQUIRED[name]
        for name, each in parameters_of(call.name).items()
        if name not in {"self", argument.name}
        and (each.default is inspect.Parameter.empty or name in {"every", "id", "ids", "vt"})
        and not (name == "every" and argument.name == "cron")
    }
    by_position = [
        arguments.pop(name)
        for name, each in parameters_of(call.name).items()
        if each.kind is each.POSITIONAL_ONLY and name in arguments
    ]
    return getattr(owner, method)(*by_position, **arguments, **{argument.name: value})


NUMBERS = [
    pair for pair in PAIRS
    if pair[1].high is not None and pair[1].kind is not ValueKind.LABEL
    # They are checked by wait_for_jobs and by the faces.
    and pair[1].name not in {"timeout", "start"}
]  # fmt: skip


@with_pairs(NUMBERS)
async def test_the_range_of_an_argument_is_that_of_its_method(call, argument):
    async with AsyncRSMQ.from_url("memory://") as queues:
        await queues.create_queue("q")
        for value in (argument.low - 1, argument.high + 1):
            with pytest.raises(InvalidValue) as refused:
                await call_with(queues, call, argument, value)
            assert refused.value.argument == argument.name
            assert refused.value.range == (argument.low, argument.high)


@pytest.mark.parametrize("name", [name for name in CHOICES if "." not in name])
async def test_another_text_than_those_of_the_row_is_refused(name):
    [argument] = [each for each in BY_NAME[name].arguments if each.choices]
    async with AsyncRSMQ.from_url("memory://") as queues:
        await queues.create_queue("q")
        with pytest.raises(InvalidFormat) as refused:
            await call_with(queues, BY_NAME[name], argument, "none of these")
        assert refused.value.argument == argument.name


def test_errors_name_arguments_as_the_program_has_them():
    assert WORDS.argument("max_flows") == "-n"
    assert WORDS.argument("destination") == "--to"
    assert WORDS.argument("wait") == "--wait"


def test_a_field_reads_its_default():
    number, *_ = list_arguments("recover_messages")[1:]
    assert (number.kind, number.read({}), number.read({"max": 7})) == (Shape.WHOLE, 1, 7)
