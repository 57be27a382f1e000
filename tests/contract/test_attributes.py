"""
Every attribute that is set when a queue is created or changed: its field, its range, its reading.

The attributes are those of the table.
"""

from __future__ import annotations

import pytest

from rsmq import InvalidFormat, InvalidValue
from rsmq.vocabulary.queues import CREATE, SET


def values_of(attribute):
    """Return values of an attribute: its limits, and what stands for none."""
    if attribute.choices:
        return [value for value, _ in attribute.choices]
    ends = {int(attribute.low), int(attribute.high), attribute.unlimited, attribute.removing}
    return sorted(ends - {None})


def wrong_values_of(attribute):
    if attribute.choices:
        return ["other", "", 1]
    return [int(attribute.low) - 2, int(attribute.high) + 1, 0.5, "1", True]


def field_of(env, attribute):
    return env.fields("q").get(attribute.field)


def expected(attribute, value):
    """Return a value as it is stored, and as it is read."""
    if value == attribute.removing:
        return None, attribute.default
    return str(value), value


@pytest.mark.parametrize("name", CREATE.options)
def test_a_queue_is_created_with_an_attribute(env, name):
    attribute = CREATE.options[name]
    for value in values_of(attribute):
        env.rsmq.create_queue("q", **{name: value})
        stored, read = expected(attribute, value)
        assert field_of(env, attribute) == stored
        assert getattr(env.rsmq.get_queue_attributes("q"), name) == read
        others = {each.name: each for each in CREATE.options.values() if each is not attribute}
        assert {each: getattr(env.rsmq.get_queue_attributes("q"), each) for each in others} == {
            each: others[each].default for each in others
        }
        env.rsmq.delete_queue("q")
    for value in wrong_values_of(attribute):
        with pytest.raises((InvalidValue, InvalidFormat)):
            env.rsmq.create_queue("q", **{name: value})
    assert env.rsmq.list_queues() == []
    assert env.fields("q") == {}


@pytest.mark.parametrize("name", SET.options)
def test_an_attribute_of_a_queue_is_changed_and_no_other_one(env, name):
    attribute = SET.options[name]
    env.rsmq.create_queue("dead")
    env.rsmq.create_queue("q")
    env.rsmq.set_dead_letter_policy("q", "dead", 3)
    before = env.fields("q")
    for value in values_of(attribute):
        changed = env.rsmq.set_queue_attributes("q", **{name: value})
        stored, read = expected(attribute, value)
        assert getattr(changed, name) == read
        assert field_of(env, attribute) == stored
        assert {
            field: each
            for field, each in env.fields("q").items()
            if field not in {attribute.field, "modified"}
        } == {
            field: each
            for field, each in before.items()
            if field not in {attribute.field, "modified"}
        }
    last = env.fields("q")
    for value in wrong_values_of(attribute):
        with pytest.raises((InvalidValue, InvalidFormat)):
            env.rsmq.set_queue_attributes("q", **{name: value})
    assert env.fields("q") == last
