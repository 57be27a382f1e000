"""The program: commands, help, locations, errors and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import click
import pexpect
import pytest

from rsmq import RSMQ
from rsmq.cli.app import command_table
from rsmq.cli.app.command import DocumentedCommand, Group
from rsmq.cli.app.exit_codes import MEANINGS, Exit
from rsmq.cli.app.output import format_age, format_body
from rsmq.cli.app.program import root
from tests.cli.conftest import PROGRAM
from tests.ports import free_port
from tests.scale import WAIT_SECONDS
from tests.servers import Server, redis_7

AVAILABLE = [name for name, entry in command_table.COMMANDS.items()]


def command_of(name):
    return root.get_command(click.Context(root), name)


# The table of commands.


def test_aliases_are_those_of_rsmq_cli():
    assert command_table.ALIASES == {
        "sn": "send", "rc": "receive", "rm": "delete", "ls": "list", "vs": "visibility",
        "attr": "attributes", "count": "stats",
    }  # fmt: skip
    for alias, name in command_table.ALIASES.items():
        assert command_of(alias) is command_of(name)


def test_summary_in_the_table_is_the_first_line_of_the_help():
    for name in AVAILABLE:
        entry = command_table.COMMANDS[name]
        if name != "rfq":
            assert command_of(name).help.strip().partition("\n")[0] == entry.summary, name
        assert command_of(name).name == name


def test_commands_import_only_their_own_modules():
    program = (
        "import sys\n"
        "from rsmq.cli import main\n"
        "main(sys.argv[1:])\n"
        "print(*(m for m in ('pyspark', 'rich', 'rsmq.worker', 'rsmq.cli.commands.queues') "
        "if m in sys.modules), file=sys.stderr)"
    )
    for arguments, imported in (
        (["--help"], ""),
        (["stats", "--help"], "rsmq.cli.commands.queues"),
    ):
        completed = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
        )
        assert completed.stderr.strip() == imported


# Help.


def test_the_help_shows_commands_aliases_and_exit_codes(cli):
    help = cli("--help").out

    assert cli().out == help
    for name in AVAILABLE:
        entry = command_table.COMMANDS[name]
        assert re.search(rf"^  {', '.join((name, *entry.aliases))}  ", help, re.MULTILINE)
    for code, meaning in MEANINGS.items():
        words = r"\s+".join(map(re.escape, meaning.split()))
        assert re.search(rf"^ +{int(code)}  {words}$", help, re.MULTILINE)
    assert set(MEANINGS) == set(Exit)


def all_commands():
    for name in AVAILABLE:
        command = command_of(name)
        yield (name,), command
        if isinstance(command, Group):
            for inner, each in command.commands.items():
                yield (name, inner), each


@pytest.mark.parametrize("name", [name for name, _ in all_commands()], ids=" ".join)
def test_every_command_has_help_with_an_example(cli, name):
    command = dict(all_commands())[name]
    result = cli(*name, "--help")

    assert (result.code, result.stderr) == (0, "")
    assert result.out.startswith(f"Usage: rsmq {' '.join(name)} ")
    assert isinstance(command, DocumentedCommand | Group)
    assert command.examples
    for example in command.examples:
        assert f"rsmq {' '.join(name)}" in example or any(
            example.startswith(f"rsmq {alias}") for alias in command_table.ALIASES
        )
        assert f"  {example}\n" in result.out
    assert "--json" in result.out
    for option in ("--url", "--ns", "--profile", "--any-names"):
        uses_redis = name[0] != "web-user" or name[1:] == ("log-out",)
        assert (option in result.out) is uses_redis
    for param in command.params:
        assert isinstance(param, click.Argument) or param.help or param.hidden or param.name in (
            "topic", "list_name", "id", "by",
        )  # fmt: skip


def test_unknown_command_suggests_similar_names(cli):
    assert "Did you mean receive or re" in cli("recieve").error
    assert "Did you mean consume?" in cli("rfq", "consum").error
    assert cli("xyzzy").error == "There is no command 'xyzzy'. See rsmq --help."


def test_the_version_is_shown(cli):
    assert re.fullmatch(r"rsmq \d+\.\d+\.\d+\n", cli("--version").out)


# Locations.


@pytest.fixture
def config(monkeypatch, tmp_path):
    path = tmp_path / "config.toml"

    def write(text):
        path.write_text(text)
        monkeypatch.setenv("RSMQ_CONFIG", str(path))
        return path

    return write


def create_queues_in(server, *namespaces):
    """Create a queue in each namespace, with the name of the namespace."""
    for name in namespaces:
        with RSMQ.from_url(server.url, ns=name) as rsmq:
            rsmq.create_queue(name.replace(":", "_"), exist_ok=True)


def test_common_options_precede_or_follow_the_command(cli, server, ns, monkeypatch):
    monkeypatch.delenv("RSMQ_URL")
    monkeypatch.delenv("RSMQ_NS")
    create_queues_in(server, f"{ns}:a", f"{ns}:b")
    location = ("--url", server.url, "--ns", f"{ns}:a")

    assert cli(*location, "ls", "--json").json == [f"{ns}_a"]
    assert cli("ls", *location).out == f"{ns}_a\n"
    assert cli(*location, "ls", "--ns", f"{ns}:b").out == f"{ns}_b\n"
    assert cli(*location, "rfq", "--ns", f"{ns}:b", "list-topics").out == f"{ns}_b\n"
    assert cli("rfq", "list-topics", *location).out == f"{ns}_a\n"


def test_location_precedence_is_option_environment_profile_default(
    cli, server, ns, monkeypatch, config
):
    names = ["option", "env", "default_profile", "env_profile", "given_profile"]
    create_queues_in(server, *(f"{ns}:{name}" for name in names))
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


def test_several_namespaces_are_refused_by_a_command_of_one(cli, raw, ns, config):
    config(f"[profiles.p]\nns = ['{ns}:a', '{ns}:b']\n")
    error = f"create works on one namespace. Pass one --ns: '{ns}:a' or '{ns}:b'."

    for place in (("--ns", f"{ns}:a", "--ns", f"{ns}:b"), ("--profile", "p")):
        result = cli(*place, "create", "q")
        assert (result.code, result.error) == (2, f"{error} Nothing was changed.")
    assert not raw.keys(f"{ns}:*")

    repeated = ("--ns", f"{ns}:a", "--ns", f"{ns}:a")
    assert cli(*repeated, "create", "q").code == 0


@pytest.mark.parametrize(
    "command",
    [
        "bridge --from list:a --to b", "migrate --from rsmq --dry-run", "schedule list", "export q",
        "rfq list-topics",
    ],
)  # fmt: skip
def test_every_way_to_the_queues_refuses_several_namespaces(cli, command):
    result = cli(*command.split(), "--ns", "a", "--ns", "b")

    assert result.code == 2
    assert "works on one namespace. Pass one --ns: 'a' or 'b'." in result.error


def test_profile_can_allow_any_name(cli, config):
    config("profile = 'p'\n[profiles.p]\nany_names = true\n")

    assert cli("create", "a.b").code == 0


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("profile = ", ["is not TOML"]),
        ("colour = 1", ["the key colour is not known", "profile, profiles"]),
        ("[profiles.p]\nhost = 'x'", ["profiles.p.host is not known", "url, ns, any_names"]),
        ("[profiles.p]\nurl = 7", ["profiles.p.url must be a text"]),
        ("[profiles.p]\nns = 7", ["profiles.p.ns must be a text or a list of texts"]),
        ("[profiles.p]\nns = []", ["profiles.p.ns must be a text or a list of texts"]),
        ("[profiles.p]\nns = ['a', 7]", ["profiles.p.ns must be a text or a list of texts"]),
        ("[profiles.p]\nany_names = 'x'", ["profiles.p.any_names must be true or false"]),
        ("profiles = 5", ["profiles must be a table"]),
        ("[profiles]\np = 5", ["profiles.p must be a table"]),
        ("profile = 'x'\n[profiles.p]", ["There is no profile 'x'", "It has: p."]),
    ],
)
def test_error_in_the_configuration_names_the_file(cli, config, text, parts):
    path = config(text)
    result = cli("ls")

    assert result.code == 2
    for part in (str(path), *parts):
        assert part in result.error


def test_configuration_file_is_found_by_home_and_variables(cli, server, ns, monkeypatch, tmp_path):
    create_queues_in(server, f"{ns}:home", f"{ns}:xdg")
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
    result = cli("ls")
    assert (result.code, result.error) == (
        2, "There is no file /no/such/file. RSMQ_CONFIG names it.",
    )  # fmt: skip


# Errors.


@pytest.mark.parametrize("command", [("ls",), ("send", "q", "x"), ("top",), ("tail", "q")])
def test_refused_connection_is_one_line(cli, command):
    result = cli(*command, "--url", f"redis://:geheim@127.0.0.1:{free_port()}/0")

    assert (result.code, result.out) == (4, "")
    assert "Connection refused" in result.error
    assert "--url, RSMQ_URL or a profile" in result.error
    assert "geheim" not in result.stderr


def test_a_redis_that_is_busy_for_a_second_is_not_away(cli, rsmq, raw):
    """As by a long command: a send must not have an unknown outcome for it."""
    rsmq.create_queue("q")
    raw.execute_command("CLIENT", "PAUSE", 1000, "ALL")

    assert cli("send", "q", "x").code == 0


def test_unknown_host_is_an_error(cli):
    result = cli("ls", "--url", "redis://no-such-host.invalid:6379/0")

    assert result.code == 4
    assert "no-such-host.invalid" in result.error


def test_error_is_json_with_the_json_option(cli, ns):
    for arguments in (("--json", "stats", "q"), ("stats", "q", "--json")):
        result = cli(*arguments)
        (line,) = result.stderr.splitlines()
        error = json.loads(line)
        assert (result.code, error["error"], error["message"]) == (
            3, "queueNotFound", f"Queue not found: 'q' (namespace {ns!r})",
        )  # fmt: skip
        assert "rsmq create" in error["hint"]
    assert json.loads(cli("send", "--json").stderr)["error"] == "usage"
    assert json.loads(cli("ls", "--no-such", "--json").stderr)["error"] == "usage"
    refused = cli("ls", "--json", "--url", f"redis://127.0.0.1:{free_port()}")
    assert json.loads(refused.stderr)["error"] == "unreachable"


def test_errors_contain_no_control_characters(cli):
    result = cli("ls", "--\x1b[31m")

    assert result.code == 2
    assert "\x1b" not in result.stderr


_READER_RULES = "reader on >geheim ~* +@read +eval +evalsha"


@pytest.fixture(scope="module")
def password_server():
    """A server with a password, and with a user who has only rights to read."""
    server = Server(redis_7())
    with server.raw() as raw:
        raw.execute_command("ACL", "SETUSER", *_READER_RULES.split())
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
        ("redis://:geheim@127.0.0.1:{port}/0?db=x", 2, "Invalid db format: 'x'"),
        ("geheim", 2, "Invalid url format"),
        ("redis://user:[geheim]@127.0.0.1:{port}/0", 2, "Invalid url format"),
        ("redis://user:geheim\u2100@127.0.0.1:{port}/0", 2, "Invalid url format"),
        ("redis://[geheim", 2, "Invalid url format"),
    ],
)
def test_a_password_is_never_shown(cli, password_server, url, code, part):
    result = cli("ls", "--url", url.format(port=password_server.port))

    assert result.code == code
    assert part in result.error
    assert "geheim" not in result.stderr
    assert "falsch" not in result.stderr


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
def test_password_of_a_misplaced_url_is_never_shown(cli, arguments, password):
    result = cli(*arguments, f"redis://:{password}@127.0.0.1:1/0")

    assert result.code != 0
    assert "heim" not in result.stderr
    assert password[:2] + password[-3:] not in result.stderr


def test_refusal_by_redis_has_its_own_exit_code(cli, password_server, raw, ns, rsmq):
    url = f"redis://reader:geheim@127.0.0.1:{password_server.port}/0"
    result = cli("create", "q", "--url", url, "--json")
    assert (result.code, json.loads(result.stderr)["error"]) == (5, "NOPERM")

    rsmq.create_queue("q")
    raw.set(f"{ns}:q", "another type")
    result = cli("send", "q", "x")
    assert result.code == 5
    assert "has another type" in result.error


def test_full_server_has_the_exit_code_of_a_refusal(cli, password_server):
    url = f"redis://:geheim@127.0.0.1:{password_server.port}/0"
    with password_server.raw(password="geheim") as raw:
        assert cli("create", "full", "--url", url).code == 0
        raw.config_set("maxmemory", 1)
        try:
            result = cli("send", "full", "x", "--url", url)
        finally:
            raw.config_set("maxmemory", 0)

    assert result.code == 5
    assert "has reached maxmemory" in result.error


def test_a_cluster_needs_a_hash_tag(cli, cluster_server):
    result = cli("create", "q", "--url", cluster_server.url)

    assert result.code == 5
    assert "hash tag" in result.error


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["receive", "q", "-n", 0], "-n must be between 1 and 10000, not 0. Pass a whole number."),
        (["peek", "q", "-n", 0], "-n must be between 1 and 10000, not 0. Pass a whole number."),
        (["tail", "q", "-n", 0], "-n must be between 1 and 10000"),
        (["redrive", "q"], "No --to supplied. No queue of this namespace has 'q'"),
        (["redrive", "q", "--to", "q"], "Invalid --to format: 'q'. Pass another queue."),
        (["export", "-o", "/nodir/x"], "/nodir/x: No such file"),
        (["export", "nosuch", "half"], "rsmq create creates it"),
    ],
)
def test_hints_use_the_terms_of_the_command_line(cli, rsmq, arguments, part):
    rsmq.create_queue("q")
    rsmq.send_message("q", "m")
    result = cli(*arguments)

    assert part in result.error
    assert result.code in (1, 2, 3)


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
        ("list >&-", 1, "The standard output is closed"),
        ("pop q >&-", 1, "Nothing was done."),
        ("tail q >&- <&-", 1, "The standard output is closed"),
        ("send q - <&-", 1, "The standard input is closed"),
        ("send q --file - <&-", 1, "The standard input is closed"),
        ("import <&-", 1, "The standard input is closed"),
        ("purge q <&-", 2, "Add --yes. Nothing was changed."),
        ("send --nonsense 2>&-", 2, ""),
    ],
)
def test_closed_stream_is_an_error_of_one_line(processes, rsmq, line, code, part):
    rsmq.create_queue("q")
    rsmq.send_message("q", "kept")
    result, out, stderr = processes.shell(f"rsmq {line}")

    assert (result, out) == (code, "")
    assert part in stderr
    assert stderr.count("\n") == bool(part)
    assert [each.body for each in rsmq.peek_messages("q", 0, 10)] == ["kept"]


def test_the_exit_code_is_that_of_the_process(processes, rsmq):
    rsmq.create_queue("q")

    assert processes("ls") == (0, b"q\n", "")
    assert processes("receive", "q") == (1, b"", "no message\n")


def test_closed_pipe_ends_the_program_without_an_error(processes, rsmq):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x" * 100] * 5000)
    code, out, stderr = processes.shell(
        "rsmq peek q -n 5000 --raw | head -1; rsmq --help | head -1"
    )

    assert (code, out.splitlines()[0], stderr) == (0, "x" * 100, "")


@pytest.mark.parametrize("options", [["--raw"], ["-0"], ["--json"], []])
def test_pop_into_a_closed_pipe_says_what_is_lost(processes, rsmq, raw, ns, options):
    """The reader reads a part of the output, and then closes the pipe."""
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x" * 9999] * 1000)
    process = processes.start("pop", "q", "-n", 1000, *options)
    os.read(process.stdout.fileno(), 20_000)
    process.stdout.close()
    stderr = process.stderr.read().decode()

    assert process.wait(WAIT_SECONDS) == 1
    assert stderr.count("\n") == 1
    if "--json" in options:
        error = json.loads(stderr)
        assert error["error"] == "notWritten"
        stderr = f"rsmq: {error['message']}. {error['hint']}"
    lost = int(re.match(r"rsmq: (\d+) messages? w(as|ere) deleted and not written\.", stderr)[1])
    written = int(re.search(r"Broken pipe\. Written: (\d+)\.", stderr)[1])
    assert 1 <= lost <= 10
    assert written >= 1
    assert raw.zcard(f"{ns}:q") == 1000 - lost - written


@pytest.mark.parametrize("command", [["receive", "q", "-n", 1000], ["recover", "q", "--idle", 0]])
def test_messages_that_are_received_into_a_closed_pipe_are_released(processes, rsmq, command):
    rsmq.create_queue("q", vt=600)
    rsmq.send_messages("q", ["x" * 9999] * 1000)
    if command[0] == "recover":
        command = [*command, "-n", 1000]
        rsmq.receive_messages("q", 1000)
    process = processes.start(*command, "--raw")
    os.read(process.stdout.fileno(), 20_000)
    process.stdout.close()

    assert process.stderr.read().decode() == (
        "rsmq: The reader has closed the pipe; 1,000 messages released\n"
    )
    assert process.wait() == 141
    assert rsmq.get_queue_attributes("q").hidden_messages == 0


def test_a_closed_pipe_is_no_success(processes, rsmq):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x" * 9999] * 1000)
    process = processes.start("export", "q")
    os.read(process.stdout.fileno(), 20_000)
    process.stdout.close()

    assert process.stderr.read() == b""
    assert process.wait() == 141


def test_pop_into_a_pipe_to_head(processes, rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x" * 9999] * 1000)
    code, out, stderr = processes.shell("rsmq pop q -n 1000 --raw | head -1")

    assert (code, out) == (1, "x" * 9999 + "\n")
    assert "deleted and not written" in stderr
    assert raw.zcard(f"{ns}:q") > 900


def test_pop_to_a_full_device_loses_one_batch(processes, rsmq, raw, ns):
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x"] * 1000)
    code, _, stderr = processes.shell("rsmq pop q -n 1000 --raw > /dev/full")

    assert code == 1
    assert stderr.startswith(
        "rsmq: 10 messages were deleted and not written. No space left on device. Written: 0."
    )
    assert raw.zcard(f"{ns}:q") == 990


@pytest.mark.parametrize("line", ["list > /dev/full", "receive q --raw > /dev/full"])
def test_a_full_device_is_no_usage_error(processes, rsmq, line):
    rsmq.create_queue("q")
    rsmq.send_message("q", "x")
    code, _, stderr = processes.shell(f"rsmq {line}")

    assert (code, stderr) == (1, "rsmq: No space left on device\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ("pop q -n 100 --raw", "messages were deleted and not written."),
        ("peek q -n 100 --raw", "without blocking"),
        ("export q", "without blocking"),
    ],
)
def test_output_that_does_not_block_is_an_error(processes, rsmq, arguments, part, unbuffered):
    """Node makes pipes that do not block. A write to them ends early, if they are full."""
    rsmq.create_queue("q")
    rsmq.send_messages("q", ["x" * 10_000] * 100)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with os.fdopen(reader), os.fdopen(writer):
        completed = subprocess.run(
            [*PROGRAM, *arguments.split()], stdout=writer, stderr=subprocess.PIPE, text=True,
            env={**processes.environment, "PYTHONUNBUFFERED": unbuffered}, check=False,
        )  # fmt: skip

    assert completed.returncode == 1
    assert part in completed.stderr


def test_popped_messages_are_one_document(processes, rsmq):
    rsmq.create_queue("q")
    rsmq.send_messages("q", [f"{number}" for number in range(35)])
    code, out, _ = processes("pop", "q", "-n", 25, "--json")
    assert code == 0
    assert [each["body"] for each in json.loads(out)] == [f"{number}" for number in range(25)]
    code, out, _ = processes("pop", "q", "-n", 100)
    heading, *rows = out.decode().splitlines()
    assert heading.split() == ["ID", "RECEIVED", "SENT", "BODY"]
    assert [row.split()[-1] for row in rows] == [f"{number}" for number in range(25, 35)]
    assert processes("pop", "q", "--json") == (1, b"[]\n", "")
    assert processes("pop", "q", "--raw") == (1, b"", "no message\n")


def test_send_into_a_closed_pipe_says_what_was_sent(processes, rsmq, raw, ns):
    rsmq.create_queue("q")
    (processes.folder / "in").write_bytes(b"x\n" * 30_000)
    process = processes.start("send", "q", "--file", "in")
    os.read(process.stdout.fileno(), 10)
    process.stdout.close()
    stderr = process.stderr.read().decode()

    assert process.wait(WAIT_SECONDS) == 1
    sent = int(re.search(r"Sent before: ([\d,]+) messages", stderr)[1].replace(",", ""))
    assert "The ids can't be written: Broken pipe" in stderr
    assert raw.zcard(f"{ns}:q") == sent < 30_000


def test_bytes_are_sent_and_received_unchanged(processes, rsmq):
    rsmq.create_queue("q", maxsize=-1)
    data = bytes(range(256)) * 1000
    (processes.folder / "in").write_bytes(data)
    code, _, stderr = processes.shell(
        "rsmq send q --whole -f in > id && rsmq pop q --raw | head -c -1 | cmp - in"
    )

    assert (code, stderr) == (0, "")


def test_ctrl_c_ends_a_waiting_receive(processes, rsmq, raw):
    rsmq.create_queue("q")
    process = processes.terminal("receive", "q", "--wait", "forever")
    deadline = time.monotonic() + WAIT_SECONDS
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
def test_purge_asks_before_it_removes_messages(processes, rsmq, answer, code, left):
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


@pytest.mark.parametrize("interval", ["0", "-1"])
def test_tail_needs_a_positive_interval(cli, rsmq, interval):
    rsmq.create_queue("q")
    ended = cli("tail", "q", "--interval", interval)

    assert ended.code == 2
    assert ended.error == "--interval is more than 0. See rsmq tail --help."


@pytest.mark.parametrize(
    ("raw", "line"),
    [(b"\xff", 'b"\\xff"'), (b"\xff'", 'b"\\xff\'"'), (b'\xff"', 'b"\\xff\\""')],
)
def test_bytes_are_shown_in_double_quotes(raw, line):
    assert format_body(raw) == line


@pytest.mark.parametrize(
    ("seconds", "age"),
    [(None, "-"), (59.9, "59s"), (61, "1m 1s"), (3_660, "1h 1m"), (90_000, "1d 1h")],
)
def test_an_age_has_its_two_largest_units(seconds, age):
    assert format_age(seconds) == age
