"""Expectations beyond those of pytest."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import pytest


@contextmanager
def refused(kind, text):
    """Expect exactly this error and ``text`` of the block. Yields an object with ``error``."""
    result = SimpleNamespace(error=None)
    with pytest.raises(kind) as caught:
        yield result
    result.error = caught.value

    assert type(caught.value) is kind
    assert getattr(caught.value, "text", str(caught.value)) == text
