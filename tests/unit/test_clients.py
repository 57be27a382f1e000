"""The two clients have the same methods."""

from __future__ import annotations

import inspect
import subprocess
import sys

import fakeredis
import pytest
import redis
import redis.asyncio
from redis.cluster import RedisCluster
from rsmq._sync.engine import CellEngine

from rsmq import (
    RSMQ,
    AsyncCells,
    AsyncRSMQ,
    Cells,
    ClientClosed,
    InvalidFormat,
    InvalidValue,
    Message,
    MissingParameter,
)
from rsmq._sync.one_cell import OneCell
from tests.expect import refused

TWINS = {"__enter__": "__aenter__", "__exit__": "__aexit__"}


def methods(kind):
    return {
        name: member
        for name, member in vars(kind).items()
        if inspect.isfunction(member) or isinstance(member, classmethod)
    }


def shape(function):
    function = getattr(function, "__func__", function)
    return [
        (
            parameter.name,
            parameter.kind,
            parameter.default,
            str(parameter.annotation).replace("AsyncJobHandle", "JobHandle"),
        )
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in {"client", "caller"}
    ]


def test_the_clients_have_the_same_methods():
    assert {TWINS.get(name, name) for name in methods(RSMQ)} == set(methods(AsyncRSMQ))


@pytest.mark.parametrize("name", methods(RSMQ))
def test_the_clients_methods_have_the_same_parameters_and_defaults(name):
    sync, twin = methods(RSMQ)[name], methods(AsyncRSMQ)[TWINS.get(name, name)]

    assert shape(sync) == shape(twin)
    assert inspect.getdoc(twin) or name.startswith("_")
    if not name.startswith("_"):
        assert len(sync.__doc__.splitlines()) > 2
        assert len(twin.__doc__.splitlines()) > 2


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
@pytest.mark.parametrize("name", [n for n in methods(RSMQ) if not n.startswith("_")])
def test_a_docstring_names_every_parameter(kind, name):
    function = methods(kind)[name]
    function = getattr(function, "__func__", function)

    for parameter in inspect.signature(function).parameters:
        if parameter not in ("self", "cls", "old"):
            assert f"{parameter}:" in function.__doc__, parameter


#: What a plain client has and a set of cells has not: operations run in one namespace, and each
#: cell has an address and settings of its own. ``cells`` has the client of each, which has these.
ONLY_IN_A_CELL = {
    "run", "run_steps", "namespace", "watcher", "codec", "realtime", "origin", "address",
}  # fmt: skip
#: The parameters that only a set has: its number of cells, and what chooses the cell of a send.
ONLY_IN_A_SET = {
    "__init__": ["cells"],
    "from_url": ["cells"],
    "send_message": ["key"],
    "send_messages": ["key"],
    "publish": ["key"],
}


def public_members(kind):
    return {name for name in vars(kind) if not name.startswith("_") or name == "__init__"}


@pytest.mark.parametrize(("plain", "cells"), [(RSMQ, Cells), (AsyncRSMQ, AsyncCells)])
def test_a_plain_client_and_a_set_of_cells_have_the_same_public_methods(plain, cells):
    assert public_members(plain) - public_members(cells) == ONLY_IN_A_CELL
    assert public_members(cells) <= public_members(plain)


@pytest.mark.parametrize(("plain", "cells"), [(RSMQ, Cells), (AsyncRSMQ, AsyncCells)])
def test_methods_of_a_set_have_the_parameters_of_a_plain_client(plain, cells):
    differences = {}
    for name in public_members(cells):
        if isinstance(vars(plain)[name], property):
            continue
        of_plain, of_set = ([each[:3] for each in shape(vars(k)[name])] for k in (plain, cells))
        assert [each for each in of_set if each in of_plain] == of_plain, name
        if added := [each[0] for each in of_set if each not in of_plain]:
            differences[name] = added

    assert differences == ONLY_IN_A_SET


@pytest.mark.parametrize("member", sorted(public_members(OneCell) - {"__init__"}))
def test_the_engine_of_a_plain_client_is_called_as_that_of_a_set(member):
    of_plain, of_set = (
        inspect.getattr_static(kind, member, None) for kind in (OneCell, CellEngine)
    )

    if inspect.isfunction(of_plain):
        names = list(inspect.signature(of_plain).parameters)
        assert list(inspect.signature(of_set).parameters)[: len(names)] == names


@pytest.mark.parametrize(
    ("plain", "server"),
    [
        (RSMQ, fakeredis.FakeRedis),
        (AsyncRSMQ, fakeredis.FakeAsyncRedis),
    ],
)
def test_a_plain_client_is_its_only_cell(plain, server):
    queues = plain(server(), ns="shop")

    assert queues.cells == (queues,)
    assert (queues.engine.number, queues.engine.clients) == (1, (queues,))
    assert queues.engine.place == {"ns": "shop"}
    assert queues.engine.message_class(0) is Message
    assert queues.engine.show_id(0, "7-id") == "7-id"
    assert queues.engine.split_id("7-id") == (0, "7-id")


def test_a_set_has_the_client_of_each_cell():
    with Cells(fakeredis.FakeRedis(), cells=3, ns="shop") as queues:
        assert [each.namespace.name[:7] for each in queues.cells] == [
            "{shop.0",
            "{shop.1",
            "{shop.2",
        ]
        assert all(each.cells == (each,) for each in queues.cells)
        assert queues.engine.place == {"ns": "shop", "cells": 3}


def test_importing_the_package_imports_no_extra():
    program = (
        "import sys, rsmq, rsmq.worker\n"
        "rsmq.RSMQ, rsmq.AsyncRSMQ, rsmq.Cells\n"
        "extras = {'fakeredis', 'lupa', 'pyspark', 'rich', 'rsmq.transport.memory', 'rsmq.web'}\n"
        "extras |= {'starlette', 'uvicorn', 'h11', 'anyio', 'jinja2', 'fastapi', 'django'}\n"
        "extras |= {'aiohttp', 'cronsim', 'prometheus_client', 'pydantic', 'sqlalchemy'}\n"
        "sys.exit(bool(extras & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_missing_extra_is_named():
    program = (
        "import sys; sys.modules['fakeredis'] = None\n"
        "from rsmq import RSMQ, MissingExtra\n"
        "try:\n    RSMQ.from_url('memory://')\n"
        "except MissingExtra as error:\n    print(error.hint)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert result.stdout == "In a clone of the repository: pip install '.[embedded]'\n"


@pytest.mark.parametrize(
    ("kind", "client"),
    [
        (RSMQ, redis.asyncio.Redis()),
        (RSMQ, "redis://127.0.0.1"),
        (RSMQ, None),
        (RSMQ, redis.Redis().pipeline()),
        (AsyncRSMQ, redis.asyncio.Redis().pipeline()),
        (AsyncRSMQ, redis.Redis()),
        (AsyncRSMQ, None),
    ],
)
def test_a_client_of_the_wrong_type_is_refused(kind, client):
    with refused(InvalidFormat, "Invalid client format") as caught:
        kind(client)

    assert type(client).__name__.removesuffix("Type") in str(caught.error)
    assert (
        "Pass a redis." in caught.error.hint
        or "Use" in caught.error.hint
        or "from_url" in caught.error.hint
    )


def all_texts(error):
    """Return all texts of an error, and of the errors that are reachable from it."""
    texts, errors = [], [error]
    while errors:
        each = errors.pop()
        texts += [repr(each), str(each), repr(vars(each)), *getattr(each, "__notes__", [])]
        texts += [repr(getattr(each, "object", ""))]  # of a UnicodeError
        errors += [one for one in (each.__cause__, each.__context__) if one is not None]
    return "".join(texts)


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
@pytest.mark.parametrize("options", [{"no_such_option": "s3cret"}, {"socket_timeout": "s3cret"}])
def test_refused_options_are_not_shown(kind, options):
    with pytest.raises(InvalidFormat) as caught:
        kind.from_url("redis://user:s3cret@127.0.0.1/0?db=x", **options)
    assert "cret" not in all_texts(caught.value)


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
@pytest.mark.parametrize(
    "url",
    [
        "http://user:s3cret@host:1/",
        "redis://user:s3cret@host:port/",
        "redis://user:s3/cret@host:1/?socket_timeout=soon",
        "redis://host/?password=s3cret&db=x",
        "redis:/user:s3cret@host",
        "redis://user:s3cret@host:1/five",
        "rediss://user:s3cret@host:1/0/1",
        "redis://user:[s3cret]@host/0",
        "redis://user:s3cret\u2100@host/0",
        "redis://[s3cret",
        "redis://user:s3cret",
        "redis://user:s3cret/0",
        "redis://host/s3cret",
        "redis://host/five?password=x@s3cret",
        "s3cret",
        "",
    ],
)
def test_an_invalid_url_is_refused_and_its_password_is_not_shown(kind, url):
    with refused(InvalidFormat, "Invalid url format") as caught:
        kind.from_url(url)

    remedies = "redis://", "percent", "database", "Is the variable with the URL set?"
    assert any(each in caught.error.hint for each in remedies)
    assert "cret" not in all_texts(caught.error)


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
def test_other_arguments_are_checked_before_anything_is_opened(kind):
    with refused(InvalidFormat, "Invalid url format"):
        kind.from_url(None)
    with refused(MissingParameter, "No ns supplied"):
        kind.from_url("memory://", ns="")
    with refused(InvalidFormat, "Invalid codec format"):
        kind.from_url("memory://", codec="json")
    with refused(InvalidValue, "retry_deadline must be between 0 and 86400"):
        kind.from_url("memory://", retry_deadline=-1)


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
def test_options_unknown_to_redis_py_are_refused_immediately(kind):
    with refused(InvalidFormat, "Invalid options format") as caught:
        kind.from_url("redis://127.0.0.1:1/0", sockettimeout=3)
    assert "sockettimeout" in caught.error.hint
    with refused(InvalidFormat, "Invalid options format"):
        kind.from_url("redis://127.0.0.1:1/0?sockettimeout=3")


def test_a_cluster_needs_a_hash_tag():
    # Only the type matters. The initializer would connect to the nodes.
    cluster = RedisCluster.__new__(RedisCluster)

    with refused(InvalidFormat, "Invalid ns format") as caught:
        RSMQ(cluster)
    assert "ns='{rsmq}'" in caught.error.hint


def test_close_does_not_close_a_wrapped_client():
    inner = fakeredis.FakeRedis()
    with RSMQ(inner) as client:
        client.create_queue("q")

    with refused(ClientClosed, "Client is closed"):
        client.list_queues()
    assert inner.smembers("rsmq:QUEUES") == {b"q"}


def test_embedded_redis_has_no_timeout_that_a_short_deadline_could_shorten():
    with RSMQ.from_url("memory://short", retry_deadline=0.5, socket_timeout=5) as queues:
        queues.create_queue("q")
        assert queues.list_queues() == ["q"]


def test_clients_of_one_memory_url_share_data_except_without_a_name():
    one, two = RSMQ.from_url("memory://shared"), RSMQ.from_url("memory://shared")
    one.create_queue("q")
    one.close()

    assert two.list_queues() == ["q"]
    assert RSMQ.from_url("memory://other").list_queues() == []
    nameless = RSMQ.from_url("memory://")
    nameless.create_queue("q")
    assert RSMQ.from_url("memory://").list_queues() == []


def test_repr_of_a_client_shows_neither_url_nor_password():
    client = RSMQ.from_url("redis://user:s3cret@127.0.0.1:1/0")

    assert repr(client) == "RSMQ(ns='rsmq', codec=rsmq.TEXT)"
