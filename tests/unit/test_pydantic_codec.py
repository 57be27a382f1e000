"""``pydantic_codec``: objects of a pydantic model as JSON, validated when they are decoded."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
)

from rsmq import RSMQ, BodyNotDecodable, InvalidFormat, Message, MessageNotString
from rsmq.codecs import CannotEncode, check_codec, pydantic_codec
from tests.expect import refused


class Line(BaseModel):
    article: str
    price: Decimal


class Order(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = Field(gt=0)
    sent: datetime
    lines: list[Line] = []
    labels: dict[str, int] = Field(default={}, alias="tags")

    @field_validator("number")
    @classmethod
    def refuse_13(cls, number):
        if number == 13:
            raise ValueError(f"{number} is a secret")
        return number

    @computed_field
    def count(self) -> int:
        return len(self.lines)


class LargeOrder(Order):
    size: int = 5


ORDER = Order(
    number=7,
    sent=datetime(2026, 11, 20, 12, tzinfo=UTC),
    lines=[Line(article="é", price=Decimal("1.50"))],
    tags={"x": 1},
)
CODEC = pydantic_codec(Order)


def run(program):
    ended = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return ended.stdout


def test_objects_are_restored():
    restored = CODEC.decode(CODEC.encode(ORDER).encode())

    assert restored == ORDER
    assert type(restored) is Order


def test_the_body_is_json_with_aliases_and_without_computed_fields():
    assert CODEC.encode(ORDER) == (
        '{"number":7,"sent":"2026-11-20T12:00:00Z",'
        '"lines":[{"article":"é","price":"1.50"}],"tags":{"x":1}}'
    )


class SpecialLine(Line):
    note: str


class Account(BaseModel):
    password: SecretStr = SecretStr("")
    lines: list[Line] = []
    hidden: int = Field(0, exclude=True)
    _private: int = PrivateAttr(default=0)


def make_private():
    account = Account()
    account._private = 5
    return account


@pytest.mark.parametrize(
    ("account", "change"),
    [
        (Account(password="hush"), "with Account.password changed"),
        (Account(lines=[SpecialLine(article="a", price=1, note="hush")]), "with an item as Line"),
        (Account(hidden=5), "with Account.hidden changed"),
        (make_private(), "with Account._private changed"),
    ],
)
def test_an_object_that_its_json_does_not_restore_is_refused(account, change):
    with pytest.raises(CannotEncode) as failed:
        pydantic_codec(Account).encode(account)

    assert f"It would arrive {change}: " in failed.value.hint
    assert "hush" not in failed.value.hint


@pytest.mark.parametrize(
    ("body", "faults"),
    [
        ("{}", "number: missing, sent: missing"),
        ('{"number":"secret","sent":0}', "number: int_parsing"),
        ('{"number":-1,"sent":0}', "number: greater_than"),
        ('{"number":13,"sent":0}', "number: value_error"),
        ('{"number":1,"sent":0,"lines":[{"article":"secret"}]}', "lines: missing"),
        ('{"number":1,"sent":0,"tags":{"secret":"secret"}}', "tags: int_parsing"),
        ('{"number":1,"sent":0,"secret":5}', "extra_forbidden"),
        ('"secret"', "model_type"),
        ("{secret", "json_invalid"),
    ],
)
def test_a_wrong_body_is_not_decodable_and_the_error_does_not_show_it(body, faults):
    message = Message("orders", 32 * "a", body.encode(), 1, 0, CODEC)

    with pytest.raises(BodyNotDecodable) as caught:
        _ = message.body

    assert str(caught.value.__cause__) == f"The body is not a valid Order: {faults}"
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert "secret" not in str(caught.value.hint)
    assert message.raw == body.encode()


@pytest.mark.parametrize("body", [{"number": 7}, LargeOrder(number=7, sent=ORDER.sent), None])
def test_a_body_of_another_class_is_refused(body):
    with refused(
        CannotEncode, f"pydantic_codec(Order) can't encode {type(body).__name__}"
    ) as caught:
        CODEC.encode(body)  # fmt: skip

    assert caught.error.hint == "Pass an object of Order."


SENT = ORDER.sent


class OneWay(BaseModel):
    """A model that does not accept its own JSON."""

    day: datetime

    @field_serializer("day", when_used="json")
    def show_day(self, day):
        return f"{day:%A}"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("body", "faults"),
    [
        (Order.model_construct(number="secret", sent=SENT), "number: int_type"),
        (Order.model_construct(number="7", sent=SENT), "number: int_type"),
        (Order.model_construct(number=0, sent=SENT), "number: greater_than"),
        (Order.model_construct(number=7, sent=object()), "sent: datetime_type"),
        (Order.model_construct(sent=SENT), "number: missing"),
        (
            ORDER.model_copy(update={"lines": [Line.model_construct(article=5, price="x")]}),
            "lines: string_type, lines: is_instance_of",
        ),
    ],
)
def test_an_object_that_could_not_be_decoded_is_refused(body, faults):
    with refused(CannotEncode, "pydantic_codec(Order) can't encode Order") as caught:
        CODEC.encode(body)

    assert caught.error.hint == (
        f"It is not a valid Order: {faults}. Build it with Order.model_validate."
    )
    assert "secret" not in "".join(traceback.format_exception(caught.error))


def test_a_model_that_does_not_accept_its_own_json_is_refused():
    with refused(CannotEncode, "pydantic_codec(OneWay) can't encode OneWay") as caught:
        pydantic_codec(OneWay).encode(OneWay(day=SENT))

    assert caught.error.hint == (
        "OneWay does not accept its own JSON: serialize fields as they are validated."
    )


def test_bodies_travel_through_a_queue():
    with RSMQ.from_url("memory://pydantic", codec=CODEC) as queues:
        queues.create_queue("orders", exist_ok=True)
        with refused(MessageNotString, "Message must be a string") as caught:
            queues.send_message("orders", {"number": 7})
        queues.send_message("orders", ORDER)
        message = queues.pop_message("orders")
        attributes = queues.get_queue_attributes("orders")

    assert str(caught.error) == "pydantic_codec(Order) can't encode dict. Pass an object of Order"
    assert message is not None
    assert message.body == ORDER
    assert message.raw == CODEC.encode(ORDER).encode()
    assert attributes.total_sent == 1


@pytest.mark.parametrize("value", [int, ORDER, "Order", None, BaseModel])
def test_only_models_have_this_codec(value):
    with refused(InvalidFormat, "Invalid model format") as caught:
        pydantic_codec(value)

    assert "Pass a subclass of pydantic.BaseModel" in str(caught.error)


def test_the_codec_can_be_pickled():
    copy = pickle.loads(pickle.dumps(CODEC))

    assert repr(copy) == repr(CODEC) == "pydantic_codec(Order)"
    assert copy.decode(CODEC.encode(ORDER).encode()) == ORDER
    assert check_codec(copy) is copy


def test_without_the_extra_the_error_names_it():
    program = (
        "import sys; sys.modules['pydantic'] = None\n"
        "from rsmq import MissingExtra, codecs\n"
        "try: codecs.pydantic_codec(int)\n"
        "except MissingExtra as error: print(error.value, '|', error)"
    )

    assert run(program).startswith("pydantic | rsmq.codecs.pydantic_codec needs the extra")


def test_pydantic_is_imported_only_for_its_codec():
    program = (
        "import sys, rsmq.codecs, rsmq.worker\n"
        "rsmq.codecs.dataclass_codec\n"
        "print('pydantic' in sys.modules)"
    )

    assert run(program) == "False\n"
