"""URLs: their passwords, their options, and texts without secrets."""

from __future__ import annotations

import pytest
import redis

from rsmq import RSMQ, AsyncRSMQ, InvalidFormat, InvalidValue
from rsmq.transport.topology.address import Address
from rsmq.transport.url import (
    has_password,
    option_names,
    parse_group_url,
    redact,
    split_password,
    split_sentinel_password,
    with_options,
    without_options,
)
from tests.expect import refused


@pytest.mark.parametrize(
    ("url", "without", "password"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0", None),
        ("redis://user@host/1", "redis://user@host/1", None),
        ("redis://user:a%3Ab@host:1/2?protocol=3", "redis://user@host:1/2?protocol=3", "a:b"),
        ("rediss://:p@host/0", "rediss://host/0", "p"),
        ("redis://user:@host/0", "redis://user@host/0", ""),
    ],
)
def test_password_is_split_from_the_url(url, without, password):
    assert split_password(url) == (without, password)


def test_split_of_another_text_is_refused_without_showing_it():
    with pytest.raises(InvalidFormat) as caught:
        split_password("http://user:secret@host")
    assert "secret" not in str(caught.value) + caught.value.hint


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://host/0", False),
        ("redis://user@host/0", False),
        ("redis://user:p@host/0", True),
        ("unix:///run/redis.sock?password=p", True),
        ("redis://host/0?ssl_Password=", True),
        ("redis://host/0?protocol=3", False),
        ("redis://[::1/0", None),
    ],
)
def test_password_of_a_url_is_found(url, expected):
    assert has_password(url) is expected


def test_options_are_removed_by_name():
    url = "redis://u:p@host:1/2?protocol=3&db=4&encoding="
    assert without_options(url, {"protocol", "encoding"}) == "redis://u:p@host:1/2?db=4"


def test_options_are_named_and_added():
    assert option_names("redis://[::1/0?a=1&b=") == ["a", "b"]
    assert with_options("redis://h/0", {}) == "redis://h/0"
    assert with_options("redis://h/0", {"a": "1 2"}) == "redis://h/0?a=1+2"
    assert with_options("redis://h/0?a=1", {"b": "2"}) == "redis://h/0?a=1&b=2"


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("no url here", "no url here"),
        ("at redis://u:geheim@h/0.", "at redis://***@h/0."),
        ("option password=geheim&x", "option password=***&x"),
        ("cut redis://u:gehei… off", "cut redis://*** off"),
        ("a@b //x@y", "a@b //***@y"),
    ],
)
def test_text_is_redacted(text, redacted):
    assert redact(text) == redacted


@pytest.mark.parametrize(
    ("url", "seeds", "service", "server_url"),
    [
        ("redis+cluster://h:7000,[::1]:7001", [("h", 7000), ("::1", 7001)], None,
         "redis://localhost/"),
        ("rediss+cluster://u:p%40@h/0", [("h", 6379)], None, "rediss://u:p%40@localhost/0"),
        ("redis+sentinel://a,b:5/my/3?sentinel_password=x&protocol=3",
         [("a", 26379), ("b", 5)], "my", "redis://localhost/3?protocol=3"),
    ],
)  # fmt: skip
def test_parts_of_the_url_of_several_servers(url, seeds, service, server_url):
    parts = parse_group_url(url)

    assert [tuple(each) for each in parts.seeds] == seeds
    assert (parts.service, parts.server_url) == (service, server_url)
    assert parts.sentinel_password == ("x" if service else None)
    assert "p%40" not in repr(parts)


@pytest.mark.parametrize(
    ("text", "address", "reachable"),
    [
        ("10.0.0.1:6379=127.0.0.1:7001", ("10.0.0.1", 6379), ("127.0.0.1", 7001)),
        ("10.0.0.1:6379=127.0.0.1:7001", ("10.0.0.1", 6380), ("10.0.0.1", 6380)),
        ("a:1=b:2,c=d", ("c", 5), ("d", 5)),
        ("a:1=b:2,a=c", ("a", 1), ("b", 2)),
        ("[::1]:1=[::2]:2", ("::1", 1), ("::2", 2)),
        ("%5B%3A%3A1%5D%3A1=h%3A2", ("::1", 1), ("h", 2)),
    ],
)
@pytest.mark.parametrize("scheme", ["redis+cluster://h", "redis+sentinel://h/my"])
def test_addresses_are_changed_by_the_url(scheme, text, address, reachable):
    parts = parse_group_url(f"{scheme}?address_remap={text}&protocol=3")

    assert parts.address_remap(address) == reachable
    assert parts.server_url == "redis://localhost/?protocol=3"


@pytest.mark.parametrize("pair", ["", "a:1", "a:1=", "=b:1", "a:x=b:1", "a:1=b:70000", "a=b=c"])
def test_wrong_address_remap_of_a_url_is_refused(pair):
    with pytest.raises(InvalidFormat, match="HOST:PORT=HOST:PORT") as caught:
        parse_group_url(f"redis+cluster://h?address_remap=x:1=y:2,{pair}")

    assert caught.value.value == pair


def test_options_of_a_call_belong_to_the_group():
    parts = parse_group_url("redis+sentinel://h/my?sentinel_password=x")
    options = {"sentinel_username": "u", "sentinel_password": "y", "protocol": 3}

    taken = parts.take_options(options)

    assert (taken.sentinel_username, taken.sentinel_password) == ("u", "x")
    assert options == {"protocol": 3}
    with pytest.raises(InvalidFormat, match="Pass a function"):
        parts.take_options({"address_remap": "a=b"})


@pytest.mark.parametrize(("database", "db"), [("", 3), ("/", 3), ("/2", 2), ("?db=4", 4)])
def test_database_of_a_sentinel_url_has_precedence_over_the_option(database, db):
    with RSMQ.from_url(f"redis+sentinel://h/my{database}", db=3) as rsmq:
        router = rsmq._caller._router
        assert router.connections_to(Address("h", 1)).pool.connection_kwargs["db"] == db


def test_password_of_sentinels_is_removed_from_a_url():
    url = "redis+sentinel://h/my/0?sentinel_password=s%40cret&protocol=3"
    assert split_sentinel_password(url) == ("redis+sentinel://h/my/0?protocol=3", "s@cret")
    for other in ("redis+sentinel://h/my/0", "redis://h?sentinel_password=x"):
        assert split_sentinel_password(other) == (other, None)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("redis+cluster://u:secret@h:1,h:x/0", "hosts and ports, separated by commas"),
        ("redis+cluster://h:70000", "hosts and ports"),
        ("redis+cluster://", "hosts and ports"),
        ("redis+cluster://h/1", "database 0 only"),
        ("redis+sentinel://h", "name the primary"),
        ("redis+sentinel://h/my/db", "number of the database"),
    ],
)
def test_wrong_url_of_several_servers_is_refused_without_its_secrets(url, hint):
    with pytest.raises(InvalidFormat, match=hint) as caught:
        parse_group_url(url)

    assert "secret" not in str(caught.value)
    assert hint in redact(caught.value.hint)


@pytest.fixture(params=[RSMQ, AsyncRSMQ])
def from_url(request):
    return request.param.from_url


LABEL_RULE = "Each part of it between dots has 1 to 63 characters"


@pytest.mark.parametrize("host", ["redis..svc", ".svc", "a." + 64 * "a"])
@pytest.mark.parametrize(
    "form", ["redis://{}:1/0", "redis+cluster://h,{}:1", "redis+sentinel://{}/m"]
)
def test_an_impossible_host_name_is_refused(from_url, form, host):
    with refused(InvalidFormat, "Invalid host name format") as caught:
        from_url(form.format(host), ns="{a}")

    assert str(caught.error) == f"Invalid host name format: '{host}'. {LABEL_RULE}"
    assert caught.error.__context__ is None or caught.error.__suppress_context__


def test_an_impossible_host_name_in_an_option_is_refused(from_url):
    with refused(InvalidFormat, "Invalid host name format"):
        from_url("redis://", host="redis..svc")


@pytest.mark.parametrize("host", ["redis.svc.", "müller.example", "[::1]", "a-b_c", "1.2.3.4"])
def test_other_host_names_are_accepted(from_url, host):
    from_url(f"redis://{host}:1/0")


@pytest.mark.parametrize("name", ["socket_timeout", "socket_connect_timeout"])
@pytest.mark.parametrize("value", [-1, 0, float("nan"), float("inf"), "x"])
def test_a_timeout_is_a_positive_number(from_url, name, value):
    text = f"{name} must be between 0.001 and 9999999"
    with refused(InvalidValue, text) as caught:
        from_url("redis://h", **{name: value})
    if value == "x":
        with refused(InvalidFormat, f"Invalid {name} format") as in_url:
            from_url(f"redis://h?{name}={value}")
        assert str(in_url.error) == f"Invalid {name} format: 'x'. Pass a number of seconds"
    else:
        with refused(InvalidValue, text):
            from_url(f"redis+cluster://h?{name}={value}", ns="{a}")

    assert str(caught.error) == f"{text}, not {value!r}. Pass a number of seconds"


@pytest.mark.parametrize(
    "url", ["redis://h", "unix:///s", "redis+cluster://h", "redis+sentinel://h/m"]
)
def test_an_option_without_a_value_is_refused(from_url, url):
    for options in ("socket_timeout=", "protocol=3&socket_timeout", "socket_timeout=&protocol=3"):
        with refused(InvalidFormat, "Invalid url format") as caught:
            from_url(f"{url}?{options}", ns="{a}")

        assert str(caught.error) == (
            f"Invalid url format: '{url}'. The option socket_timeout has no value: add one, or "
            "remove the option"
        )


@pytest.mark.parametrize("url", ["redis://:p?secret=@h/0", "redis://:p?db=secret@h/0"])
def test_a_part_of_a_password_is_not_shown_as_an_option(from_url, url):
    with refused(InvalidFormat, "Invalid url format") as caught:
        from_url(url)

    assert "secret" not in str(caught.error)


@pytest.mark.parametrize("kind", [RSMQ, AsyncRSMQ])
@pytest.mark.parametrize(
    "url", ["redis+cluster://a:7000", "redis+sentinel://a:26379/p/0", "redis://a"]
)
def test_no_option_makes_a_client_connect_before_its_first_call(kind, url, monkeypatch):
    def connect(self, *_, **__):
        raise AssertionError("connected")

    monkeypatch.setattr(redis.Connection, "connect", connect)
    assert kind.from_url(url, ns="{a}", single_connection_client=True)
