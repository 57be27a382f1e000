"""The language of filters: what fits, and where the fault of a bad filter is."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rsmq.errors import InvalidFormat
from rsmq.search.json_path import ANY, find_values, parse_path
from rsmq.search.message_filter import FilteredMessage, parse_filter
from rsmq.search.redaction import MARK, Redaction
from rsmq.web.json_text import values_at


def _fits(text, body=b"", *, id="a" * 32, count=0, sent_us=None):
    return parse_filter(text).fits(FilteredMessage(id, body, count, sent_us))


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("", b""),
        ("id:aaa", b""),
        ('body:"red shoes"', b"two red shoes"),
        ("body:a\u00e4", "xa\u00e4".encode()),
        (r'body:"\u00e4\""', '\u00e4"'.encode()),
        ("json.a:5", b'{"a": 5.0}'),
        ("json.a:5", b'{"a": "5"}'),
        ('json.a:"5"', b'{"a": "5"}'),
        ("json.a:null", b'{"a": null}'),
        ("json.a:true", b'{"a": true}'),
        ("json.a.b:x", b'{"a": {"b": "x"}}'),
        ("json.a.b:x", b'[{"a": [{"b": "y"}, {"b": "x"}]}]'),
        ("json.tags:x", b'{"tags": ["y", "x"]}'),
        ("json.a.1:x", b'{"a": ["y", "x"]}'),
        ("json.*.b:x", b'{"a": {"b": "x"}}'),
        ("json.a.*:x", b'{"a": ["x"]}'),
        ('json."a.b"."\u00e4":x', '{"a.b": {"\u00e4": "x"}}'.encode()),
        ("json.a>=3", b'{"a": 3}'),
        ("json.a<3  json.a>1", b'{"a": 2.5}'),
        ("rc>=3", b""), ("rc:3", b""), ("rc<4", b""), ("rc<=3", b""), ("rc>2", b""),
        ("sent<2026-10-25T01:30:00Z", b""),
        ("sent<=1700000000000 sent>=1700000000000", b""),
        ("sent>2023-11-14T22:13:19.999999Z", b""),
    ],
)  # fmt: skip
def test_a_message_fits(text, body):
    assert _fits(text, body, count=3, sent_us=1_700_000_000_000_000)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("id:aaA", b""),
        ("body:Red", b"red"),
        ('json.a:"5"', b'{"a": 5}'),
        ("json.a:1", b'{"a": true}'),
        ("json.a:x", b"a:x"),
        ("json.a:x", b'{"b": "x"}'),
        ("json.a:x", b'{"a": {"x": 1}}'),
        ("json.a>=3", b'{"a": "3"}'),
        ("json.a:x", b'{"a": "x", "b": NaN}'),
        ("json.a:x", b"[" * 100_000),
        ("json.a:x", b'{"a": "x"} \xff'),
        ("rc:3", b""),
        ("body:a body:b", b"a"),
        ("sent<2026-10-25T01:30:00Z", b""),
    ],
)
def test_a_message_does_not_fit(text, body):
    assert not _fits(text, body, count=2)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("word", 1), ("body:", 6), ("rc>=x", 5), ("rc=3", 3), ("id<x", 3), ("sent:1", 5),
        ("sent<yesterday", 6), ("sent<2026-10-25T01:30:00", 6), ("json:x", 5), ("json.:x", 6),
        ("json.a b:x", 7), ('body:"x', 6), ('body:"x"y', 9), ('body:x "y"', 8), ("json.a<x", 8),
        (r'body:"\ud800"', 6), (r'body:"\x"', 6), ("rc>=1 rc>=-1", 11), ("json.a..b:x", 8),
        ("json." + ".".join("a" * 40) + ":x", 71), ("rc>1 " * 21, 101), ("a" * 2001, 2001),
        ("body:\ud800", 6),
    ],
)  # fmt: skip
def test_the_fault_of_a_filter_has_its_position(text, position):
    with pytest.raises(InvalidFormat) as raised:
        parse_filter(text)
    assert re.match(r"At character (\d+): ", raised.value.hint)[1] == str(position)


@pytest.mark.parametrize("text", ["", "a..b", "$.a", "a[0]", "json.a", "a b", '"a', "a."])
def test_a_bad_path_is_refused(text):
    with pytest.raises(InvalidFormat):
        parse_path(text)


def _wrapped(body, number):
    return b'{"headers":{},"body":' * number + body + b"}" * number


_MARKED_HEADERS = _wrapped(b'{"headers":"[redacted]"}', 2).replace(b"{}", b'"[redacted]"')


@pytest.mark.parametrize(
    ("paths", "body", "shown"),
    [
        (["a"], b'{"a": 1,  "b": 2}', b'{"a":"[redacted]","b":2}'),
        (["a"], b'{"b":  2}', b'{"b":  2}'),
        (["a.b"], b'{"a": [{"b": 1}, {"c": 2}]}', b'{"a":[{"b":"[redacted]"},{"c":2}]}'),
        (["*.b", "c"], b'{"a": {"b": {"x": 1}}}', b'{"a":{"b":"[redacted]"}}'),
        (["a.*"], b'{"a": [1, 2]}', b'{"a":["[redacted]","[redacted]"]}'),
        (["a"], b'{"a": 1, "b": [1, 2], "b": 2}', b'{"a":"[redacted]","b":2}'),
        (["a.b"], b'{"a": {"b": 1}, "a": 2}', b'{"a":2}'),
        (["a"], b'{"headers": {}, "body": {"a": 1}}', b'{"headers":{},"body":{"a":"[redacted]"}}'),
        (["a"], b'{"headers": {}, "body": "{a}"}', b'{"headers":{},"body":"[redacted]"}'),
        (["a"], b'{"a": NaN}', None),
        (["b"], b'{"a": {"b": "\xc3\xa9"}}', b'{"a": {"b": "\xc3\xa9"}}'),
        (
            ["a"],
            b'{"a": 1, "b": [1.10, 1e400, -0, 12345678901234567890.123, true, null, "\xc3\xa9"]}',
            b'{"a":"[redacted]","b":[1.10,1e400,-0,12345678901234567890.123,true,null,"\\u00e9"]}',
        ),
        (["a"], b'{"headers": {}, "body": 7}', b'{"headers":{},"body":"[redacted]"}'),
        (["a"], _wrapped(b'{"a": 1}', 8), _wrapped(b'{"a":"[redacted]"}', 8)),
        (["a"], _wrapped(b'{"b": 1}', 9), _wrapped(b'"[redacted]"', 9)),
        (["headers"], _wrapped(b'{"headers": 1}', 2), _MARKED_HEADERS),
        (["a"], b"7", None),
        (["a"], b"true", None),
        (["a"], b"text", None),
        (["a"], b'"{\\"a\\": 1}"', None),
        (["a"], b"\x81\xa1a\x01", None),
        (["a"], b'{"b": NaN}', None),
        (["a"], b'{"a":' * 5000 + b"1" + b"}" * 5000, None),
        ([], b"text", b"text"),
    ],
)
def test_values_at_paths_are_replaced_and_other_bodies_are_withheld(paths, body, shown):
    assert Redaction(tuple(map(parse_path, paths))).body(body) == shown


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        (b'{"a": 1, "b": 1}', {"a": "[redacted]", "b": 1}),
        (b"[{}]", [{}]),
        (b'"anna@example.org"', "[redacted]"),
        (b"7", "[redacted]"),
        (b"null", None),
        (None, None),
    ],
)
def test_values_at_paths_of_a_result_are_replaced_and_a_result_without_names_is(result, shown):
    assert Redaction((parse_path("a"),)).result(result) == shown
    assert Redaction().result(result) == (None if result is None else json.loads(result))


def test_of_exceptions_only_the_type_is_shown():
    redaction = Redaction((parse_path("a"),))
    assert redaction.failure("shop.Refused: anna@example.org") == "shop.Refused: [redacted]"
    assert redaction.failure("anna is refused: really") == "[redacted]"
    assert redaction.failure(None) is None
    assert Redaction().failure("ValueError: x") == "ValueError: x"


class Counted(list):
    """A list that counts how often its elements are visited."""

    visits = 0

    def __iter__(self):
        type(self).visits += 1
        return super().__iter__()


def _nested(depth):
    value = Counted()
    for _ in range(depth):
        value = Counted([value])
    return value


@pytest.mark.parametrize(
    "walk",
    [
        lambda value, path: list(find_values(value, path)),
        lambda value, path: list(find_values(value, path, elements=False)),
        lambda value, path: Redaction((path,)).redacted(value),
    ],
    ids=["filter", "columns", "redaction"],
)
@pytest.mark.parametrize("part", [ANY, "0"])
def test_a_walk_visits_each_list_once_however_many_ways_lead_to_it(walk, part):
    Counted.visits = 0
    walk(_nested(14), (part,) * 7 + ("x",))  # 6,435 ways
    assert 0 < Counted.visits <= 15


_VALUES = st.recursive(
    st.integers(0, 9),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab01"), inner, max_size=3)
    ),
    max_leaves=12,
)
_PATHS = st.lists(st.sampled_from(["a", "b", "0", "1", ANY]), min_size=1, max_size=4).map(tuple)


def _at(value, path):
    """Yield the places at a path, by the description of paths alone."""

    def walk(value, path, place):
        if not path:
            yield place
        is_list = isinstance(value, list)
        children = dict(enumerate(value)) if is_list else value if isinstance(value, dict) else {}
        for name, each in children.items():
            if path and (path[0] is ANY or path[0] == str(name)):
                yield from walk(each, path[1:], (*place, name))
            if is_list:
                yield from walk(each, path, (*place, name))

    return sorted(set(walk(value, path, ())), key=str)


def _read(value, place):
    for name in place:
        value = value[name]
    return value


@given(_VALUES, _PATHS)
def test_values_are_found_and_redacted_at_exactly_the_places_of_a_path(value, path):
    places = _at(value, path)
    found = list(find_values(value, path))
    assert sorted(map(json.dumps, found)) == sorted(json.dumps(_read(value, at)) for at in places)

    redacted = Redaction((path,)).redacted(value)
    expected = value if isinstance(value, list | dict) else MARK
    for place in sorted(places, key=len, reverse=True):
        expected = _replaced(expected, place)
    assert redacted == expected


def _replaced(value, place):
    if not place:
        return MARK
    copy = value.copy()
    copy[place[0]] = _replaced(value[place[0]], place[1:])
    return copy


@pytest.mark.parametrize(
    ("body", "path", "shown"),
    [
        ('{"a": [1, [2, 3]]}', "a", "[1, [2, 3]]"),
        ('{"a": 0, "b": [[1], 2]}', "*", "0, [[1], 2]"),
        ('{"a": [{"b": 1}, {"b": "x"}]}', "a.b", "1, x"),
        ('{"a": {"b": null}}', "a.b", "null"),
        ('{"a": 1}', "b", ""),
    ],
)
def test_a_column_shows_each_value_once(body, path, shown):
    assert values_at(body.encode(), parse_path(path)) == shown


@pytest.mark.parametrize(
    ("text", "key", "fits"),
    [("key:acme", "acme", True), ('key:"a b"', "a b", True), ("key:acme", "acm", False),
     ("key:acme", None, False)],
)  # fmt: skip
def test_a_limit_key_or_group_is_found_by_its_whole_name(text, key, fits):
    message = FilteredMessage("a", b"m", 1, None, key=key)
    assert parse_filter(text).fits(message) == fits
