"""``dataclass_codec``: objects of a dataclass as JSON, checked in both directions."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import InitVar, dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, ClassVar, Generic, Literal, Optional, TypeVar

import pytest

from rsmq import RSMQ, BodyNotDecodable, InvalidFormat, Message, MessageNotString
from rsmq.codecs import CannotEncode, check_codec, dataclass_codec
from tests.expect import refused

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    article: str
    price: float = 0.0


@dataclass
class Order:
    number: int
    lines: list[Line]
    paid: bool = False
    note: str | None = None
    first: Optional[Line] = None  # noqa: UP045
    labels: dict[str, int] = field(default_factory=dict)
    extra: Any = None
    by_name: dict[str, list[Line]] = field(default_factory=dict)
    bare: list = field(default_factory=list)
    bare_dict: dict = field(default_factory=dict)
    nothing: None = None
    kind: ClassVar[str] = "order"


@dataclass(kw_only=True)
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class LargeOrder(Order):
    pass


ORDER = Order(
    7,
    [Line("a", 1.5), Line("b", 2)],
    note="é",
    first=Line("c"),
    labels={"x": 1},
    extra=[{"a": None}],
    by_name={"all": [Line("d", 0.25)]},
    bare=[1, "a"],
    bare_dict={"k": [True]},
)
CODEC = dataclass_codec(Order)
STR_KEYS = "must be dict with str keys."


def decode(codec, body: str):
    return codec.decode(body.encode())


@pytest.mark.parametrize("order", [ORDER, Order(-1, [])])
def test_objects_are_restored(order):
    restored = decode(CODEC, CODEC.encode(order))

    assert restored == order
    assert type(restored) is Order


def test_the_body_is_compact_json_of_the_fields():
    assert dataclass_codec(Line).encode(Line("é", 2)) == '{"article":"é","price":2}'


def test_a_float_may_be_stored_without_decimals():
    restored = decode(dataclass_codec(Line), '{"article":"a","price":2}')

    assert type(restored.price) is float


def test_objects_of_a_class_may_contain_others_of_it():
    tree = Tree(name="a", children=[Tree(name="b", children=[Tree(name="c")])])

    codec = dataclass_codec(Tree)

    assert decode(codec, codec.encode(tree)) == tree


def test_defaults_replace_missing_fields_and_unknown_fields_are_ignored():
    assert decode(CODEC, '{"number":1,"lines":[],"later":5}') == Order(1, [])


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("[]", "Order must be a JSON object"),
        ("null", "Order must be a JSON object"),
        ('{"lines":[]}', "Order.number is missing"),
        ('{"number":"secret","lines":[]}', "Order.number must be int"),
        ('{"number":true,"lines":[]}', "Order.number must be int"),
        ('{"number":1.5,"lines":[]}', "Order.number must be int"),
        ('{"number":null,"lines":[]}', "Order.number must be int"),
        ('{"number":1,"lines":[],"paid":1}', "Order.paid must be bool"),
        ('{"number":1,"lines":[],"note":5}', "Order.note must be str"),
        ('{"number":1,"lines":[],"nothing":5}', "Order.nothing must be None"),
        ('{"number":1,"lines":{"secret":1}}', "Order.lines must be list"),
        ('{"number":1,"lines":["secret"]}', "Line must be a JSON object"),
        ('{"number":1,"lines":[{}]}', "Line.article is missing"),
        ('{"number":1,"lines":[{"article":"a","price":"secret"}]}', "Line.price must be float"),
        ('{"number":1,"lines":[],"labels":{"secret":"x"}}', "Order.labels must be int"),
        ('{"number":1,"lines":[],"labels":["secret"]}', "Order.labels must be dict with str keys"),
    ],
)
def test_a_wrong_body_is_not_decodable_and_the_error_does_not_show_it(body, fault):
    message = Message("orders", 32 * "a", body.encode(), 1, 0, CODEC)

    with pytest.raises(BodyNotDecodable) as caught:
        _ = message.body

    assert str(caught.value.__cause__) == fault
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert message.raw == body.encode()


@pytest.mark.parametrize("raw", [b"{", b"\xff", b""])
def test_a_body_that_is_not_json_is_not_decodable(raw):
    with pytest.raises(BodyNotDecodable):
        _ = Message("orders", 32 * "a", raw, 1, 0, CODEC).body


def test_an_error_of_the_class_itself_makes_a_body_not_decodable():
    @dataclass
    class Positive:
        number: int

        def __post_init__(self):
            if self.number < 0:
                raise ValueError("negative")

    with pytest.raises(BodyNotDecodable) as caught:
        _ = Message("q", 32 * "a", b'{"number":-1}', 1, 0, dataclass_codec(Positive)).body

    assert str(caught.value.__cause__) == "negative"


@pytest.mark.parametrize(
    ("body", "text", "hint"),
    [
        ({"number": 1}, "can't encode dict", "Pass an object of Order."),
        (None, "can't encode NoneType", "Pass an object of Order."),
        (LargeOrder(1, []), "can't encode LargeOrder", "Pass an object of Order."),
        (Order("1", []), "can't encode str", "Order.number must be int."),
        (Order(True, []), "can't encode bool", "Order.number must be int."),
        (Order(1, (Line("a"),)), "can't encode tuple", "Order.lines must be list."),
        (Order(1, [ORDER]), "can't encode Order", "Pass an object of Line."),
        (Order(1, [], labels={1: 1}), "can't encode dict", f"Order.labels {STR_KEYS}"),
        (Order(1, [], bare_dict={1: 1}), "can't encode dict", f"Order.bare_dict {STR_KEYS}"),
    ],
)
def test_a_body_of_another_type_is_refused(body, text, hint):
    with refused(CannotEncode, f"dataclass_codec(Order) {text}") as caught:
        CODEC.encode(body)

    assert caught.error.hint == hint


def test_a_value_of_any_that_is_not_json_is_refused():
    with refused(CannotEncode, "JSON can't encode datetime"):
        CODEC.encode(Order(1, [], extra=datetime(2026, 1, 1)))  # noqa: DTZ001
    with pytest.raises(CannotEncode):
        CODEC.encode(Order(1, [Line("a", float("nan"))]))


def test_a_refused_body_is_not_sent():
    with RSMQ.from_url("memory://dataclasses", codec=CODEC) as queues:
        queues.create_queue("orders", exist_ok=True)
        with refused(MessageNotString, "Message must be a string") as caught:
            queues.send_message("orders", Order("secret", []))
        with refused(MessageNotString, "Message must be a string"):
            queues.send_messages("orders", [ORDER, 5])

        assert str(caught.error) == (
            "dataclass_codec(Order) can't encode str. Order.number must be int"
        )
        assert queues.get_queue_attributes("orders").total_sent == 0


def test_bodies_travel_through_a_queue():
    with RSMQ.from_url("memory://dataclasses", codec=CODEC) as queues:
        queues.create_queue("orders", exist_ok=True)
        queues.send_message("orders", ORDER)
        message = queues.pop_message("orders")

    assert message is not None
    assert message.body == ORDER
    assert message.raw == CODEC.encode(ORDER).encode()


class Color(Enum):
    RED = "red"


@dataclass
class WithTuple:
    value: tuple[int, ...]


@dataclass
class WithTime:
    value: datetime | None


@dataclass
class WithEnum:
    value: list[Color]


@dataclass
class WithBytes:
    value: bytes


@dataclass
class WithLiteral:
    value: Literal["a"]


@dataclass
class WithUnion:
    value: int | str


@dataclass
class WithIntKeys:
    value: dict[int, str]


@dataclass
class WithTypeVariable(Generic[T]):
    value: T


@dataclass
class WithObject:
    value: object


@dataclass
class WithNested:
    nested: list[WithBytes]


@pytest.mark.parametrize(
    ("cls", "shown"),
    [
        (WithTuple, "WithTuple.value: tuple"),
        (WithTime, "WithTime.value: datetime"),
        (WithEnum, "WithEnum.value: Color"),
        (WithBytes, "WithBytes.value: bytes"),
        (WithLiteral, "WithLiteral.value: Literal"),
        (WithUnion, "WithUnion.value: int | str"),
        (WithIntKeys, "WithIntKeys.value: dict"),
        (WithTypeVariable, "WithTypeVariable.value: T"),
        (WithObject, "WithObject.value: object"),
        (WithNested, "WithBytes.value: bytes"),
    ],
)
def test_a_field_that_json_does_not_restore_is_refused_at_once(cls, shown):
    with refused(InvalidFormat, "Invalid dataclass format") as caught:
        dataclass_codec(cls)

    assert str(caught.error).startswith(f"Invalid dataclass format: {shown}. A field is a str, ")


@dataclass
class WithInitVar:
    number: int
    seed: InitVar[int]


@dataclass
class WithComputed:
    number: int
    double: int = field(init=False, default=0)


@dataclass
class WithOwnConstructor:
    number: int

    def __init__(self):
        self.number = 5


@pytest.mark.parametrize("cls", [WithInitVar, WithComputed, WithOwnConstructor])
def test_a_constructor_of_other_parameters_is_refused(cls):
    with refused(InvalidFormat, "Invalid dataclass format") as caught:
        dataclass_codec(cls)

    assert str(caught.error).startswith(
        f"Invalid dataclass format: {cls.__name__}. Its constructor must take exactly its fields"
    )


def test_a_type_that_is_not_found_is_refused():
    class Inner:
        pass

    @dataclass
    class Local:
        value: Inner

    with refused(InvalidFormat, "Invalid dataclass format") as caught:
        dataclass_codec(Local)

    assert "(name 'Inner' is not defined)" in str(caught.error)


@pytest.mark.parametrize("value", [int, ORDER, "Order", None, WithTypeVariable[int]])
def test_only_dataclasses_have_this_codec(value):
    with refused(InvalidFormat, "Invalid dataclass format") as caught:
        dataclass_codec(value)

    assert "Pass a class, a dataclass" in str(caught.error)


def test_the_codec_can_be_pickled():
    copy = pickle.loads(pickle.dumps(CODEC))

    assert repr(copy) == repr(CODEC) == "dataclass_codec(Order)"
    assert decode(copy, CODEC.encode(ORDER)) == ORDER
    assert check_codec(copy) is copy


def test_a_message_of_the_codec_can_be_pickled():
    message = Message("q", 32 * "a", CODEC.encode(ORDER).encode(), 1, 0, CODEC)

    assert pickle.loads(pickle.dumps(message)).body == ORDER


@dataclass
class Scaled:
    cents: int

    def __post_init__(self) -> None:
        self.cents *= 100


@dataclass
class Stripped:
    name: str

    def __post_init__(self) -> None:
        self.name = self.name.strip()


@dataclass
class Both:
    stripped: Stripped
    scaled: Scaled | None = None


def test_an_object_that_post_init_would_change_again_is_refused():
    codec = dataclass_codec(Both)
    with pytest.raises(CannotEncode) as failed:
        codec.encode(Both(Stripped("a"), Scaled(5)))
    assert failed.value.hint == (
        "It would arrive with Scaled.cents changed: a __post_init__ changes it again."
    )
    assert codec.encode(Both(Stripped(" a "))) == '{"stripped":{"name":"a"},"scaled":null}'
