"""Tasks in a server of this process, which no other test sees."""

from __future__ import annotations

import itertools

import pytest

from rsmq.tasks import Tasks

_numbers = itertools.count()


@pytest.fixture
def tasks():
    with Tasks.from_url(f"memory://tasks-{next(_numbers)}") as tasks:
        yield tasks


@pytest.fixture
def raw(tasks):
    """Return the bodies of a queue, as other clients see them."""

    def read(queue):
        return [each.raw.decode() for each in tasks.client.peek_messages(queue)]

    return read
