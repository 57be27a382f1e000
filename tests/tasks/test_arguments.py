"""The arguments of tasks: how they are stored, and which are refused when the task is sent."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import sys
import uuid
from typing import Annotated, Any, TypedDict

import pydantic
import pytest
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from rsmq import InvalidFormat, MessageNotString
from rsmq.headers import use_headers


class Colour(enum.Enum):
    RED = "red"


class Order(pydantic.BaseModel):
    number: int
    lines: list[str] = []


class Strict(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: dt.datetime


@dataclasses.dataclass
class Point:
    x: float
    y: float = 0.0


@pytest.fixture(params=["pydantic", "plain"])
def checker(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.delitem(sys.modules, "rsmq.tasks.pydantic_arguments", raising=False)
        monkeypatch.setitem(sys.modules, "pydantic", None)
    return request.param


VALUES = [
    (int, 17, "17"),
    (float, 1.5, "1.5"),
    (str | None, None, "null"),
    (list[int], [1, 2], "[1,2]"),
    (dict[str, float], {"a": 1.5}, '{"a":1.5}'),
    (Point, Point(1.0), '{"x":1.0,"y":0.0}'),
]
PYDANTIC_VALUES = [
    (Order, Order(number=1, lines=["a"]), '{"number":1,"lines":["a"]}'),
    (
        dt.datetime,
        dt.datetime(2026, 1, 2, 3, tzinfo=dt.UTC),
        '"2026-01-02T03:00:00Z"',
    ),
    (uuid.UUID, uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
    (decimal.Decimal, decimal.Decimal("1.10"), '"1.10"'),
    (Colour, Colour.RED, '"red"'),
    (bytes, b"text", '"text"'),
    (tuple[int, str], (1, "a"), '[1,"a"]'),
    (set[int], {1}, "[1]"),
    (dt.timedelta, dt.timedelta(seconds=90), '"PT1M30S"'),
    (Strict, Strict(at=dt.datetime(2026, 1, 2, tzinfo=dt.UTC)), '{"at":"2026-01-02T00:00:00Z"}'),
    (list[Order | Point], [Point(1.0)], '[{"x":1.0,"y":0.0}]'),
]


def send_and_run(tasks, raw, annotation, value):
    """Return the body of a task with one argument, and the argument that the function received."""
    received = []

    def function(value):
        received.append(value)

    function.__annotations__ = {"value": annotation}
    tasks.task(queue="q", name="t")(function).send(value)
    [body] = raw("q")
    tasks.run_all()
    return body, received


@pytest.mark.parametrize(("annotation", "value", "stored"), VALUES)
def test_an_argument_is_plain_json_and_arrives_as_it_was(
    tasks, raw, checker, annotation, value, stored
):
    body, received = send_and_run(tasks, raw, annotation, value)

    assert body == '{"task":"t","args":{"value":' + stored + "}}"
    assert received == [value]
    assert type(received[0]) is type(value)


@pytest.mark.parametrize(("annotation", "value", "stored"), PYDANTIC_VALUES)
def test_with_pydantic_its_types_arrive_as_they_were(tasks, raw, annotation, value, stored):
    body, received = send_and_run(tasks, raw, annotation, value)

    assert body == '{"task":"t","args":{"value":' + stored + "}}"
    assert received == [value]
    assert type(received[0]) is type(value)


def test_positional_arguments_get_their_names_and_defaults_are_left_to_the_worker(tasks, raw):
    @tasks.task(queue="q", name="t")
    def task(a: int, b: int = 2, *, c: int = 3, **rest: int) -> None: ...

    task.send(1)
    task.send(1, 5, c=6, d=7)

    assert raw("q") == [
        '{"task":"t","args":{"a":1}}',
        '{"task":"t","args":{"a":1,"b":5,"c":6,"d":7}}',
    ]


@pytest.mark.parametrize(
    ("args", "kwargs", "rule"),
    [
        ((), {}, "missing a required argument: 'a'"),
        ((1, 2), {}, "too many positional arguments"),
        ((1,), {"a": 1}, "multiple values for argument 'a'"),
        ((1,), {"x": 1}, "got an unexpected keyword argument 'x'"),
    ],
)
def test_a_call_that_does_not_fit_is_refused_at_the_send(tasks, checker, args, kwargs, rule):
    @tasks.task(queue="q", name="app.t")
    def task(a: int) -> None: ...

    with pytest.raises(InvalidFormat) as refused:
        task.send(*args, **kwargs)

    assert str(refused.value) == (
        f"Invalid arguments format: app.t. {rule}; its parameters are (a: 'int') -> 'None'"
    )
    assert tasks.client.list_queues() == []


NO_INTEGER = "Input should be a valid integer, unable to parse string as an integer"


@pytest.mark.parametrize(
    ("annotation", "value", "with_pydantic", "plain"),
    [
        (int, "secret", f"a is not valid, int_parsing ({NO_INTEGER})", "a must be int"),
        (list[int], ["secret"], f"a is not valid, int_parsing ({NO_INTEGER})", "a must be int"),
        (
            Point,
            {"x": "secret"},
            (
                "a is not valid, x: float_parsing (Input should be a valid number, unable to parse "
                "string as a number)"
            ),
            "Pass an object of Point",
        ),
    ],
)
def test_the_refusal_of_a_value_names_the_argument_and_never_the_value(
    tasks, checker, annotation, value, with_pydantic, plain
):
    def task(a): ...

    task.__annotations__ = {"a": annotation}
    task = tasks.task(queue="q", name="app.t")(task)
    with pytest.raises(InvalidFormat) as refused:
        task.send(value)

    rule = plain if checker == "plain" else with_pydantic
    assert str(refused.value) == f"Invalid arguments format: app.t. {rule}"
    assert refused.value.__cause__ is None
    assert tasks.client.list_queues() == []


def test_a_value_that_would_lose_a_part_is_refused(tasks):
    class Special(Order):
        extra: int

    @tasks.task(queue="q", name="app.t")
    def task(order: Order) -> None: ...

    broken = Order.model_construct(number="x")
    with pytest.raises(InvalidFormat, match="order can't be stored as JSON"):
        task.send(broken)
    with pytest.raises(InvalidFormat, match="order would arrive as Order"):
        task.send(Special(number=1, extra=2))
    assert tasks.client.list_queues() == []


def test_an_argument_without_annotation_is_a_value_of_json(tasks, raw, checker):
    @tasks.task(queue="q", name="app.t")
    def task(a) -> None: ...

    task.send({"a": [1, None, (True, 2.5)]})
    assert raw("q") == ['{"task":"app.t","args":{"a":{"a":[1,null,[true,2.5]]}}}']


RECURSIVE: list[Any] = []
RECURSIVE.append(RECURSIVE)


@pytest.mark.parametrize("annotation", [None, Any, dict[str, Any], list[Any] | None])
@pytest.mark.parametrize(
    ("value", "rule"),
    [
        (float("nan"), "has a float that is not finite, which JSON does not have"),
        (float("-inf"), "has a float that is not finite, which JSON does not have"),
        ({1, 2}, "is or has a value of type set, which JSON does not have"),
        (b"x", "is or has a value of type bytes, which JSON does not have"),
        (
            dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            "is or has a value of type datetime, which JSON does not have",
        ),
        (Point(1.0), "is or has a value of type Point, which JSON does not have"),
        (object(), "is or has a value of type object, which JSON does not have"),
        ({1: 2}, "has a dict with a key of type int: in JSON all are str"),
        (RECURSIVE, "contains itself, or is too deep"),
    ],
)
def test_a_value_that_is_not_of_json_is_refused_by_a_parameter_that_takes_any(
    tasks, checker, annotation, value, rule
):
    def task(a) -> None: ...

    if annotation is not None:
        task.__annotations__ = {"a": annotation}
        value = {"key": value} if annotation == dict[str, Any] else [value]
    task = tasks.task(queue="q", name="app.t")(task)
    with pytest.raises(InvalidFormat) as refused:
        task.send(value)
    assert str(refused.value).startswith("Invalid arguments format: app.t. a ")
    assert rule in str(refused.value)
    assert tasks.client.list_queues() == []


@pytest.mark.parametrize("annotation", [Annotated[Any, "a note"], tuple[Any, ...], tuple])
def test_a_note_or_a_tuple_around_any_changes_no_value(tasks, annotation):
    def task(a) -> None: ...

    task.__annotations__ = {"a": annotation}
    task = tasks.task(queue="q", name="app.t")(task)
    for value in (float("nan"), {1}, b"x"):
        with pytest.raises(InvalidFormat, match=r"app\.t\. a (has a float|is or has a)"):
            task.send((value,))
    assert tasks.client.list_queues() == []


def test_a_serializer_and_a_validator_around_any_may_store_what_json_does_not_have(tasks, raw):
    def task(a) -> None: ...

    task.__annotations__ = {
        "a": Annotated[Any, pydantic.PlainSerializer(list), pydantic.AfterValidator(set)]
    }
    tasks.task(queue="q", name="app.t")(task).send({1})
    assert raw("q") == ['{"task":"app.t","args":{"a":[1]}}']


@pytest.mark.parametrize("annotation", [float, float | None, list[float]])
def test_a_float_that_json_does_not_have_is_refused(tasks, checker, annotation):
    def task(a) -> None: ...

    task.__annotations__ = {"a": annotation}
    task = tasks.task(queue="q", name="app.t")(task)
    for value in (float("nan"), float("inf")):
        with pytest.raises(InvalidFormat, match=r"app\.t\. a has a float that is not finite"):
            task.send([value] if annotation == list[float] else value)
    assert tasks.client.list_queues() == []


def refuse(value):
    raise ValueError(f"{value} is secret")


def test_a_rule_has_its_bound_and_never_a_value_of_a_validator(tasks):
    @tasks.task(queue="q", name="app.t")
    def task(
        a: Annotated[int, pydantic.Field(gt=7)], b: Annotated[str, AfterValidator(refuse)] = ""
    ) -> None: ...

    with pytest.raises(InvalidFormat, match=r"greater_than \(Input should be greater than 7\)"):
        task.send(3)
    with pytest.raises(InvalidFormat) as refused:
        task.send(8, "word")
    assert str(refused.value).endswith("b is not valid, value_error")


def refuse_as_pydantic(value):
    raise PydanticCustomError("greater_than", "{value} is secret", {"value": value})


def test_the_text_of_a_validator_is_not_shown_if_it_uses_a_type_of_pydantic(tasks):
    @tasks.task(queue="q", name="app.t")
    def task(a: Annotated[str, AfterValidator(refuse_as_pydantic)]) -> None: ...

    with pytest.raises(InvalidFormat) as refused:
        task.send("word")
    assert str(refused.value).endswith("a is not valid, greater_than")


def test_an_annotation_that_can_not_be_stored_is_refused_with_the_remedy(tasks, checker):
    class Session: ...

    def task(session): ...

    task.__annotations__ = {"session": Session}
    task = tasks.task(queue="q", name="app.t")(task)
    for call in (lambda: task.send(Session()), tasks.worker):
        with pytest.raises(InvalidFormat, match=r"session: Session, of task app\.t\. "):
            call()


def test_an_annotation_that_is_missing_at_run_time_is_refused_with_the_remedy(tasks):
    @tasks.task(queue="q", name="app.t")
    def task(a: Missing) -> None: ...  # noqa: F821

    with pytest.raises(InvalidFormat, match="at the top of the module, outside of TYPE_CHECKING"):
        task.send(1)


@pytest.mark.parametrize("function", [lambda *args: None, eval("lambda a, /: None")])
def test_a_parameter_without_a_name_is_refused_at_the_declaration(tasks, function):
    with pytest.raises(InvalidFormat, match="the body has arguments by name"):
        tasks.task(queue="q", name="t")(function)


SURROGATE = "secret\ud800"


class Note(pydantic.BaseModel):
    anything: Any = None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (str, SURROGATE),
        (list[str], [SURROGATE]),
        (None, SURROGATE),
        (None, {"a": {SURROGATE: 1}}),
        (str, "\udc80"),
    ],
)
def test_a_lone_surrogate_is_refused_by_name(tasks, checker, annotation, value):
    def task(a): ...

    if annotation is not None:
        task.__annotations__ = {"a": annotation}
    task = tasks.task(queue="q", name="app.t")(task)
    with pytest.raises(InvalidFormat) as refused:
        task.send(value)

    assert "app.t. a has a str with a lone surrogate, which UTF-8 can't" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert tasks.client.list_queues() == []


def test_a_lone_surrogate_in_a_model_or_of_another_program_is_refused_too(tasks):
    @tasks.task(queue="q", name="app.t")
    def task(a: Note | str) -> None: ...

    with pytest.raises(InvalidFormat, match="a has a str with a lone surrogate"):
        task.send(Note(anything=SURROGATE))
    tasks.client.create_queue("q")
    tasks.client.send_message("q", r'{"task":"app.t","args":{"a":"\ud800"}}')
    tasks.run_all()
    [dead] = tasks.client.peek_messages("q-dead")
    assert "task app.t: a has a str with a lone surrogate" in dead.reason.text


def test_a_header_with_a_lone_surrogate_does_not_show_the_object_of_the_codec(tasks):
    @tasks.task(queue="q", name="app.t")
    def task() -> None: ...

    with (
        use_headers({"tenant": SURROGATE}),
        pytest.raises(MessageNotString, match="the JSON of a task can't encode dict"),
    ):
        task.send()


class Place(TypedDict):
    name: str


def test_a_typed_dict_arrives_or_is_refused_with_the_import_that_works(tasks, raw):
    def task(a): ...

    task.__annotations__ = {"a": Place}
    task = tasks.task(queue="q", name="app.t")(task)
    if sys.version_info >= (3, 12):
        task.send({"name": "sea"})
        assert raw("q") == ['{"task":"app.t","args":{"a":{"name":"sea"}}}']
        return
    with pytest.raises(InvalidFormat, match="import TypedDict from typing_extensions, not typing"):
        task.send({"name": "sea"})
