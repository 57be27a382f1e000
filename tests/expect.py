"""Expectations that pytest has no word for."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest


@contextmanager
def refused(kind, text):
    """The block raises this error with exactly this text; the result has it as ``error``."""
    result = SimpleNamespace(error=None)
    with pytest.raises(kind) as caught:
        yield result
    result.error = caught.value

    assert type(caught.value) is kind
    assert str(caught.value) == text
