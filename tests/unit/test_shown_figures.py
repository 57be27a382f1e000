"""The speed of an operation, and the time of figures, as pages show them."""

import pytest

from rsmq.web.bulk.records import _rate_of
from rsmq.web.pages.views.overview import _recorded_at


@pytest.mark.parametrize(
    ("arguments", "rate"),
    [
        # The pause after a step that is recorded has not passed yet.
        ({"rate": 100}, 100),
        ({"rate": 300}, 200),
        ({}, 200),
        # With a filter it looks at more messages than it changes.
        ({"rate": 100, "filter": "body:x"}, 200),
    ],
)
def test_the_speed_of_an_operation_is_at_most_its_limit(arguments, rate):
    raw = {"taken": "1000", "taken_scanned": "50", "advanced": "1500", "scanned": "150"}
    assert _rate_of(raw, arguments) == rate


def test_figures_are_as_of_the_last_minute_that_was_recorded():
    history = {"start_ms": 60_000, "step": 60, "visible": [1, None, 3, None]}
    assert _recorded_at(history) == "at 00:04"  # the end of the third minute
    assert not _recorded_at({**history, "visible": [None]})
