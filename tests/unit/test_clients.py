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

from rsmq import RSMQ, AsyncRSMQ, ClientClosed, InvalidFormat, InvalidValue, MissingParameter
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
            str(parameter.annotation).replace("Async", ""),
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


def test_importing_the_package_imports_no_extra():
    program = (
        "import sys, rsmq, rsmq.worker, rsmq.tasks\n"
        "rsmq.RSMQ, rsmq.AsyncRSMQ\n"
        "extras = {'fakeredis', 'lupa', 'pyspark', 'rich', 'rsmq.transport.memory', 'rsmq.web'}\n"
        "extras |= {'starlette', 'uvicorn', 'h11', 'anyio', 'jinja2', 'fastapi', 'django'}\n"
        "extras |= {'zstandard', 'obstore', 'cryptography.hazmat', 'rsmq.opentelemetry'}\n"
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
    for arguments in (
        {"url": "redis://127.0.0.1:1/0", "sockettimeout": 3},
        {"url": "redis://127.0.0.1:1/0?sockettimeout=3"},
        {"url": "memory://", "sockettimeout": 3},
        {"url": "memory://?sockettimeout=3"},
    ):
        with refused(InvalidFormat, "Invalid sockettimeout format") as caught:
            kind.from_url(**arguments)
        assert caught.error.hint.startswith("There is no such option.")


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


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
def test_embedded_redis_takes_the_options_of_a_server(kind):
    options = {"password": "p", "socket_timeout": 3, "ssl_ca_certs": "ca.pem", "db": 1}
    kind.from_url("memory://options", **options)
    kind.from_url("memory://options?socket_timeout=3")
    with refused(InvalidValue, "socket_timeout must be between 0.001 and 9999999"):
        kind.from_url("memory://options", socket_timeout=0)


def test_embedded_redis_has_the_same_name_with_and_without_options():
    name = "memory://named-with-options"
    with RSMQ.from_url(name) as one, RSMQ.from_url(f"{name}?socket_timeout=3") as other:
        one.create_queue("q")
        assert other.list_queues() == ["q"]


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
