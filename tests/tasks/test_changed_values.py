"""A value is sent only if it arrives as it is: no part of it is lost or changed in silence."""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import re
import sys
import types
import uuid
import zoneinfo
from typing import Annotated, Any, NamedTuple

import pydantic
import pytest
from pydantic import AfterValidator, BeforeValidator, PlainSerializer, SecretStr, SerializeAsAny

from rsmq import InvalidFormat
from rsmq.errors import JobFailed
from tests.scale import WAIT_SECONDS


class Base(pydantic.BaseModel):
    a: int


class Sub(Base):
    b: int = 2


class Cart(pydantic.BaseModel):
    first: Base
    rest: list[Base] = []


class Hidden(pydantic.BaseModel):
    shown: int = 1
    secret: SecretStr | None = None
    internal: int = pydantic.Field(0, exclude=True)
    anything: Any = None
    _private: int = pydantic.PrivateAttr(default=0)

    def __eq__(self, other: object) -> bool:  # says less than is sent
        return isinstance(other, Hidden)

    __hash__ = None


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")


@dataclasses.dataclass
class Counted:
    x: int
    made: int = dataclasses.field(init=False, default=0, compare=False)


@dataclasses.dataclass
class Box:
    inner: Base


class Doubled(pydantic.BaseModel):
    x: int

    @pydantic.field_validator("x")
    @classmethod
    def double(cls, value: int) -> int:
        return 2 * value


class Pair(NamedTuple):
    a: int
    b: Base


class Money:
    """A class of another library, without a rule for equality."""

    def __init__(self, cents: int, note: str = "") -> None:
        self.cents, self.note = cents, note

    @classmethod
    def __get_pydantic_core_schema__(cls, source, handler):
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            lambda value: value if isinstance(value, cls) else cls(value),
            serialization=core_schema.plain_serializer_function_ser_schema(lambda it: it.cents),
        )


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 6


def make_counted() -> Counted:
    counted = Counted(1)
    counted.made = 5
    return counted


def make_private() -> Hidden:
    hidden = Hidden()
    hidden._private = 5
    return hidden


def times_100(value: int) -> int:
    return value * 100


def split(value: Any) -> list[str]:
    return value.split(",")  # a list has no split: the worker can't validate it again


CHANGED = [
    (SecretStr, SecretStr("word"), "a would arrive changed"),
    (list[SecretStr], ["word"], "a would arrive with an item changed"),
    (Base, Sub(a=1), "a would arrive as Base"),
    (list[Base], [Base(a=1), Sub(a=1)], "a would arrive with an item as Base"),
    (dict[str, Base], {"key": Sub(a=1)}, "a would arrive with an item as Base"),
    (SerializeAsAny[Base], Sub(a=1), "a would arrive as Base"),
    (Cart, Cart(first=Sub(a=1)), "a would arrive with Cart.first as Base"),
    (list[Cart], [Cart(first=Base(a=1), rest=[Sub(a=1)])], "with an item as Base"),
    (Box, Box(Sub(a=1)), "a would arrive with Box.inner as Base"),
    (Pair, Pair(1, Sub(a=1)), "a would arrive with an item as Base"),
    (Hidden, Hidden(secret="word"), "a would arrive with Hidden.secret changed"),
    (Hidden, Hidden(internal=3), "a would arrive with Hidden.internal changed"),
    (Hidden, make_private(), "a would arrive with Hidden._private changed"),
    (Hidden, Hidden(anything={1}), "a would arrive with Hidden.anything as list"),
    (Hidden, Hidden(anything=float("nan")), "a would arrive with Hidden.anything as NoneType"),
    (Hidden, Hidden(anything=Colour.RED), "a would arrive with Hidden.anything as str"),
    (Hidden, Hidden(anything={None: 1}), "a would arrive with an item as str"),
    (Open, Open(at=dt.date(2026, 1, 1)), "a would arrive with Open.at as str"),
    (Counted, make_counted(), "a would arrive with Counted.made changed"),
    (Doubled, Doubled(x=5), "a would arrive with Doubled.x changed"),
    (Annotated[int, AfterValidator(times_100)], 5, "a would arrive changed"),
    (Annotated[float, PlainSerializer(round)], 1.5, "a would arrive changed"),
    (dict[str | None, int], {None: 1}, "a would arrive with an item as str"),
    (dt.datetime | str, "2026-01-01T00:00:00", "a would arrive as datetime"),
    (uuid.UUID | str, str(uuid.UUID(int=1)), "a would arrive as UUID"),
    (re.Pattern, re.compile("a", re.IGNORECASE), "a would arrive changed"),
    (dict[int | str, int], {1: 1, "1": 2}, "a would arrive changed"),
    (Money, Money(5, "tip"), "a would arrive with Money.note changed"),
    (
        Annotated[list[str], BeforeValidator(split)],
        "b,c",
        "a can't be read from its JSON: a validator raises AttributeError",
    ),
]


@pytest.mark.parametrize(("annotation", "value", "rule"), CHANGED)
def test_a_value_that_would_arrive_changed_is_refused_at_the_send(tasks, annotation, value, rule):
    def task(a): ...

    task.__annotations__ = {"a": annotation}
    task = tasks.task(queue="q", name="app.t")(task)
    with pytest.raises(InvalidFormat) as refused:
        task.send(value)

    assert rule in str(refused.value)
    assert "word" not in str(refused.value)
    assert "tip" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert tasks.client.list_queues() == []


@pytest.mark.parametrize(
    ("annotation", "value"),
    [(SecretStr, SecretStr("word")), (list[Base], [Sub(a=1)]), (Doubled, Doubled(x=5))],
)
def test_a_result_that_would_arrive_changed_is_a_dead_letter_with_the_reason(
    tasks, annotation, value
):
    def task():
        return value

    task.__annotations__ = {"return": annotation}
    task = tasks.task(queue="q", name="app.t", track=True)(task)
    job = task.send()
    tasks.run_all()

    with pytest.raises(
        JobFailed, match=r"the result of task app\.t can't be stored: .* would arrive"
    ):
        job.result(timeout=WAIT_SECONDS)
    [dead] = tasks.client.peek_messages("q-dead")
    assert "word" not in dead.reason.text


BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
ARRIVING = [
    (Cart, Cart(first=Base(a=1), rest=[Base(a=2)])),
    (Hidden, Hidden()),
    (Open, Open(at="now")),
    (Counted, Counted(1)),
    (Annotated[str, AfterValidator(str.strip)], " a "),
    (dict[int, list[set[str]]], {1: [{"a"}]}),
    (collections.deque[int], collections.deque([1, 2])),
    (frozenset[Level], frozenset({Level.HIGH})),
    (Money, Money(5)),
    (list[Base | None], [Base(a=1), None]),
    (collections.abc.Mapping[str, int], types.MappingProxyType({"a": 1})),
    (collections.abc.Sequence[int], range(3)),
    (collections.abc.Set[int], frozenset({1})),
    (collections.OrderedDict[str, int], collections.OrderedDict(a=1)),
    (collections.Counter[str], collections.Counter("aab")),
]


@pytest.mark.parametrize(("annotation", "value"), ARRIVING)
def test_a_value_that_its_json_restores_is_sent(tasks, annotation, value):
    received = []

    def task(a):
        received.append(a)

    task.__annotations__ = {"a": annotation}
    tasks.task(queue="q", name="app.t")(task).send(value)
    tasks.run_all()

    [arrived] = received
    expected = {str: str.strip, range: list, types.MappingProxyType: dict}.get(
        type(value), lambda same: same
    )(value)
    assert type(arrived) is type(expected) or isinstance(expected, frozenset)
    assert arrived == expected or arrived.__dict__ == expected.__dict__


def test_a_datetime_arrives_with_its_offset_also_in_an_hour_that_is_repeated(tasks):
    received = []

    @tasks.task(queue="q", name="app.t")
    def task(a: dt.datetime) -> None:
        received.append(a)

    sent = [dt.datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold) for fold in (0, 1)]
    for each in sent:
        task.send(each)
    tasks.run_all()

    assert sorted(each.utcoffset() for each in received) == sorted(
        each.utcoffset() for each in sent
    )


def test_a_tuple_arrives_as_a_list_where_json_is_all_that_is_known(tasks, raw):
    @tasks.task(queue="q", name="app.t")
    def task(a: Hidden) -> None: ...

    task.send(Hidden(anything=(1, (2, Level.HIGH))))
    assert '"anything":[1,[2,6]]' in raw("q")[0]


@dataclasses.dataclass
class Scaled:
    x: int

    def __post_init__(self) -> None:
        self.x *= 100


def test_without_pydantic_a_dataclass_that_would_arrive_changed_is_refused(tasks, monkeypatch):
    monkeypatch.delitem(sys.modules, "rsmq.tasks.pydantic_arguments", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic", None)

    def task(a): ...

    task.__annotations__ = {"a": Scaled}
    task = tasks.task(queue="q", name="app.t")(task)
    with pytest.raises(InvalidFormat, match=r"a would arrive with Scaled\.x changed"):
        task.send(Scaled(5))
    assert tasks.client.list_queues() == []


@pytest.mark.parametrize("annotation", [None, Any, dict[str, Any], dict])
def test_the_key_none_is_not_one_of_json(tasks, annotation):
    def task(a): ...

    if annotation is not None:
        task.__annotations__ = {"a": annotation}
    task = tasks.task(queue="q", name="app.t")(task)
    with pytest.raises(InvalidFormat, match="has a dict with a key of type NoneType"):
        task.send({"a": {None: 1}})
    assert tasks.client.list_queues() == []


def test_a_value_that_contains_itself_is_refused(tasks):
    @tasks.task(queue="q", name="app.t")
    def task(a: Hidden) -> None: ...

    hidden = Hidden()
    hidden.anything = [hidden]
    with pytest.raises(InvalidFormat, match="a can't be stored as JSON"):
        task.send(hidden)
