"""The headers of the scripts agree with their code, and each script belongs to one operation."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from hashlib import sha1
from pathlib import Path

import pytest

from rsmq import RSMQ, AsyncRSMQ, lua, operations
from rsmq.lua.load import load
from rsmq.wire import fields, refusals
from rsmq.wire.keys import Namespace

FOLDER = Path(lua.__file__).parent
FRAGMENT_FOLDER = FOLDER / "fragments"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("[a-z]*.lua"))
FRAGMENTS = sorted(path.name for path in FRAGMENT_FOLDER.glob("*.lua"))
SLOT = re.compile(r"^-- (KEYS|ARGV)\[(\d+)\] (\S+) +(.+)$", re.MULTILINE)
# All slots from a number on have one name.
REST = re.compile(r"^-- (KEYS|ARGV)\[(\d+)\.\.\.\] (\S+) +(.+)$", re.MULTILINE)
#: Scripts that are steps of an operation of another name.
STEPS = {
    "begin_send": "send_messages",
    "finish_send": "send_messages",
    "dead_letter_sources": "redrive_messages",
    "dead_letter_origins": "redrive_messages",
    "received_messages": "recover_messages",
    "require_queues": "receive_messages",
    "count_hidden": "receive_messages",
}
#: Operations without a method: only layers above the clients use them, through ``run``.
WITHOUT_METHOD = {
    "change_push_target",
    "list_push_targets",
    "acknowledge_leased",
    "send_heartbeat",
    "record_quarantine_run",
    "dead_letter_messages",
    "divide_milliseconds",
    "register_worker",
    "forward_messages",
    "list_in_flight",
    "add_copies",
    "unregister_worker",
    "list_workers",
    "new_messages",
    "settle_messages",
    "move_from_list",
    "move_from_queue",
    "move_from_sorted_set",
    "receive_for_worker",
    "check_staged",
    "decide_write",
    "extend_leased",
    "finish_write",
    "begin_move",
    "claim_cell",
    "claim_name",
    "keep_name",
    "describe_queues",
    "count_unbegun",
    "forget_dead_worker",
    "forget_copies",
    "forget_set_aside",
    "delete_expired_leases",
    "get_messages",
    "acquire_lease",
    "keep_acknowledged",
    "lease_messages",
    "release_lease",
    "count_fitting",
    "take_over_lease",
    "release_leased",
    "open_copy",
    "publish_staged",
    "restore_messages",
    "restore_totals",
    "scan_ids",
    "examine_fields",
    "examine_index",
    "examine_keys",
    "examine_messages",
    "examine_queue",
    "examine_rights",
    "repair_fields",
    "repair_listing",
    "repair_scores",
    "persist_keys",
    "replace_ids",
    "remove_extensions",
    "remove_ghost_ids",
    "remove_orphan_fields",
    "restore_orphan_bodies",
    "stage_messages",
}
CODES = {
    value
    for name, value in vars(refusals).items()
    if name.isupper() and isinstance(value, str) and not name.startswith("_")
}


def text_of(name):
    return (FOLDER / f"{name}.lua").read_text()


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
        "due_in_order(": {"QUEUENOTFOUND"},
        "check_destination(": {"QUEUENOTFOUND", "RUNREPLACED"},
        "stored_ms(of.vt)": {"INVALIDVALUE"},
        "sendable(": {"QUEUENOTFOUND", "INVALIDVALUE", "MESSAGETOOLONG"},
    }
    used = {word for word in CODES if f"'{word} '" in code}
    used = used.union(*(words for call, words in errors_of_functions.items() if call in code))

    assert documented == used <= CODES


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_includes_exactly_the_fragments_that_it_uses(name):
    header, code = header_and_code(name)
    included = re.findall(r"^ *-- @include (\S+)$", header + code, re.MULTILINE)
    for fragment in FRAGMENTS:
        functions = re.findall(
            r"^local function (\w+)", (FRAGMENT_FOLDER / fragment).read_text(), re.MULTILINE
        )
        other_code = code + "".join(
            (FRAGMENT_FOLDER / other).read_text() for other in included if other != fragment
        )
        used = any(re.search(rf"\b{function}\(", other_code) for function in functions)
        assert used == (fragment in included), fragment


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_a_fragment_defines_functions_and_includes_nothing(fragment):
    text = (FRAGMENT_FOLDER / fragment).read_text()
    outside = re.sub(r"(?ms)^local function .*?^end$", "", text)

    assert "@include" not in text
    assert all(not line or line.startswith("--") for line in outside.splitlines())


def test_every_script_has_one_builder_and_a_method_of_both_clients():
    assert STEPS.keys() <= set(SCRIPTS)
    modules = [
        importlib.import_module(found.name)
        for found in pkgutil.walk_packages(operations.__path__, "rsmq.operations.")
    ]
    builders = [
        name
        for module in modules
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    ]
    for name in {STEPS.get(name, name) for name in SCRIPTS}:
        assert builders.count(name) == 1
        assert hasattr(RSMQ, name) == hasattr(AsyncRSMQ, name) == (name not in WITHOUT_METHOD)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_loader_expands_and_names_a_script(name):
    script = load(name)

    assert script.name == name
    assert b"-- @include" not in script.source
    assert script.sha1 == sha1(script.source).hexdigest().encode()
    assert load(name) is script


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_stay_short(name):
    assert len(header_and_code(name)[1].splitlines()) <= 60


def test_attribute_fields_are_read_in_the_order_that_python_expects():
    from rsmq.wire.fields import ATTRIBUTE_FIELDS

    fields_of_script = re.findall(
        r"'([a-z:]+)'", re.search(r"HMGET'(.*?)\)", text_of("fragments/describe"), re.DOTALL)[1]
    )

    assert tuple(fields_of_script) == ATTRIBUTE_FIELDS


def test_scripts_spell_keys_and_fields_as_the_package_wire_does():
    keys = Namespace("ns").queue("q")
    names = {key.removeprefix(keys.zset) for key in (keys.hash, *keys.extensions)}
    names |= {*fields.MESSAGE_SUFFIXES, fields.EXTENSION_PREFIX}
    names |= {name.encode() for name in (*fields.ATTRIBUTE_FIELDS, fields.DIVIDED)}
    code = "".join(
        line.partition("--")[0] + "\n"
        for path in FOLDER.glob("**/*.lua")
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
    for path in FOLDER.glob("**/*.lua"):
        code = re.sub("--.*", "", path.read_text())
        text = r"(?:'[^'\n]*'|string\.sub\([^()]*\))"

        assert not re.search(rf"{text} *[<>]|[<>]=? *{text}", code), path.name


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_with_undeclared_keys_can_refuse_those_on_another_node(name):
    """While a slot moves, such a key can be on another node than those in KEYS."""
    code = re.sub("--.*", "", load(name).source.decode())
    has_undeclared = re.search(r"'[^'\n]*:x:|\bnamespace \.\. '", code) is not None

    assert has_undeclared == ("local function require_local_beside(" in code)
    for ending in re.findall(r"\w \.\. '(:x:\w+)'", code):
        assert ending in {
            ":x:unbegun",
            ":x:retrying",
            ":x:alone",
            ":x:reasons",
        }  # tests/faults/worker_steps.py
