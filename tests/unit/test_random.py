"""The generator of random numbers that programs seed."""

from __future__ import annotations

import random
from types import SimpleNamespace

from rsmq.schedules.operations import delayed
from rsmq.transport.backoff import with_jitter


def test_pauses_and_jitter_leave_the_generator_of_the_program_alone():
    state = random.getstate()

    assert 0.5 <= with_jitter(1.0) <= 1.0
    assert 5 <= delayed(SimpleNamespace(jitter=1.0), 5) <= 1005

    assert random.getstate() == state
