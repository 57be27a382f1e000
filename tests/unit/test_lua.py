"""The headers of the scripts agree with their code, and each script belongs to one operation."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha1
from pathlib import Path

import pytest

import rsmq
from rsmq.operations.scripts import load, script_names
from rsmq.vocabulary.stored import ALL_QUEUE_FIELDS, MESSAGE_RECORDS
from rsmq.wire import fields, refusals
from rsmq.wire.keys import Namespace

PACKAGE = Path(rsmq.__file__).parent
#: The folder of each script.
FOLDERS = {
    name: PACKAGE / feature / "scripts" if feature else PACKAGE / "lua"
    for name, feature in sorted(script_names())
}
SCRIPTS = list(FOLDERS)
FEATURES = dict(script_names())
FRAGMENTS = {path.stem: path for path in sorted(PACKAGE.glob("**/fragments/*.lua"))}
SLOT = re.compile(r"^-- (KEYS|ARGV)\[(\d+)\] (\S+) +(.+)$", re.MULTILINE)
# All slots from a number on have one name.
REST = re.compile(r"^-- (KEYS|ARGV)\[(\d+)\.\.\.\] (\S+) +(.+)$", re.MULTILINE)
CODES = {
    value
    for name, value in vars(refusals).items()
    if name.isupper() and isinstance(value, str) and not name.startswith("_")
}


@cache
def text_of(name):
    return (FOLDERS[name] / f"{name}.lua").read_text()


def includes(text):
    return re.findall(r"^ *-- @include (\w+)\.lua$", text, re.MULTILINE)


@cache
def functions_of(fragment):
    return re.findall(r"^local function (\w+)", FRAGMENTS[fragment].read_text(), re.MULTILINE)


@cache
def calls_of(fragment):
    """Return a pattern of the calls of a fragment's functions, also of those that are passed on."""
    functions = "|".join(functions_of(fragment))
    assert functions
    return re.compile(rf"\b(?:{functions})\(|\bpcall\((?:{functions})\b|, (?:{functions})\)")


def uses(code, fragment):
    return calls_of(fragment).search(code) is not None


def header_and_code(name):
    lines = text_of(name).splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("--"))
    return "\n".join(lines[:end]), "\n".join(lines[end:])


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_header_has_all_its_fields_in_order(name):
    header, _ = header_and_code(name)
    found = re.findall(r"^-- (KEYS|ARGV|returns|errors |source |@include)", header, re.MULTILINE)
    order = ["KEYS", "ARGV", "returns", "errors ", "source ", "@include"]

    assert found == sorted(found, key=order.index)
    assert {"KEYS", "returns", "errors ", "source "} <= set(found)
    assert header.partition("\n--\n")[0].endswith(".")


@pytest.mark.parametrize("name", SCRIPTS)
def test_slots_in_the_header_are_those_in_the_code(name):
    header, code = header_and_code(name)
    documented = {(kind, int(number)) for kind, number, _, _ in SLOT.findall(header)}
    used = {(kind, int(n)) for kind, n in re.findall(r"\b(KEYS|ARGV)\[(\d+)\]", code)}

    assert documented == used
    for kind in ("KEYS", "ARGV"):
        numbers = sorted(number for of, number in documented if of == kind)
        assert numbers == list(range(1, len(numbers) + 1))
        rest = [int(number) for of, number, _, _ in REST.findall(header) if of == kind]
        assert rest in ([], [len(numbers) + 1])


@pytest.mark.parametrize("name", SCRIPTS)
def test_slots_are_assigned_to_names_first_and_used_by_name(name):
    header, code = header_and_code(name)
    names = {(kind, number): word for kind, number, word, _ in SLOT.findall(header)}
    body = code
    for words, slots in re.findall(
        r"^local ([\w, ]+) = ((?:KEYS|ARGV)\[.*\])$", code, re.MULTILINE
    ):
        pairs = re.findall(r"(KEYS|ARGV)\[(\d+)\]", slots)
        assert [names[pair] for pair in pairs] == words.split(", ")
        body = body.replace(f"local {words} = {slots}", "")
    for kind, _, word, _ in REST.findall(header):
        assert body.count(f"local {word} = {kind}\n") == 1
        body = body.replace(f"local {word} = {kind}\n", "")

    assert not re.search(r"\b(KEYS|ARGV)\b", body)


@pytest.mark.parametrize("name", SCRIPTS)
def test_errors_in_the_header_are_those_in_the_code(name):
    header, code = header_and_code(name)
    line = re.search(r"^-- errors  (.*)$", header, re.MULTILINE)[1]
    documented = set(re.findall(r"\b[A-Z]{8,}\b", line))
    # The errors that functions of fragments return.
    errors_of_functions = {
        "queue_not_found(": {"QUEUENOTFOUND"},
        "no_number(": {"INVALIDVALUE"},
        "trash_off(": {"TRASHOFF"},
        "undoable(": {"CANNOTUNDO"},
        "restorable(": {"CANNOTUNDO"},
        "not_open(": {"CANNOTUNDO"},
        "due_in_order(": {"QUEUENOTFOUND"},
        "check_destination(": {"QUEUENOTFOUND", "RUNREPLACED"},
        "stored_ms(of.vt)": {"INVALIDVALUE"},
        "plan_send(": {"QUEUENOTFOUND", "INVALIDVALUE", "MESSAGETOOLONG"},
        "sendable(": {"QUEUENOTFOUND", "INVALIDVALUE", "MESSAGETOOLONG"},
    }
    used = {word for word in CODES if f"'{word} '" in code}
    used = used.union(*(words for call, words in errors_of_functions.items() if call in code))

    assert documented == used <= CODES


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_includes_exactly_the_fragments_that_it_uses(name):
    text = text_of(name)
    code = re.sub(r"--.*", "", text)
    included = includes(text)
    in_blocks = {
        needed
        for indent, fragment in re.findall(r"^( *)-- @include (\w+)", text, re.MULTILINE)
        if indent
        for needed in includes(FRAGMENTS[fragment].read_text())
    }

    for fragment in FRAGMENTS:
        if fragment in included:
            assert uses(code, fragment) or fragment in in_blocks, fragment
        else:
            assert not uses(code, fragment), fragment


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_includes_exactly_the_fragments_that_it_uses(fragment):
    text = FRAGMENTS[fragment].read_text()
    code = re.sub(r"--.*", "", text)
    included = includes(text)
    reached = set(included)
    for name in included:
        reached |= all_fragments(name)

    for other in FRAGMENTS.keys() - {fragment}:
        if other in included:
            assert uses(code, other), other
        else:
            assert not uses(code, other) or other in reached, other


@cache
def all_fragments(fragment):
    """The fragments that a fragment includes, and those that these include."""
    direct = includes(FRAGMENTS[fragment].read_text())
    return set(direct).union(*map(all_fragments, direct))


def functions_in_blocks():
    """Return the functions that scripts make only for messages with groups, or of flows."""
    fragments = ("groups", "putting_off", "extending", "flows", "lost_nodes")
    return {each for fragment in fragments for each in functions_of(fragment)}


def has_blocks(name):
    """Return whether a script, or a fragment of it, makes functions only where they are needed."""
    fragments = set(includes(text_of(name)))
    fragments = fragments.union(*map(all_fragments, fragments))
    texts = [text_of(name), *(FRAGMENTS[each].read_text() for each in fragments)]
    return any(re.search(r"^ +-- @include", text, re.MULTILINE) for text in texts)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_loader_defines_each_function_that_is_used(name):
    source = load(name, FEATURES[name]).source.decode()
    defined = re.findall(r"^local function (\w+)", source, re.MULTILINE)
    calls = re.sub(r"--.*|function \w+", "", source)
    for fragment in FRAGMENTS:
        if uses(calls, fragment):
            assert set(functions_of(fragment)) <= set(defined)
    if not has_blocks(name):
        assert len(defined) == len(set(defined))


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_defines_functions_only(fragment):
    text = FRAGMENTS[fragment].read_text()
    outside = re.sub(r"(?ms)^local function .*?^end$", "", text)

    assert all(not line or line.startswith("--") for line in outside.splitlines())


@cache
def features_of_fragments():
    """Return the features that use each fragment."""
    users = {fragment: set() for fragment in FRAGMENTS}
    for name in SCRIPTS:
        for included in includes(text_of(name)):
            for fragment in {included, *all_fragments(included)}:
                users[fragment].add(FEATURES[name])
    return users


@pytest.mark.parametrize("feature", sorted({*FEATURES.values()}))
def test_a_fragment_of_one_feature_is_in_its_folder(feature):
    users = features_of_fragments()
    own = {
        each
        for each, path in FRAGMENTS.items()
        if feature and feature in path.relative_to(PACKAGE).parts
    }

    assert own == {each for each, of in users.items() if feature and of == {feature}}


def test_every_script_is_loaded_by_one_module_of_its_feature():
    places = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        text = path.read_text()
        if parts[0] == "operations" or re.search(r"\bload\(", text):
            feature = "" if parts[0] == "operations" else parts[0]
            for string in re.findall(r'"(\w+)"', text):
                if FEATURES.get(string) == feature:
                    places.setdefault(string, set()).add(path)

    assert {name: len(found) for name, found in places.items()} == dict.fromkeys(SCRIPTS, 1)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_loader_expands_and_names_a_script(name):
    script = load(name, FEATURES[name])

    assert script.name == name
    assert b"-- @include" not in script.source
    assert script.sha1 == sha1(script.source).hexdigest().encode()
    assert load(name, FEATURES[name]) is script


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_stay_short(name):
    assert len(header_and_code(name)[1].splitlines()) <= 60


def test_scripts_spell_keys_and_fields_as_the_package_wire_does():
    keys = Namespace("ns").queue("q")
    names = {key.removeprefix(keys.zset) for key in (keys.hash, *keys.extensions, keys.job(""))}
    names |= {*fields.MESSAGE_SUFFIXES, fields.EXTENSION_PREFIX}
    names |= {name.encode() for name in ALL_QUEUE_FIELDS}
    names.add(b"total")  # of the progress of a job
    names.add(Namespace("ns").unused_bodies.removeprefix(b"ns"))
    names.add(Namespace("ns").due_schedules.removeprefix(b"ns"))  # has the checks of flows
    code = "".join(
        line.partition("--")[0] + "\n"
        for path in PACKAGE.glob("**/*.lua")
        for line in path.read_text().splitlines()
    )
    # A literal, or the end of a pattern.
    found = {
        text.removeprefix("^(.+)").removesuffix("$").encode()
        for text in re.findall(r"'([^'\n]*)'", code)
        if re.search(r"x:|:(Q|rc|fr|meta)\b|^total", text)
    }

    assert found <= names
    assert {b":rc", b":fr", b":Q", b"totalsent", b"totalrecv", b"x:dlq"} <= found


def test_no_script_compares_texts_by_the_locale_of_the_server():
    """In Lua, ``<`` orders texts by the locale: ``x;`` is before ``x:`` in most of them."""
    for path in PACKAGE.glob("**/*.lua"):
        code = re.sub("--.*", "", path.read_text())
        text = r"(?:'[^'\n]*'|string\.sub\([^()]*\))"

        assert not re.search(rf"{text} *[<>]|[<>]=? *{text}", code), path.name


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_with_undeclared_keys_can_refuse_those_on_another_node(name):
    """
    While a slot moves, such a key can be on another node than those in KEYS.

    Then messages that leave their queue admit no other message: the next send or the sweep does.
    A job that ends does not count for its flow: the next check of the flow does it.
    """
    code = re.sub("--.*", "", load(name, FEATURES[name]).source.decode())
    for function in functions_in_blocks():
        code = re.sub(rf"(?ms)^local function {function}\(.*?^end$", "", code)
    has_undeclared = re.search(r"'[^'\n]*:x:|\bnamespace \.\. '", code) is not None

    assert has_undeclared == ("local function require_local_beside(" in code)
    for ending in re.findall(r"\w \.\. '(:x:\w+)'", code):
        assert ending in {
            ":x:unbegun",
            ":x:retrying",
            ":x:alone",
            ":x:reasons",
            ":x:admitted",
            ":x:held_back",
            ":x:running",
            ":x:leases",
            *(f":x:{each.key}" for each in MESSAGE_RECORDS),
        }  # tests/faults/worker_steps.py
