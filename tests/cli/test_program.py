"""The program as a whole: commands, help, places, errors and exit codes."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
import time

import click
import pexpect
import pytest

from rsmq import RSMQ
from rsmq.cli.app import command_table
from rsmq.cli.app.command import Command, Group
from rsmq.cli.app.exit_codes import MEANINGS, Exit
from rsmq.cli.app.program import root
from tests.servers import Server, free_port, redis_7

THERE = [name for name, entry in command_table.COMMANDS.items() if command_table.is_there(entry)]
#: Methods of RSMQ that are no operation on queues.
NO_COMMAND = {"run", "run_steps", "from_url", "namespace", "codec", "watcher", "close"}
#: What hands its arguments on.
PROGRAMS = {"worker", "pipeline"}


#: The methods of RSMQ that a command calls.
METHODS = {
    "create": ("create_queue",),
    "list": ("list_queues",),
    "attributes": ("get_queue_attributes", "set_queue_attributes"),
    "stats": ("count_messages", "get_queue_attributes", "list_queues"),
    "pause": ("pause_queue",),
    "resume": ("resume_queue",),
    "purge": ("purge_queue",),
    "delete-queue": ("delete_queue",),
    "send": ("send_message", "send_messages"),
    "publish": ("publish",),
    "receive": ("receive_message", "receive_messages"),
    "pop": ("pop_message", "pop_messages"),
    "delete": ("delete_message", "delete_messages"),
    "visibility": ("change_message_visibility", "change_messages_visibility"),
    "release": ("release_messages", "release_all_messages"),
    "recover": ("recover_messages",),
    "get": ("get_message",),
    "peek": ("peek_messages",),
    "tail": ("peek_messages",),
    "dead-letter": ("get_queue_attributes", "set_dead_letter_policy"),
    "sweep": ("sweep_dead_letters",),
    "redrive": ("redrive_messages",),
    "move": ("move_messages",),
    "top": ("get_queue_attributes", "count_messages", "list_queues"),
}


def command_of(name):
    return root.get_command(click.Context(root), name)


# The table of commands.


def test_every_method_has_a_command():
    methods = {name for name in vars(RSMQ) if not name.startswith("_")} - NO_COMMAND
    reached = {method for methods in METHODS.values() for method in methods}

    assert reached == methods


def test_a_command_drops_what_the_method_says_beside():
    for name in THERE:
        for method in METHODS.get(name, ()):
            short = re.sub(r"_(messages?|queues?)$", "", method).replace("_", "-")
            if short == name:
                break
        else:
            assert name in {
                "attributes", "stats", "visibility", "dead-letter", "sweep", "tail", "top",
                "delete-queue",
            } | {name for name in THERE if not METHODS.get(name, ())}  # fmt: skip


def test_a_command_calls_the_methods_that_the_table_says():
    for name in set(THERE) - {"tail", "rfq"}:
        module = sys.modules[command_of(name).callback.__module__]
        text = inspect.getsource(module)
        if name in ("pause", "resume"):
            text += inspect.getsource(importlib.import_module("rsmq.cli.commands.worker_control"))
        if name == "top":
            text += inspect.getsource(sys.modules["rsmq.cli.commands.figures"])
            text += inspect.getsource(sys.modules["rsmq.gauges"])
        for method in METHODS.get(name, ()):
            some = method.replace("message", "messages?").replace("ss?", "s")
            assert re.search(rf"rsmq\.{some}\b", text), (name, method)


def test_the_short_forms_are_those_of_rsmq_cli():
    assert command_table.ALIASES == {
        "sn": "send", "rc": "receive", "rm": "delete", "ls": "list", "vs": "visibility",
        "attr": "attributes", "count": "stats",
    }  # fmt: skip
    for alias, name in command_table.ALIASES.items():
        assert command_of(alias) is command_of(name)


def test_the_summary_of_the_table_is_the_first_line_of_the_help():
    for name in THERE:
        entry = command_table.COMMANDS[name]
        if name != "rfq":
            assert command_of(name).help.strip().partition("\n")[0] == entry.summary, name
        assert command_of(name).name == name


def test_a_command_whose_module_is_missing_is_not_there(cli, monkeypatch):
    missing = command_table.Entry("rsmq.cli.no_such_module:gone", "Gone.")
    monkeypatch.setitem(command_table.COMMANDS, "gone", missing)
    monkeypatch.setitem(command_table.SECTIONS["Queues"], "gone", missing)

    assert "gone" not in cli("--help").out
    assert cli("gone").error.startswith("There is no command 'gone'.")


def test_no_command_imports_what_it_does_not_need():
    program = (
        "import sys\n"
        "from rsmq.cli import main\n"
        "main(sys.argv[1:])\n"
        "print(*(m for m in ('pyspark', 'rich', 'rsmq.worker', 'rsmq.cli.commands.queues') "
        "if m in sys.modules), file=sys.stderr)"
    )
    for arguments, imported in (
        (["--help"], ""),
        (["create", "--help"], "rsmq.cli.commands.queues"),
    ):
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
        )
        assert done.stderr.strip() == imported


# Help.


def test_the_help_shows_commands_aliases_and_exit_codes(cli):
    help = cli("--help").out

    assert cli().out == help
    for name in THERE:
        entry = command_table.COMMANDS[name]
        assert re.search(rf"^  {', '.join((name, *entry.aliases))}  ", help, re.MULTILINE)
    for code, meaning in MEANINGS.items():
        words = r"\s+".join(map(re.escape, meaning.split()))
        assert re.search(rf"^ +{int(code)}  {words}$", help, re.MULTILINE)
    assert set(MEANINGS) == set(Exit)


def leaves():
    for name in THERE:
        found = command_of(name)
        yield (name,), found
        if isinstance(found, Group):
            for inner, each in found.commands.items():
                yield (name, inner), each


@pytest.mark.parametrize("name", [name for name, _ in leaves()], ids=" ".join)
def test_every_command_has_help_with_an_example(cli, name):
    found = dict(leaves())[name]
    if name[0] in PROGRAMS:
        if name == ("pipeline",):
            pytest.importorskip("pyspark")
        with pytest.raises(SystemExit) as ended:
            cli(*name, "--help")
        assert ended.value.code == 0
        return
    ended = cli(*name, "--help")

    assert (ended.code, ended.stderr) == (0, "")
    assert ended.out.startswith(f"Usage: rsmq {' '.join(name)} ")
    assert isinstance(found, Command | Group)
    assert found.examples
    for example in found.examples:
        assert f"rsmq {' '.join(name)}" in example or any(
            example.startswith(f"rsmq {alias}") for alias in command_table.ALIASES
        )
        assert f"  {example}\n" in ended.out
    for option in ("--url", "--ns", "--profile", "--json", "--any-names"):
        assert option in ended.out
    for param in found.params:
        assert isinstance(param, click.Argument) or param.help or param.name in (
            "topic", "which", "id", "by",
        )  # fmt: skip


def test_a_typo_is_answered_with_what_is_near(cli):
    assert "Did you mean receive or re" in cli("recieve").error
    assert "Did you mean consume?" in cli("rfq", "consum").error
    assert cli("xyzzy").error == "There is no command 'xyzzy'. See rsmq --help."


def test_the_version_is_shown(cli):
    assert re.fullmatch(r"rsmq \d+\.\d+\.\d+\n", cli("--version").out)


# Places.


@pytest.fixture
def config(monkeypatch, tmp_path):
    path = tmp_path / "config.toml"

    def write(text):
        path.write_text(text)
        monkeypatch.setenv("RSMQ_CONFIG", str(path))
        return path

    return write


def queues_in(server, *namespaces):
    """Of each namespace a queue that is called as it is."""
    for name in namespaces:
        with RSMQ.from_url(server.url, ns=name) as rsmq:
            rsmq.create_queue(name.replace(":", "_"), exist_ok=True)


def test_options_stand_before_the_command_or_after_it(cli, server, ns, monkeypatch):
    monkeypatch.delenv("RSMQ_URL")
    monkeypatch.delenv("RSMQ_NS")
    queues_in(server, f"{ns}:a", f"{ns}:b")
    where = ("--url", server.url, "--ns", f"{ns}:a")

    assert cli(*where, "ls", "--json").json == [f"{ns}_a"]
    assert cli("ls", *where).out == f"{ns}_a\n"
    assert cli(*where, "ls", "--ns", f"{ns}:b").out == f"{ns}_b\n"
    assert cli(*where, "rfq", "--ns", f"{ns}:b", "list-topics").out == f"{ns}_b\n"
    assert cli("rfq", "list-topics", *where).out == f"{ns}_a\n"


def test_option_environment_profile_default(cli, server, ns, monkeypatch, config):
    names = ["option", "env", "default_profile", "env_profile", "given_profile"]
    queues_in(server, *(f"{ns}:{name}" for name in names))
    profiles = "".join(
        f'[profiles.{name}]\nns = "{ns}:{name}"\nurl = "{server.url}"\n' for name in names[2:]
    )
    config(f'profile = "default_profile"\n{profiles}')

    def listed(*arguments):
        (name,) = cli(*arguments, "ls", "--json").json
        return name.removeprefix(f"{ns}_")

    monkeypatch.delenv("RSMQ_URL")
    monkeypatch.delenv("RSMQ_NS")
    assert listed() == "default_profile"
    monkeypatch.setenv("RSMQ_PROFILE", "env_profile")
    assert listed() == "env_profile"
    monkeypatch.setenv("RSMQ_NS", f"{ns}:env")
    assert listed() == "env"
    assert listed("--profile", "given_profile") == "given_profile"
    assert listed("--profile", "given_profile", "--ns", f"{ns}:option") == "option"


def test_a_profile_may_let_any_name_go(cli, config):
    config("profile = 'p'\n[profiles.p]\nany_names = true\n")

    assert cli("create", "a.b").code == 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("profile = ", ["is no TOML"]),
        ("colour = 1", ["the key colour is not known", "profile, profiles"]),
        ("[profiles.p]\nhost = 'x'", ["profiles.p.host is not known", "url, ns, any_names"]),
        ("[profiles.p]\nurl = 7", ["profiles.p.url must be a text"]),
        ("[profiles.p]\nany_names = 'x'", ["profiles.p.any_names must be true or false"]),
        ("profiles = 5", ["profiles must be a table"]),
        ("[profiles]\np = 5", ["profiles.p must be a table"]),
        ("profile = 'x'\n[profiles.p]", ["There is no profile 'x'", "It has: p."]),
    ],
)
def test_a_wrong_configuration_is_told_with_its_file(cli, config, text, parts):
    path = config(text)
    ended = cli("ls")

    assert ended.code == 2
    for part in (str(path), *parts):
        assert part in ended.error


def test_the_file_is_looked_for_where_it_belongs(cli, server, ns, monkeypatch, tmp_path):
    queues_in(server, f"{ns}:home", f"{ns}:xdg")
    for name in ("RSMQ_NS", "RSMQ_CONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    home, xdg = tmp_path / ".config", tmp_path / "xdg"
    for folder, name in ((home, "home"), (xdg, "xdg")):
        (folder / "rsmq").mkdir(parents=True)
        (folder / "rsmq" / "config.toml").write_text(
            f'profile = "p"\n[profiles.p]\nns = "{ns}:{name}"\n'
        )

    assert cli("ls").out == f"{ns}_home\n"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(xdg))
    assert cli("ls").out == f"{ns}_xdg\n"
    monkeypatch.setenv("RSMQ_CONFIG", "/no/such/file")
    ended = cli("ls")
    assert (ended.code, ended.error) == (
        2, "There is no file /no/such/file. RSMQ_CONFIG names it.",
    )  # fmt: skip


# Errors.


@pytest.mark.parametrize("command", [("ls",), ("send", "q", "x"), ("top",), ("tail", "q")])
def test_a_refused_connection_is_told_in_one_line(cli, command):
    ended = cli(*command, "--url", f"redis://:geheim@127.0.0.1:{free_port()}/0")

    assert (ended.code, ended.out) == (4, "")
    assert "Connection refused" in ended.error
    assert "--url, RSMQ_URL or a profile" in ended.error
    assert "geheim" not in ended.stderr


def test_it_is_tried_for_less_than_a_second():
    from rsmq.cli.app.call import RETRY_DEADLINE

    assert RETRY_DEADLINE < 1


def test_a_name_that_nobody_knows_is_told(cli):
    ended = cli("ls", "--url", "redis://no-such-host.invalid:6379/0")

    assert ended.code == 4
    assert "no-such-host.invalid" in ended.error


def test_an_error_is_json_for_a_program(cli):
    for arguments in (("--json", "stats", "q"), ("stats", "q", "--json")):
        ended = cli(*arguments)
        (line,) = ended.stderr.splitlines()
        told = json.loads(line)
        assert (ended.code, told["error"], told["message"]) == (
            3, "queueNotFound", "Queue not found",
        )  # fmt: skip
        assert "'q'" in told["hint"]
    assert json.loads(cli("send", "--json").stderr)["error"] == "usage"
    assert json.loads(cli("ls", "--no-such", "--json").stderr)["error"] == "usage"
    refused = cli("ls", "--json", "--url", f"redis://127.0.0.1:{free_port()}")
    assert json.loads(refused.stderr)["error"] == "unreachable"


def test_what_a_terminal_would_obey_is_not_said(cli):
    ended = cli("ls", "--\x1b[31m")

    assert ended.code == 2
    assert "\x1b" not in ended.stderr


_READER = "reader on >geheim ~* +@read +eval +evalsha"


@pytest.fixture(scope="module")
def guarded():
    """A server with a password, and a user who may read only."""
    server = Server(redis_7())
    with server.raw() as raw:
        raw.execute_command("ACL", "SETUSER", *_READER.split())
        raw.config_set("requirepass", "geheim")
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("url", "code", "part"),
    [
        ("redis://:falsch@127.0.0.1:{port}/0", 5, "invalid username-password pair"),
        ("redis://127.0.0.1:{port}/0", 5, "a password is needed"),
        ("redis://user:geheim@127.0.0.1:{port}/0", 5, "invalid username-password pair"),
        ("redis://:geheim@127.0.0.1:{port}/99", 5, "DB index is out of range"),
        ("redis://:geheim@127.0.0.1:{port}/x", 2, "Invalid url format"),
        ("redis://:geheim@127.0.0.1:port/0", 2, "Invalid url format"),
        ("http://:geheim@127.0.0.1:{port}/0", 2, "Invalid url format"),
        ("redis://:geheim@127.0.0.1:{port}/0?db=x", 2, "Invalid url format"),
        ("geheim", 2, "Invalid url format"),
        ("redis://user:[geheim]@127.0.0.1:{port}/0", 2, "Invalid url format"),
        ("redis://user:geheim\u2100@127.0.0.1:{port}/0", 2, "Invalid url format"),
        ("redis://[geheim", 2, "Invalid url format"),
    ],
)
def test_a_password_is_never_shown(cli, guarded, url, code, part):
    ended = cli("ls", "--url", url.format(port=guarded.port))

    assert ended.code == code
    assert part in ended.error
    assert "geheim" not in ended.stderr
    assert "falsch" not in ended.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["receive"],
        ["send", "q", "x", "--profile"],
        ["ls", "--json", "--nonsense"],
        ["migrate", "--from"],
        ["bridge", "--to", "q", "--from"],
        ["import"],
        ["worker"],
        [],
    ],
)
@pytest.mark.parametrize("password", ["geheim", "g" * 200 + "eheim", "ge@heim", "ge' heim"])
def test_a_url_in_the_wrong_place_does_not_show_its_password_either(cli, arguments, password):
    ended = cli(*arguments, f"redis://:{password}@127.0.0.1:1/0")

    assert ended.code != 0
    assert "heim" not in ended.stderr
    assert password[:2] + password[-3:] not in ended.stderr


def test_what_redis_refuses_has_its_own_code(cli, guarded, raw, ns, rsmq):
    url = f"redis://reader:geheim@127.0.0.1:{guarded.port}/0"
    ended = cli("create", "q", "--url", url, "--json")
    assert (ended.code, json.loads(ended.stderr)["error"]) == (5, "NOPERM")

    rsmq.create_queue("q")
    raw.set(f"{ns}:q", "another type")
    ended = cli("send", "q", "x")
    assert ended.code == 5
    assert "holds another type than RSMQ's" in ended.error


def test_a_full_server_has_it_too(cli, guarded):
    url = f"redis://:geheim@127.0.0.1:{guarded.port}/0"
    with guarded.raw(password="geheim") as raw:
        assert cli("create", "full", "--url", url).code == 0
        raw.config_set("maxmemory", 1)
        try:
            ended = cli("send", "full", "x", "--url", url)
        finally:
            raw.config_set("maxmemory", 0)

    assert ended.code == 5
    assert "has reached maxmemory" in ended.error


def test_a_cluster_needs_a_hash_tag(cli, cluster_server):
    ended = cli("create", "q", "--url", cluster_server.url)

    assert ended.code == 5
    assert "hash tag" in ended.error


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["receive", "q", "-n", 0], "-n must be between 1 and 10000. -n is a whole number"),
        (["peek", "q", "-n", 0], "-n must be between 1 and 10000. -n is a whole number"),
        (["tail", "q", "-n", 0], "-n must be between 1 and 10000"),
        (["redrive", "q"], "No --to supplied. No queue of this namespace has 'q'"),
        (["redrive", "q", "--to", "q"], "Invalid --to format. It must be another queue"),
        (["export", "-o", "/nodir/x"], "/nodir/x: No such file"),
        (["export", "nosuch", "half"], "rsmq create makes it"),
    ],
)
def test_a_hint_speaks_of_what_stands_on_the_command_line(cli, rsmq, arguments, part):
    rsmq.create_queue("q")
    ended = cli(*arguments)

    assert part in ended.error
    assert ended.code in (2, 3)


@pytest.mark.parametrize(
    "arguments", [["-h"], ["send", "-h"], ["rfq", "-h"], ["rfq", "peek", "-h"]]
)
def test_help_has_a_short_name(cli, arguments):
    assert cli(*arguments) == cli(*arguments[:-1], "--help")
    assert "-h, --help" in cli(*arguments).out


# The process.


@pytest.mark.parametrize(
    ("line", "code", "part"),
    [
        ("list >&-", 2, "The standard output is closed"),
        ("pop q >&-", 2, "Nothing was done."),
        ("tail q >&- <&-", 2, "The standard output is closed"),
        ("send q - <&-", 2, "The standard input is closed"),
        ("send q --file - <&-", 2, "The standard input is closed"),
        ("import <&-", 2, "The standard input is closed"),
        ("purge q <&-", 2, "Add --yes. Nothing was changed."),
        ("send --nonsense 2>&-", 2, ""),
    ],
)
def test_a_closed_stream_is_one_line_at_most(processes, rsmq, line, code, part):
    rsmq.create_queue("q")
    rsmq.send_message("q", "kept")
    ended, out, said = processes.shell(f"rsmq {line}")

    assert (ended, out) == (code, "")
    assert part in said
    assert said.count("\n") == bool(part)
    assert [each.body for each in rsmq.peek_messages("q", 0, 10)] == ["kept"]


def test_the_exit_code_is_that_of_the_process(processes, rsmq):
    rsmq.create_queue("q")

    assert processes("ls") == (0, b"q\n", "")
    assert processes("receive", "q") == (1, b"", "no message\n")


def test_a_pipe_that_is_closed_ends_it_quietly(processes, rsmq):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x" * 100] * 5000)
    code, out, said = processes.shell("rsmq peek q -n 5000 --raw | head -1; rsmq --help | head -1")

    assert (code, out.splitlines()[0], said) == (0, "x" * 100, "")


def test_bytes_go_through_it_unchanged(processes, rsmq):
    rsmq.create_queue("q", maxsize=-1)
    data = bytes(range(256)) * 1000
    (processes.folder / "in").write_bytes(data)
    code, _, said = processes.shell(
        "rsmq send q --whole -f in > id && rsmq pop q --raw | head -c -1 | cmp - in"
    )

    assert (code, said) == (0, "")


def test_ctrl_c_ends_it(processes, rsmq, raw):
    rsmq.create_queue("q")
    process = processes.terminal("receive", "q", "--wait", "forever")
    deadline = time.monotonic() + 20
    while not any("t" in each["flags"] for each in raw.client_list()):  # it waits
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.sendintr()
    process.expect("rsmq: interrupted")
    process.expect(pexpect.EOF)
    process.close()

    assert process.exitstatus == 130
    assert rsmq.get_queue_attributes("q").total_received == 0


@pytest.mark.parametrize(("answer", "code", "left"), [("y", 0, 0), ("n", 1, 2), ("", 1, 2)])
def test_a_person_is_asked_before_something_is_lost(processes, rsmq, answer, code, left):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["a", "b"])
    process = processes.terminal("purge", "q")
    process.expect_exact("Remove 2 messages of q? [y/N]: ")
    process.sendline(answer)
    process.expect_exact("q: 2 removed" if code == 0 else "rsmq: Nothing was changed")
    process.expect(pexpect.EOF)
    process.close()

    assert process.exitstatus == code
    assert rsmq.get_queue_attributes("q").messages == left
