"""docs/tracing.md is complete."""

from __future__ import annotations

from tests.documents.pages import PAGES


def test_the_page_names_every_public_name():
    from rsmq import opentelemetry

    text = PAGES["tracing.md"].read_text()
    assert all(f"`{name}(" in text for name in opentelemetry.__all__)
