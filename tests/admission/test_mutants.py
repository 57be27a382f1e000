"""
Changed scripts of groups: the machine of ``test_machine.py`` must find each change.

Not here is what the machine does not reach, and ``tests/contract/test_groups.py`` has: records of
many messages that are gone, limits on the work of a sweep, a new queue with old records; a sweep
after a crash
in the middle of an admission; and a release, by its id, of a message that another client has shown.
"""

from __future__ import annotations

import shutil
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from rsmq.operations import scripts as loader
from tests.admission.model import Size
from tests.admission.test_machine import GROUPS as GROUPS_OF_ONE
from tests.admission.test_machine import LIMIT_KEYS, GroupMachine
from tests.scale import SOAK

pytestmark = pytest.mark.slow


class Mutant(NamedTuple):
    """
    A change of a script.

    Attributes:
        file: the file in ``rsmq/lua``.
        text: what is replaced, all over the file.
        by: what replaces it.
        size: the size of the machine.
    """

    file: str
    text: str
    by: str
    size: Size = GROUPS_OF_ONE


GROUPS, SWEEPING, GROUPING = (
    f"fragments/{name}.lua" for name in ("groups", "sweeping_groups", "grouping")
)
SEND = "send_to_group.lua"
MUTANTS = {
    "a message that is gone keeps its room": Mutant(
        GROUPS, "return not redis.call('ZSCORE', zset, id)", "return false"
    ),
    "every message counts as gone": Mutant(
        GROUPS, "return not redis.call('ZSCORE', zset, id)", "return true"
    ),
    "its record stays in x:admitted": Mutant(
        GROUPS, "if redis.call('ZREM', zset .. ':x:admitted', member) == 0 then", "if true then"
    ),
    "its record stays in x:held_back": Mutant(
        GROUPS, "    redis.call('ZREM', zset .. ':x:held_back', member)\n  end", "  end"
    ),
    "an admission ends a lease": Mutant(GROUPS, "if not was_shown(hash, id) then", "if true then"),
    "an admission is not listed": Mutant(
        GROUPS, "redis.call('ZADD', zset .. ':x:admitted', '0', member)", ""
    ),
    "an admission leaves the score": Mutant(
        GROUPS, "if not was_shown(hash, id) then", "if false then"
    ),
    "an admission forgets the delay": Mutant(
        GROUPS, "math.max(group_of(zset, id) or 0, earl", "math.max(0, earl"
    ),
    "an admission leaves the message in x:held_back": Mutant(
        GROUPS, "  end\n  redis.call('ZREM', zset .. ':x:held_back', member)\nend", "  end\nend"
    ),
    "the last message of a group is admitted first": Mutant(
        GROUPS,
        "redis.call('ZRANGEBYLEX', list, '[' .. group .. '\\0', '(' .. group .. '\\1', 'LIMIT'",
        "redis.call('ZREVRANGEBYLEX', list, '(' .. group .. '\\1', '[' .. group .. '\\0', 'LIMIT'",
    ),
    "a group has room for all": Mutant(GROUPS, "room = room - 1", "room = room"),
    "a limit key has room for one more": Mutant(
        GROUPS, "'^\\1(%d+):')) or 1", "'^\\1(%d+):')) + 1 or 1", LIMIT_KEYS
    ),
    "a limit key has room for one": Mutant(
        GROUPS, "string.byte(group) == 1 and", "false and", LIMIT_KEYS
    ),
    "an admission fills one place": Mutant(
        GROUPS, "number = number + 1\n  end", "return 0, 1\n  end", LIMIT_KEYS
    ),
    "a send looks for the first message of a limit key only": Mutant(
        SEND, "string.byte(group) == 1 or ", "", LIMIT_KEYS
    ),
    "a sweep takes one message for many": Mutant(
        SWEEPING, "(scores[at] and 1 or 0)", "(scores[at] and 9 or 0)", LIMIT_KEYS
    ),
    "a delete admits no message": Mutant(GROUPS, "    admit(zset, hash, group, earliest)\n", ""),
    "a delete leaves the records": Mutant(
        GROUPS, "  forget_group(zset, group, id)\n  if members_of", "  if members_of"
    ),
    "no delete looks for groups": Mutant("fragments/leaving.lua", "mark == 71", "mark == 72"),
    "a single delete does not look for groups": Mutant(
        "delete_message.lua", "string.byte(id, -1) == 114", "string.byte(id, -1) == 115"
    ),
    "a send ignores that another message is admitted": Mutant(
        SEND, "local first = redis", "local first = nil and redis"
    ),
    "a send overtakes messages that are held back": Mutant(
        SEND, "local has_room = not first and not redis", "local has_room = not first or not redis"
    ),
    "a send waits for a message that is gone": Mutant(
        SEND, "or not redis.call('ZSCORE', zset, string.sub(first, #group + 2))", ""
    ),
    "a send does not hide the message": Mutant(
        SEND, "has_room and due or digits(now + 86400000)", "due"
    ),
    "a send lists each message as admitted": Mutant(
        SEND, "has_room and admitted or held_back", "admitted"
    ),
    "a send stores no record": Mutant(
        SEND, "redis.call('HSET', records, id, due .. ':' .. group)", ""
    ),
    "a batch has room for all": Mutant(
        GROUPING, "rooms[group] = admit(zset, hash, group)", "rooms[group] = 1"
    ),
    "a batch does not hide messages": Mutant(
        GROUPING, "members[at - 1] = digits(now + 86400000)", ""
    ),
    "a batch stores no records": Mutant(
        GROUPING, "variadic('HSET', zset .. ':x:group_of', records)", ""
    ),
    "a sweep leaves records": Mutant(SWEEPING, "    forget_group(zset, group, id)\n", ""),
    "a sweep renews no score": Mutant(SWEEPING, "< now + 43200000", "< 0"),
    "a sweep hides a message with a lease": Mutant(
        SWEEPING, " and not was_shown(hash, id) then", " then"
    ),
    "a sweep admits no message": Mutant(SWEEPING, "if rooms[group] > 0 and", "if false and"),
    "a sweep takes each group for busy": Mutant(
        SWEEPING,
        "(scores[at] and 1 or 0)",
        "1",
    ),
    "a release shows a message that is held back": Mutant(
        "fragments/held_back.lua", "not was_received(hash, id) and due or nil", "nil"
    ),
}
#: Those that each run of the tests tries.
FEW = ["a group has room for all", "a limit key has room for one more"]
MUTANTS["no change"] = Mutant(GROUPS, "", "")


@pytest.fixture
def mutated(request, monkeypatch, tmp_path):
    """Let the client load scripts with a change."""
    mutant = MUTANTS[request.param]
    folder = tmp_path / "lua"
    shutil.copytree(loader._SHARED_FRAGMENTS.parent, folder)
    text = (folder / mutant.file).read_text()
    assert mutant.text in text
    (folder / mutant.file).write_text(text.replace(mutant.text, mutant.by))
    monkeypatch.setattr(loader, "_SHARED_FRAGMENTS", folder / "fragments")
    found = loader._folder_of
    monkeypatch.setattr(loader, "_folder_of", lambda name: found(name) if name else folder)
    loader.load.cache_clear()
    yield mutant
    loader.load.cache_clear()


@pytest.mark.parametrize("mutated", MUTANTS if SOAK else FEW, indirect=True)
def test_the_machine_finds_a_changed_script(server, mutated):
    machine = type("Machine", (GroupMachine,), {"server": server, "size": mutated.size})
    once = settings(
        max_examples=3000,
        stateful_step_count=50,
        deadline=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    if mutated.text:
        with pytest.raises(AssertionError):
            run_state_machine_as_test(machine, settings=once)
    else:
        run_state_machine_as_test(machine, settings=settings(once, max_examples=20))
