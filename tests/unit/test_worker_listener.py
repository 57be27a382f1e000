"""The options of listeners, and the functions that can be handlers."""

from __future__ import annotations

import functools
import math

import pytest

from rsmq import JSON, RSMQ, InvalidFormat, InvalidValue, MissingParameter
from rsmq.worker import Middleware, Worker, event_payload
from rsmq.worker.listener import DEFAULT_MAX_RETRIES, Handlers
from tests.expect import refused


@pytest.fixture
def rsmq():
    with RSMQ.from_url("memory://") as client:
        yield client


@pytest.fixture
def worker(rsmq):
    return Worker(rsmq)


def handle(body): ...


def register(worker, function=handle, **options):
    """Register a listener, and return it."""
    assert worker.listener("orders", **options)(function) is function
    return worker._listeners["orders"]


# Functions.


class Methods:
    def one(self, body): ...

    def two(self, body, message): ...

    async def later(self, body, message): ...

    @staticmethod
    def static(body): ...

    @classmethod
    def of_class(cls, body, message): ...


class Called:
    def __call__(self, body): ...


class CalledLater:
    async def __call__(self, body, message): ...


class Made:
    """A class whose initializer takes a body."""

    def __init__(self, body): ...


async def later(body): ...


async def later_with_message(body, message): ...


def three(prefix, body, message): ...


@functools.wraps(handle)
def wrapped(*args): ...


FUNCTIONS = [
    (handle, False, False),
    (lambda body: None, False, False),
    (lambda body, message: None, True, False),
    (lambda *args: None, True, False),
    (lambda body, *, flag=1: None, False, False),
    (Methods().one, False, False),
    (Methods().two, True, False),
    (Methods().later, True, True),
    (Methods.static, False, False),
    (Methods().of_class, True, False),
    (Called(), False, False),
    (CalledLater(), True, True),
    (Made, False, False),
    (later, False, True),
    (later_with_message, True, True),
    (functools.partial(three, "p"), True, False),
    (functools.partial(three, "p", message=1), False, False),
    (functools.partial(later), False, True),
    (functools.partial(Methods().later), True, True),
    (functools.partial(CalledLater()), True, True),
    (len, False, False),
    ([].append, False, False),
]


@pytest.mark.parametrize(("function", "takes_message", "is_async"), FUNCTIONS)
def test_a_handler_takes_the_body_or_also_the_message_and_may_be_async(
    worker, function, takes_message, is_async
):
    handlers = register(worker, function).handlers

    assert handlers.find("body") == ("", "body")
    assert handlers.by_type == {"": (function, takes_message)}
    assert handlers.is_async is is_async


@pytest.mark.parametrize(
    "function",
    [
        lambda: None,
        lambda a, b, c: None,
        lambda body, *, needed: None,
        Methods.two,
        functools.partial(three, "p", "body", "message"),
    ],
)
def test_a_function_with_wrong_parameters_is_refused(worker, function):
    with refused(InvalidFormat, "Invalid handler format") as refusal:
        worker.listener("orders")(function)

    assert refusal.error.hint.startswith(
        "A handler takes the body, or the body and the message: handle(body) or "
        "handle(body, message). This one takes "
    )
    assert worker.queues == []


@pytest.mark.parametrize("function", [None, 5, "handle"])
def test_a_handler_that_is_not_a_function_is_refused(worker, function):
    with refused(InvalidFormat, "Invalid handler format") as refusal:
        worker.listener("orders")(function)

    assert str(refusal.error) == f"Invalid handler format: {function!r}. It is a function"


def test_a_generator_function_is_refused_because_calling_it_does_nothing(worker):
    def generates(body):
        yield body

    async def generates_later(body):
        yield body

    for function in (generates, generates_later):
        with pytest.raises(InvalidFormat):
            worker.listener("orders")(function)


@pytest.mark.parametrize(
    "decorate",
    [
        lambda worker: worker.listener,
        lambda worker: worker.router("orders", by=event_payload).on,
    ],
)
def test_a_decorator_without_parentheses_is_refused(worker, decorate):
    with pytest.raises(InvalidFormat):
        decorate(worker)(handle)


# Options and their defaults.


def test_a_listener_without_options_retries_without_a_limit(worker):
    listener = register(worker)

    assert listener.policy.max_retries is None
    assert (listener.policy.dead_letter_queue, listener.policy.drop, listener.policy.no_retry) == (
        None,
        False,
        (),
    )
    assert (
        listener.vt,
        listener.codec,
        listener.batch,
        listener.concurrency,
        listener.priority,
    ) == (None, None, None, None, 0)
    assert (listener.max_runtime, listener.create, listener.target_queues) == (3600, False, ())


@pytest.mark.parametrize("options", [{"dead_letter_queue": "dead"}, {"drop": True}])
def test_with_a_dead_letter_queue_or_drop_the_default_is_five_retries(worker, options):
    assert register(worker, **options).policy.max_retries == DEFAULT_MAX_RETRIES == 5


def test_max_retries_may_be_0(worker):
    assert register(worker, max_retries=0, drop=True).policy.max_retries == 0


def test_a_listener_has_its_options(worker):
    listener = register(
        worker, vt=0.1, codec=JSON, batch=10, concurrency=2, priority=-3, max_retries=2, backoff=9,
        no_retry=[ValueError, OSError], dead_letter_queue="dead", max_runtime=0.5, create=True,
    )  # fmt: skip

    assert (
        listener.vt,
        listener.codec,
        listener.batch,
        listener.concurrency,
        listener.priority,
    ) == (0.1, JSON, 10, 2, -3)
    assert (listener.max_runtime, listener.create, listener.target_queues) == (0.5, True, ("dead",))
    assert (listener.policy.max_retries, listener.policy.backoff(1)) == (2, 9)
    assert listener.policy.no_retry == (ValueError, OSError)


def test_one_class_that_is_not_retried_needs_no_list(worker):
    assert register(worker, no_retry=KeyError).policy.no_retry == (KeyError,)


def test_the_default_back_off_grows_to_five_minutes(worker):
    backoff = register(worker).policy.backoff

    assert 0.5 <= backoff(1) <= 1
    assert 150 <= backoff(50) <= 300


def test_the_other_queues_of_a_listener_are_named_once(worker):
    worker.router("orders", by=event_payload, dead_letter_queue="dead", unroutable="dead")

    assert worker._listeners["orders"].target_queues == ("dead",)


# Refused options: the error has the value, the rule, and a hint.

TOO_SHORT = (
    "A worker's messages must be hidden for a while, and are for longer while their handlers "
)
NUMBERS = [
    *(("vt", value, 0.1, TOO_SHORT) for value in (0, 0.0994, 0.05)),
    *(
        ("vt", value, 0, "Pass a number of seconds.")
        for value in (-1, "30", True, math.nan, math.inf, 10**7)
    ),
    *(("batch", value, 1, "Pass a whole number.") for value in (0, -1, 10_001, 1.5, "5", True)),
    *(("concurrency", value, 1, "Pass a whole number.") for value in (0, 10_001, 1.5, True)),
    *(
        ("priority", value, -(10**6), "Pass a whole number.")
        for value in (1.5, "high", None, 10**7)
    ),
    *(
        ("max_runtime", value, 0.001, "Pass a number of seconds.")
        for value in (0, -1, None, "60", math.inf)
    ),
]


@pytest.mark.parametrize(("item", "value", "low", "hint"), NUMBERS)
def test_a_number_out_of_range_is_refused(worker, item, value, low, hint):
    high = {"batch": 10_000, "concurrency": 10_000, "priority": 10**6}.get(item, 9_999_999)

    with refused(InvalidValue, f"{item} must be between {low} and {high}") as refusal:
        worker.listener("orders", **{item: value})(handle)
    assert refusal.error.value is value
    assert f"must be between {low} and {high}, not {value!r}. {hint[:-1]}" in str(refusal.error)
    assert worker.queues == []


@pytest.mark.parametrize("value", [-1, 1.5, True, "5", 1_000_001])
def test_an_invalid_max_retries_is_refused(worker, value):
    with refused(InvalidValue, "max_retries must be between 0 and 1000000") as refusal:
        worker.listener("orders", max_retries=value, drop=True)(handle)

    assert refusal.error.value is value


def test_a_limit_without_dead_letter_queue_or_drop_is_refused(worker):
    with refused(InvalidFormat, "Invalid max_retries format") as refusal:
        worker.listener("orders", max_retries=3)(handle)

    assert refusal.error.value == 3
    assert refusal.error.hint == (
        "For messages of 'orders' that still fail, pass a dead_letter_queue, or drop=True."
    )


@pytest.mark.parametrize("item", ["dead_letter_queue", "unroutable"])
def test_a_queue_cannot_be_its_own_dead_letter_queue(worker, item):
    with refused(InvalidFormat, f"Invalid {item} format") as refusal:
        worker.router("orders", by=event_payload, **{item: "orders"})

    assert refusal.error.value == "orders"
    assert refusal.error.hint == "It must be another queue."


def test_an_invalid_codec_is_refused(worker):
    with refused(InvalidFormat, "Invalid codec format") as refusal:
        worker.listener("orders", codec="json")(handle)

    assert str(refusal.error).startswith("Invalid codec format: 'json'. A codec is TEXT")


@pytest.mark.parametrize("value", [5, ValueError("v"), "ValueError", [ValueError, 5], [int]])
def test_an_invalid_no_retry_is_refused(worker, value):
    with refused(InvalidFormat, "Invalid no_retry format") as refusal:
        worker.listener("orders", no_retry=value)(handle)

    assert refusal.error.hint.startswith("It is a class of exceptions, or several.")


@pytest.mark.parametrize("queue", [None, ""])
def test_a_queue_without_a_name_is_refused(worker, queue):
    with refused(MissingParameter, "No qname supplied"):
        worker.listener(queue)(handle)


@pytest.mark.parametrize("options", [{}, {"dead_letter_queue": "a b"}])
def test_an_invalid_name_of_a_queue_is_refused(worker, options):
    queue = "orders" if options else "a b"

    with refused(InvalidFormat, "Invalid qname format") as refusal:
        worker.listener(queue, **options)(handle)
    assert refusal.error.value == "a b"


def test_a_queue_has_one_listener(worker):
    worker.listener("orders")(handle)

    with refused(InvalidFormat, "Invalid queue format") as refusal:
        worker.listener("orders")(handle)
    assert refusal.error.value == "orders"
    assert refusal.error.hint == (
        "This queue already has a listener. router() calls several functions, by the type of the "
        "message; handlers() calls all of them."
    )


@pytest.mark.parametrize("by", [None, "type", 5])
def test_a_route_that_is_not_a_function_is_refused(worker, by):
    with refused(InvalidFormat, "Invalid by format") as refusal:
        worker.router("orders", by=by)

    assert refusal.error.hint == (
        "It is event_payload, json_field(name), or a function of the body that returns (type, "
        "payload)."
    )


@pytest.mark.parametrize("types", [(), (5,), ("created", None)])
def test_invalid_types_are_refused(worker, types):
    router = worker.router("orders", by=event_payload)

    with refused(InvalidFormat, "Invalid type format") as refusal:
        router.on(*types)(handle)
    assert refusal.error.hint == "on() takes one or several types, each a str."


def test_a_function_may_handle_several_types_of_a_queue(worker):
    router = worker.router("orders", by=event_payload)

    assert router.on("created", "changed")(handle) is handle
    handlers = worker._listeners["orders"].handlers
    assert handlers.find("changed:1") == ("changed", "1")
    assert handlers.by_type["changed"] == (handle, False)


def test_types_are_refused_together_if_one_has_a_handler(worker):
    router = worker.router("orders", by=event_payload)
    router.on("changed")(handle)

    with pytest.raises(InvalidFormat):
        router.on("created", "changed")(lambda payload: None)
    assert set(worker._listeners["orders"].handlers.by_type) == {"changed"}


def test_listeners_do_not_share_handlers():
    first, second = Handlers(), Handlers()
    first.add("", handle)

    assert second.by_type == {}


# The worker itself.


def test_a_worker_refuses_other_clients(rsmq):
    with refused(InvalidFormat, "Invalid client format") as refusal:
        Worker("redis://127.0.0.1:6379/0")

    assert str(refusal.error).startswith("Invalid client format: str object. Pass an RSMQ, as in")


@pytest.mark.parametrize("name", ["a b", "a:b", "x" * 161, 5])
def test_an_invalid_name_of_a_worker_is_refused(rsmq, name):
    with refused(InvalidFormat, "Invalid name format") as refusal:
        Worker(rsmq, name=name)

    assert refusal.error.value == name


def test_an_empty_name_of_a_worker_is_refused(rsmq):
    with refused(MissingParameter, "No name supplied"):
        Worker(rsmq, name="")


@pytest.mark.parametrize("value", [0, 10_001, 1.5, "8", None, True])
def test_an_invalid_concurrency_is_refused(rsmq, value):
    with refused(InvalidValue, "concurrency must be between 1 and 10000") as refusal:
        Worker(rsmq, concurrency=value)

    assert refusal.error.value is value


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, "30", None])
def test_an_invalid_grace_is_refused(rsmq, value):
    with refused(InvalidValue, "grace must be between 0 and 9999999") as refusal:
        Worker(rsmq, grace=value)

    assert refusal.error.value is value


def test_a_worker_without_a_listener_does_not_start(worker):
    with refused(InvalidFormat, "Invalid worker format") as refusal:
        worker.start()

    assert refusal.error.hint.startswith("It has no handlers: decorate a function")


def test_a_router_without_a_handler_does_not_start(worker, rsmq):
    rsmq.create_queue("orders")
    worker.router("orders", by=event_payload)

    with refused(InvalidFormat, "Invalid worker format") as refusal:
        worker.start()
    assert "router.on(type)" in refusal.error.hint


def test_repr_and_queues_of_a_worker(rsmq):
    worker = Worker(rsmq, name="w-1", concurrency=3)
    worker.listener("b")(handle)
    worker.listener("a")(handle)

    assert worker.queues == ["b", "a"]
    assert repr(worker).endswith(", name='w-1', concurrency=3)")
    assert str(worker.numbers).startswith("0 received, 0 handled, 0 failed")


def test_drop_and_a_dead_letter_queue_exclude_each_other(worker):
    with refused(InvalidFormat, "Invalid drop format") as refusal:
        register(worker, drop=True, dead_letter_queue="dead")
    assert refusal.error.value is True
    assert "'dead'" in refusal.error.hint


def test_a_class_is_not_a_middleware(worker):
    class Counting(Middleware): ...

    for wrong in (Counting, None, "counting"):
        with refused(InvalidFormat, "Invalid middleware format"):
            worker.use(wrong)


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        ("max_retry", "Did you mean 'max_retries'?"),
        ("retries", "Did you mean 'max_retries'?"),
        ("dead_letter", "Did you mean 'dead_letter_queue'?"),
        ("options", "Its options are queue, "),
    ],
)
@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("listener", {}),
        ("router", {"by": event_payload}),
        ("webhook", {"url": "https://example.com"}),
    ],
)
def test_an_unknown_option_is_refused_with_the_closest_one(
    worker, method, arguments, wrong, advice
):
    with pytest.raises(TypeError) as caught:
        getattr(worker, method)("orders", **arguments, vt=5, **{wrong: 3})

    text = f"Worker.{method} has no option {wrong!r}. {advice}"
    assert str(caught.value).startswith(text)
    assert worker.queues == []


def test_an_unknown_option_may_be_close_to_a_parameter(worker):
    with pytest.raises(TypeError, match=r"no option 'batches'\. Did you mean 'batch'"):
        worker.listener("orders", batches=3)
