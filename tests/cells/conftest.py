"""Sets of cells on one server, by either kind of client."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from rsmq import AsyncCells, Cells
from rsmq.wire.cells import name_of_cell
from tests.blocking import Blocking

_numbers = itertools.count()


class Place:
    """
    A set of cells, and the clients that a test opens there.

    Attributes:
        mode: "sync" or "asyncio", the kind of the clients.
        raw: redis-py's commands for the keys.
        ns: the name of the set.
        number: the number of cells.
    """

    def __init__(self, mode, url, raw, *, number=6):
        self.mode = mode
        self.url = url
        self.raw = raw
        self.ns = f"c{next(_numbers)}-{mode}"
        self.number = number
        self._runner = asyncio.Runner() if mode == "asyncio" else None
        self._closing = []

    def make_client(self, **options):
        """Return a client that the caller closes."""
        options = {"ns": self.ns, "cells": self.number, **options}
        kind = Cells if self._runner is None else AsyncCells
        return kind.from_url(options.pop("url", self.url), **options)

    def open(self, **options):
        """Return a client whose methods block; it is closed after the test."""
        client = self.make_client(**options)
        blocking = client if self._runner is None else Blocking(self._runner, client)
        self._closing.append(blocking.close)
        return blocking

    def cell(self, index):
        """Return the namespace of a cell."""
        return name_of_cell(self.ns, index)

    def bodies(self, queue):
        """Return the bodies of a queue by id, for each cell, in the order of the queue."""
        found = []
        for index in range(self.number):
            ids = self.raw.zrange(f"{self.cell(index)}:{queue}", 0, -1)
            bodies = [self.raw.hget(f"{self.cell(index)}:{queue}:Q", id) for id in ids]
            found.append({id.decode(): body for id, body in zip(ids, bodies, strict=True)})
        return found

    def close(self):
        for close in reversed(self._closing):
            close()
        if self._runner is not None:
            self._runner.close()


@pytest.fixture(params=["sync", "asyncio"])
def mode(request):
    return request.param


@pytest.fixture
def place(mode, server):
    with server.raw() as raw:
        place = Place(mode, server.url, raw)
        yield place
        place.close()
        keys = raw.keys(f"{{{place.ns}.*")
        if keys:
            raw.unlink(*keys)


@pytest.fixture
def cells(place):
    client = place.open()
    client.create_queue("q")
    return client
