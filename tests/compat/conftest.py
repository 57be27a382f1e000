"""The real rfq, which other tests have too."""

from __future__ import annotations

from tests.migrate.conftest import answering_rfq, topic

__all__ = ["answering_rfq", "topic"]
