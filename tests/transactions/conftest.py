"""A PostgreSQL server, and the files of the page about transactions."""

from __future__ import annotations

import pytest

from tests.documents.pages import read_blocks
from tests.postgresql import PostgreSQL


@pytest.fixture(scope="session")
def postgresql():
    server = PostgreSQL()
    yield server
    server.stop()


@pytest.fixture
def database(postgresql):
    """A connection to the server, without tables."""
    with postgresql.connect() as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
        yield connection


@pytest.fixture(scope="session")
def documented():
    """Return the code of a file of the page."""
    return {each.file: each.code for each in read_blocks("transactions.md") if each.file}
