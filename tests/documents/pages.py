"""
The pages of the documentation, and their fenced blocks of code.

A comment in the line above a block says how the block is run; without a comment it is run as it is:

    <!-- shown -->            it is not run; ``NOT_RUN`` in test_pages.py has the reason
    <!-- file: tasks.py -->   it is stored under this name, for the blocks below it
    <!-- background -->       it runs until the page ends, and then gets SIGTERM
    <!-- repeat -->           it is run again until its output is the documented one

Shell commands inside a comment prepare what the blocks below it show. Readers don't see them:

    <!-- prepare
    rsmq create orders
    -->

A block of the language ``text`` is the output of the block above it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
#: The pages for users, in the order of the table of contents.
TOPICS = (
    "index", "start", "comparison",
    "clients", "unique", "groups", "limit-keys", "expiry", "queue-limits", "workers", "tasks",
    "cookbook", "task-tests", "flows", "jobs", "fastapi", "django", "transactions", "worker-life",
    "control", "workers-in-any-language",
    "priorities",
    "handlers", "middleware", "processes", "application-servers", "webhooks", "subscribers",
    "schedules", "http-api", "http-operations", "http-examples", "dashboard", "alerts", "sqs",
    "sqs-clients", "http-server",
    "why", "history", "undo", "guarantees", "waiting", "servers", "partitions",
    "durability", "chaos", "security", "headers", "bodies", "tracing", "types", "spark",
    "spark-sql", "spark-declarative", "spark-recipes", "spark-places", "command-line", "doctor",
    "migration", "from-celery", "from-rq",
    "from-task-systems", "from-rsmq-worker", "from-rest-rsmq", "from-sqs", "benchmarks",
    "reference", "limits", "faq", "versions", "operations/kit/README", "operations/runbook",
    "operations/runbook-redis",
)  # fmt: skip
PAGES = {"README.md": README, **{f"{name}.md": DOCS / f"{name}.md" for name in TOPICS}}

_BLOCK = re.compile(
    r"(?:^<!-- (?P<how>shown|background|repeat|file: [\w./-]+) -->\n)?"
    r"^```(?P<language>.*)\n(?P<code>(?:(?!```).*\n)*)```$"
    r"|^<!-- prepare\n(?P<prepare>(?:(?!-->).*\n)*)-->$",
    re.MULTILINE,
)


@dataclass
class Block:
    """
    A fenced block of a page.

    Attributes:
        page: the name of the page.
        line: the number of its first line of code.
        language: ``python``, ``sh``, ``toml``, ``js`` or ``text``.
        how: how it is run: ``run``, ``shown``, ``file``, ``background`` or ``repeat``.
        file: the name of the file to store it in, if it is one.
        code: its text.
        output: the documented output, if the next block has it.
    """

    page: str
    line: int
    language: str
    how: str
    file: str | None
    code: str
    output: str | None = None

    @property
    def first_line(self) -> str:
        return self.code.partition("\n")[0]

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def read_blocks(page: str) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = PAGES[page].read_text()
    blocks: list[Block] = []
    end = 0
    for found in _BLOCK.finditer(text):
        if found["prepare"]:
            line = text.count("\n", 0, found.start("prepare")) + 1
            blocks.append(Block(page, line, "sh", "run", None, found["prepare"]))
            end = found.end()
            continue
        how, _, file = (found["how"] or "run").partition(": ")
        line = text.count("\n", 0, found.start("code")) + 1
        block = Block(page, line, found["language"], how, file or None, found["code"])
        above = text[end : found.start()]
        if block.language == "text" and how == "run":
            assert blocks, f"{block}: output without a block"
            assert "\n#" not in above, f"{block}: a heading between a block and its output"
            assert blocks[-1].output is None, f"{block}: a second output"
            blocks[-1].output = block.code
        else:
            blocks.append(block)
        end = found.end()
    fences = [found for found in _BLOCK.finditer(text) if found["prepare"] is None]
    assert text.count("```") == 2 * len(fences), f"{page}: a block is not read"
    assert text.count("<!-- prepare") == len(_BLOCK.findall(text)) - len(fences), (
        f"{page}: a preparation is not read"
    )
    return blocks


def matches(output: str, documented: str) -> bool:
    """
    Return whether an output is the documented one.

    In the documented one ``...`` is any text of a line; alone on a line, any number of lines.
    """
    pattern = ""
    for line in documented.strip("\n").splitlines():
        if line == "...":
            pattern += r"(?:.*\n)*"
        else:
            pattern += ".*".join(re.escape(part) for part in line.split("...")) + r"\n"
    return re.fullmatch(pattern, output.strip("\n") + "\n") is not None
