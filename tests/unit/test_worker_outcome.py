"""The outcomes of messages: the table of decide, and the back-offs between attempts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq import BodyNotDecodable, InvalidFormat, InvalidValue
from rsmq.wire.limits import MAX_SECONDS
from rsmq.worker import (
    DeadLetter,
    Defer,
    Discard,
    HandlerTimedOut,
    Retry,
    Unroutable,
    exponential,
    fixed,
)
from rsmq.worker import outcome as outcomes_of_workers
from rsmq.worker.outcome import (
    FIRST_BACKOFF_SECONDS,
    MAX_BACKOFF_SECONDS,
    DeadLettered,
    Dropped,
    Policy,
    Retried,
    TookItsProcessDown,
    Withdrawn,
    parse_backoff,
)
from rsmq.worker.state import error_reader
from rsmq.worker.state.error_reader import read_error
from tests.expect import refused


def decide(error, attempt, policy):
    return outcomes_of_workers.decide(read_error(error, policy), attempt, policy)


UNDECODABLE = BodyNotDecodable("q", "id", b"\xff")
UNDECODABLE_TEXT = "The codec can't decode the body of message id in queue 'q'"


class OfTheProgram(ValueError):
    """An exception of the program, a subclass of one that is not retried."""


class NoText(Exception):
    """An exception that cannot be converted to text."""

    def __str__(self):
        raise RuntimeError("it has no text")


class DeadWithoutText(DeadLetter, NoText):
    """A control exception that cannot be converted to text."""


def policy(max_retries=2, *, to="dead", **more):
    return Policy(max_retries, fixed(7), dead_letter_queue=to, **more)


NO_LIMIT = policy(None, to=None)
LIMITED = policy()
DROPS = policy(to=None, drop=True)
PICKY = policy(no_retry=(ValueError,))
ROUTED = policy(unroutable="lost")
STEERED = Retried(3, "asked for by its handler")
NOWHERE = "; there is no dead_letter_queue"

TABLE = [
    ("raised", KeyError("k"), 1, LIMITED, Retried(7, "KeyError on attempt 1")),
    ("raised, the last retry", KeyError("k"), 2, LIMITED, Retried(7, "KeyError on attempt 2")),
    ("too often", KeyError(), 3, LIMITED, DeadLettered("dead", "KeyError on attempt 3, the last")),
    (
        "far too often",
        KeyError(),
        40,
        LIMITED,
        DeadLettered("dead", "KeyError on attempt 40, the last"),
    ),
    ("too often, dropped", KeyError(), 3, DROPS, Dropped("KeyError on attempt 3, the last")),
    ("no limit", KeyError(), 10**6, NO_LIMIT, Retried(7, "KeyError on attempt 1000000")),
    (
        "a limit without a dead-letter queue",
        KeyError(),
        3,
        policy(to=None),
        Retried(7, f"KeyError on attempt 3, the last{NOWHERE}"),
    ),
    (
        "no retries",
        KeyError(),
        1,
        policy(0),
        DeadLettered("dead", "KeyError on attempt 1, the last"),
    ),
    (
        "not retried",
        ValueError(),
        1,
        PICKY,
        DeadLettered("dead", "ValueError on attempt 1, which is not retried"),
    ),
    (
        "a subclass of what is not retried",
        OfTheProgram(),
        1,
        PICKY,
        DeadLettered("dead", "OfTheProgram on attempt 1, which is not retried"),
    ),
    ("another than those", KeyError(), 1, PICKY, Retried(7, "KeyError on attempt 1")),
    (
        "not retried, dropped",
        ValueError(),
        1,
        policy(to=None, drop=True, no_retry=(ValueError,)),
        Dropped("ValueError on attempt 1, which is not retried"),
    ),
    (
        "not retried, no dead-letter queue",
        ValueError(),
        1,
        policy(None, to=None, no_retry=(ValueError,)),
        Retried(7, f"ValueError on attempt 1, which is not retried{NOWHERE}"),
    ),
    ("Retry", Retry(), 1, LIMITED, Retried(7, "asked for by its handler")),
    ("Retry where nothing is", Retry(after=3), 1, policy(no_retry=(Exception,)), STEERED),
    ("Retry with why", Retry("busy"), 1, LIMITED, Retried(7, "asked for by its handler: busy")),
    ("Retry after", Retry(after=3), 1, LIMITED, Retried(3, "asked for by its handler")),
    ("Retry at once", Retry(after=0), 1, LIMITED, Retried(0, "asked for by its handler")),
    (
        "Retry too often",
        Retry(after=3),
        3,
        LIMITED,
        DeadLettered("dead", "Retry on attempt 3, the last"),
    ),
    (
        "Retry without a limit",
        Retry(after=3),
        9**9,
        NO_LIMIT,
        Retried(3, "asked for by its handler"),
    ),
    ("Discard", Discard(), 1, LIMITED, Dropped("discarded by its handler")),
    ("Discard with why", Discard("old"), 9, LIMITED, Dropped("discarded by its handler: old")),
    ("Discard without a limit", Discard(), 1, NO_LIMIT, Dropped("discarded by its handler")),
    ("DeadLetter", DeadLetter(), 1, LIMITED, DeadLettered("dead", "given up by its handler")),
    (
        "DeadLetter with why",
        DeadLetter("no such customer"),
        1,
        LIMITED,
        DeadLettered("dead", "given up by its handler: no such customer"),
    ),
    ("DeadLetter, dropped", DeadLetter(), 1, DROPS, Dropped("given up by its handler")),
    (
        "DeadLetter, no dead-letter queue",
        DeadLetter(),
        1,
        NO_LIMIT,
        Retried(7, f"given up by its handler{NOWHERE}"),
    ),
    ("not decodable", UNDECODABLE, 1, LIMITED, DeadLettered("dead", UNDECODABLE_TEXT)),
    ("not decodable, dropped", UNDECODABLE, 1, DROPS, Dropped(UNDECODABLE_TEXT)),
    (
        "not decodable, no dead-letter queue",
        UNDECODABLE,
        1,
        NO_LIMIT,
        Retried(7, f"{UNDECODABLE_TEXT}{NOWHERE}"),
    ),
    ("unroutable", Unroutable("no handler"), 1, ROUTED, DeadLettered("lost", "no handler")),
    ("unroutable, no such queue", Unroutable("none"), 1, LIMITED, DeadLettered("dead", "none")),
    ("unroutable, dropped", Unroutable("none"), 1, DROPS, Dropped("none")),
    (
        "unroutable, no dead-letter queue",
        Unroutable("none"),
        1,
        NO_LIMIT,
        Retried(7, f"none{NOWHERE}"),
    ),
    (
        "DeadLetter where routed",
        DeadLetter(),
        1,
        ROUTED,
        DeadLettered("dead", "given up by its handler"),
    ),
    (
        "crashed the process",
        TookItsProcessDown("it did"),
        1,
        LIMITED,
        DeadLettered("dead", "it did"),
    ),
    ("ran too long", HandlerTimedOut(), 1, LIMITED, Retried(7, "HandlerTimedOut on attempt 1")),
    (
        "ran too long too often",
        HandlerTimedOut(),
        3,
        LIMITED,
        DeadLettered("dead", "HandlerTimedOut on attempt 3, the last"),
    ),
    ("sys.exit", SystemExit(1), 1, LIMITED, Retried(7, "SystemExit on attempt 1")),
    ("Ctrl-C", KeyboardInterrupt(), 1, LIMITED, Retried(7, "KeyboardInterrupt on attempt 1")),
]


@pytest.mark.parametrize(
    ("error", "attempt", "policy", "expected"),
    [row[1:] for row in TABLE],
    ids=[r[0] for r in TABLE],
)
def test_the_outcome_of_a_message(error, attempt, policy, expected):
    assert decide(error, attempt, policy) == expected


INVALID_SECONDS = [
    -1, MAX_SECONDS + 1, math.nan, math.inf, pytest.param(10**400, id="too large for a float"),
    True, "1", b"1", 1j, [],
]  # fmt: skip


@pytest.mark.parametrize("after", INVALID_SECONDS)
def test_retry_refuses_invalid_seconds(after):
    with refused(InvalidValue, f"after must be between 0 and {MAX_SECONDS}") as refusal:
        Retry(after=after)

    assert refusal.error.value is after
    assert decide(refusal.error, 1, LIMITED) == Retried(7, "InvalidValue on attempt 1")


@pytest.mark.parametrize("after", INVALID_SECONDS)
def test_a_retry_with_an_invalid_after_has_the_back_off_of_the_listener(after):
    error = Retry()
    error.after = after

    assert decide(error, 1, LIMITED) == Retried(7, "asked for by its handler")


@pytest.mark.parametrize("error", [NoText(), DeadWithoutText()], ids=["raised", "DeadLetter"])
@pytest.mark.parametrize("attempt", [1, 3])
def test_an_exception_without_a_text_has_an_outcome(error, attempt):
    assert isinstance(decide(error, attempt, LIMITED), Retried | DeadLettered)


def test_retry_has_after_and_text():
    assert Retry().after is None
    assert (Retry("why", after=2.5).after, str(Retry("why"))) == (2.5, "why")


# Back-offs.


def test_a_fixed_back_off_is_always_the_same():
    assert [fixed(2.5)(attempt) for attempt in (1, 2, 1000)] == [2.5, 2.5, 2.5]


def test_an_exponential_back_off_doubles_up_to_its_cap():
    backoff = exponential(1, 300, jitter=False)

    assert [backoff(attempt) for attempt in range(1, 12)] == [
        1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300
    ]  # fmt: skip
    assert backoff(10**6) == 300


def test_an_exponential_back_off_with_another_factor():
    backoff = exponential(0.5, 100, factor=3, jitter=False)

    assert [backoff(attempt) for attempt in range(1, 7)] == [0.5, 1.5, 4.5, 13.5, 40.5, 100]


def test_a_first_pause_beyond_the_cap_is_the_cap():
    assert exponential(10, 3, jitter=False)(1) == 3


def test_jitter_removes_at_most_half_and_spreads():
    backoff = exponential(8, 300)
    pauses = [backoff(2) for _ in range(500)]

    assert 8 <= min(pauses) < 9
    assert 15 < max(pauses) <= 16


def test_a_list_is_used_by_attempt_and_its_last_repeats():
    backoff = parse_backoff([1, 5, 0.5])

    assert [backoff(attempt) for attempt in (1, 2, 3, 4, 1000)] == [1, 5, 0.5, 0.5, 0.5]


def test_a_later_change_of_a_list_has_no_effect():
    pauses = [1, 2]
    backoff = parse_backoff(pauses)
    pauses[0] = 50

    assert backoff(1) == 1


def test_seconds_and_a_tuple_are_back_offs():
    assert parse_backoff(4)(3) == 4
    assert parse_backoff(0.25)(1) == 0.25
    assert parse_backoff((3, 9))(2) == 9


def test_a_function_is_called_for_each_attempt():
    backoff = parse_backoff(lambda attempt: attempt * 10)

    outcomes = [decide(KeyError(), each, Policy(None, backoff)) for each in (1, 2, 3)]

    assert [each.delay_seconds for each in outcomes] == [10, 20, 30]


def _raises(_):
    raise ZeroDivisionError


NONSENSE = [
    lambda _: None,
    lambda _: "soon",
    lambda _: math.nan,
    lambda _: 10**400,
    lambda _: 1j,
    lambda: 1,
    _raises,
]


@pytest.mark.parametrize("backoff", NONSENSE)
def test_a_function_that_fails_or_returns_nonsense_is_replaced_by_the_default(backoff):
    outcomes = [decide(KeyError(), attempt, Policy(None, backoff)) for attempt in (1, 2, 3, 50)]

    assert [each.delay_seconds for each in outcomes] == [
        FIRST_BACKOFF_SECONDS,
        FIRST_BACKOFF_SECONDS * 2,
        FIRST_BACKOFF_SECONDS * 4,
        MAX_BACKOFF_SECONDS,
    ]


@pytest.mark.parametrize("returned", [*INVALID_SECONDS, None, Fraction(1, 4)])
def test_invalid_seconds_of_a_function_are_ignored(returned):
    assert (
        decide(KeyError(), 3, Policy(None, lambda _: returned)).delay_seconds
        == FIRST_BACKOFF_SECONDS * 4
    )


@pytest.mark.parametrize("value", [*INVALID_SECONDS, None])
def test_fixed_refuses_invalid_seconds(value):
    with refused(InvalidValue, f"seconds must be between 0 and {MAX_SECONDS}") as refusal:
        fixed(value)

    assert refusal.error.value is value
    assert refusal.error.hint == "Pass a number of seconds."


@pytest.mark.parametrize("value", [*INVALID_SECONDS, None])
@pytest.mark.parametrize("item", ["first", "cap"])
def test_exponential_refuses_invalid_seconds(item, value):
    with refused(InvalidValue, f"{item} must be between 0 and {MAX_SECONDS}") as refusal:
        exponential(**{item: value})

    assert refusal.error.value is value


@pytest.mark.parametrize("value", [0, 0.99, 1001, math.nan, True, "2", None])
def test_exponential_refuses_an_invalid_factor(value):
    with refused(InvalidValue, "factor must be between 1 and 1000") as refusal:
        exponential(factor=value)

    assert refusal.error.value is value


@pytest.mark.parametrize("value", ["5", b"5", [], (), {}, {1}, object(), 1j, iter([1])])
def test_an_invalid_back_off_is_refused_with_a_hint(value):
    with refused(InvalidFormat, "Invalid backoff format") as refusal:
        parse_backoff(value)

    assert refusal.error.hint.startswith(
        "A back-off is exponential(...), fixed(seconds), seconds, a list of seconds by attempt, or "
        "a function of the attempt."
    )


@pytest.mark.parametrize("value", [True, -1, math.nan, math.inf])
def test_invalid_seconds_of_a_back_off_are_refused(value):
    with refused(InvalidValue, f"seconds must be between 0 and {MAX_SECONDS}"):
        parse_backoff(value)


@pytest.mark.parametrize("value", ["1", None, True, -1, math.nan])
def test_a_list_with_invalid_seconds_is_refused(value):
    with refused(InvalidValue, f"backoff must be between 0 and {MAX_SECONDS}") as refusal:
        parse_backoff([1, value, 2])

    assert refusal.error.value is value


# All options and all exceptions.


def _retry_set_later(after):
    error = Retry()
    error.after = after
    return error


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just(10**400)
)
pauses = st.floats(0, MAX_SECONDS)
backoffs = st.one_of(
    pauses.map(fixed),
    st.builds(exponential, pauses, pauses, factor=st.floats(1, 1000), jitter=st.booleans()),
    st.lists(pauses, min_size=1, max_size=5).map(parse_backoff),
    anything.map(lambda returned: lambda _: returned),
    st.just(_raises),
)
errors = st.one_of(
    st.sampled_from(
        [
            KeyError("k"), ValueError("v"), OfTheProgram(), Discard("d"), DeadLetter("d"),
            Unroutable("u"), UNDECODABLE, HandlerTimedOut("t"), TookItsProcessDown("t"), Retry(),
            SystemExit(), KeyboardInterrupt(), NoText(), DeadWithoutText(),
        ]
    ),
    pauses.map(lambda after: Retry(after=after)),
    anything.map(_retry_set_later),
)  # fmt: skip
policies = st.builds(
    Policy,
    st.none() | st.integers(0, 20),
    backoffs,
    st.sampled_from([(), (ValueError,), (KeyError, OSError), (BaseException,)]),
    st.sampled_from([None, "dead"]),
    st.sampled_from([None, "lost"]),
    st.booleans(),
)
attempts = st.integers(1, 1000) | st.integers(1, 10**9)


@given(errors, attempts, policies)
def test_an_exception_has_an_outcome_and_its_pause_is_in_range(error, attempt, policy):
    outcome = decide(error, attempt, policy)

    assert isinstance(outcome, Retried | DeadLettered | Dropped)
    if isinstance(outcome, Retried):
        assert 0 <= outcome.delay_seconds <= MAX_SECONDS
        assert 0 <= round(outcome.delay_seconds * 1000) <= MAX_SECONDS * 1000


@given(st.lists(errors, min_size=30, max_size=30), policies)
def test_no_message_is_retried_more_often_than_max_retries(raised, policy):
    if policy.max_retries is None or (policy.dead_letter_queue is None and not policy.drop):
        return
    outcomes = [decide(error, attempt, policy) for attempt, error in enumerate(raised, 1)]
    retries = list(itertools.takewhile(lambda each: isinstance(each, Retried), outcomes))

    assert len(retries) <= policy.max_retries
    assert not any(isinstance(each, Retried) for each in outcomes[policy.max_retries :])


@given(errors, attempts, policies)
def test_a_message_is_dropped_only_if_discarded_or_allowed(error, attempt, policy):
    outcome = decide(error, attempt, policy)

    if isinstance(outcome, Dropped):
        assert isinstance(error, Discard) or (policy.drop and policy.dead_letter_queue is None)
    if isinstance(outcome, DeadLettered):
        assert outcome.queue in {policy.dead_letter_queue, policy.unroutable} - {None}


@pytest.mark.parametrize("error", [Defer("x"), Discard("x"), Withdrawn("x")], ids=repr)
def test_traceback_that_nothing_uses_is_not_formatted(error, monkeypatch):
    monkeypatch.setattr(error_reader, "_read_traceback", pytest.fail)
    failure = read_error(error)

    assert (failure.error, failure.text, failure.traceback) == (error, "x", "")


@pytest.mark.parametrize("error", [Retry("x"), DeadLetter("x"), ValueError("x")], ids=repr)
def test_failure_that_can_become_a_dead_letter_has_a_traceback(error):
    assert "x" in read_error(error).traceback


class Hidden(ValueError):
    def __str__(self) -> str:
        raise LookupError


@pytest.mark.parametrize(
    ("group", "text"),
    [
        (
            ExceptionGroup("tasks", [ValueError("a"), KeyError("b"), OSError()]),
            "tasks (3 sub-exceptions): ValueError: a; KeyError: 'b'; OSError",
        ),
        (
            BaseExceptionGroup("outer", [ExceptionGroup("inner", [ValueError("a")])]),
            "outer (1 sub-exception): ExceptionGroup: inner (1 sub-exception): ValueError: a",
        ),
        (ExceptionGroup("g", [Hidden()]), "g (1 sub-exception): Hidden"),
    ],
)
def test_the_text_of_a_group_has_its_inner_errors(group, text):
    assert read_error(group).text == text


def test_the_text_of_a_large_group_is_limited():
    text = read_error(ExceptionGroup("many", [ValueError(n) for n in range(2000)])).text
    assert text.startswith("many (2000 sub-exceptions): ValueError: 0; ")
    assert text.count("ValueError") == 20
