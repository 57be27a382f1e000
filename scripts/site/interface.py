"""Pages of the Python interface, from the signatures and docstrings of public names."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

CLIENTS = ("RSMQ", "AsyncRSMQ", "Partitions", "AsyncPartitions")
#: The pages: the modules of each, and the names that are described; without names, the public ones.
PAGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **{name: (("rsmq",), (name,)) for name in CLIENTS},
    "Values": (
        ("rsmq",),
        (
            "Message", "StoredMessage", "QueueAttributes", "MessageCounts", "DeadLetterReason",
            "Confirm", "level_queue",
        ),
    ),
    "Errors": (("rsmq.errors",), ()),
    "Headers": (("rsmq.headers",), ("current_headers", "use_headers", "HeaderFilter")),
    "Schedules": (
        ("rsmq.schedules.threads", "rsmq.schedules.definition"),
        ("Schedules", "StoredSchedule", "ScheduleDefinition"),
    ),
    "Undo": (("rsmq.trash.threads", "rsmq.trash"), ()),
    "Control of workers": (("rsmq.control.threads", "rsmq.wire.orders"), ()),
    "Webhooks": (
        ("rsmq.push.subscribers", "rsmq.push.pusher"), ("Subscribers", "SubscriberPusher"),
    ),
    **{
        title: ((f"rsmq.{name}",), ())
        for title, name in {
            "Codecs": "codecs",
            "Stores of bodies": "body_stores",
            "Workers": "worker",
            "Middleware": "worker.middlewares",
            "Tasks": "tasks",
            "Flows": "jobs.flows",
            "Jobs": "jobs",
            "History": "history",
            "Explanations": "explain",
            "Doctor": "doctor",
            "Migration": "migrate",
            "Export and import": "transfer",
            "Prometheus": "metrics",
            "OpenTelemetry": "opentelemetry",
            "SQLAlchemy": "sqlalchemy",
            "Django": "django",
            "FastAPI": "fastapi",
            "HTTP": "web",
            "Spark": "spark",
            "Spark jobs": "spark.pipelines",
            "PyRSMQ": "pyrsmq",
            "rfq": "compat.rfq",
        }.items()
    },
}  # fmt: skip
_WIDTH = 88
#: The headings of a docstring whose lines below are items.
_LISTS = ("Args", "Raises", "Attributes")
_TEXTS = ("Returns", "Yields")


def write_page(title: str) -> str:
    """
    Return the page of a title of ``PAGES``, as Markdown.

    Args:
        title: the title.
    """
    modules, names = PAGES[title]
    parts = [f"# {title}\n"]
    for module in map(import_module, modules):
        for name in names or find_public_names(module):
            if hasattr(module, name):
                if name != title:
                    parts.append(f"## {name}\n")
                parts += _describe(name, getattr(module, name), module.__name__)
    return "\n".join(parts)


def find_public_names(module: ModuleType) -> tuple[str, ...]:
    """Return the classes and functions that a module offers; of errors only the classes."""
    names = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if name[0] != "_" and getattr(value, "__module__", "").startswith(module.__name__)
    ]
    return tuple(
        name
        for name in names
        if inspect.isclass(value := getattr(module, name))
        or (inspect.isfunction(value) and module.__name__ != "rsmq.errors")
    )


def _describe(name: str, value: Any, module: str) -> Iterator[str]:
    """Return the parts of the page about a class or a function, below its heading."""
    yield _code(f"from {module} import {name}")
    if not inspect.isclass(value):
        yield _describe_call(name, value)
        return
    if "__init__" in vars(value) and not issubclass(value, BaseException):
        yield _code(_sign(name, value))
    yield _read_docstring(value)
    if not issubclass(value, BaseException):
        yield _read_docstring(value.__init__)
    for member_name, member in vars(value).items():
        if member_name[0] == "_":
            continue
        function = inspect.unwrap(getattr(member, "__func__", member))
        if isinstance(member, property):
            yield f"### {member_name}\n"
            yield _read_docstring(member)
        elif inspect.isfunction(function):
            yield f"### {member_name}\n"
            yield _describe_call(member_name, function)


def _describe_call(name: str, function: Any) -> str:
    """Return the signature and the docstring of a function or a method."""
    word = "async " if inspect.iscoroutinefunction(function) else ""
    return f"{_code(word + _sign(name, function))}\n{_read_docstring(function)}"


def _sign(name: str, function: Any) -> str:
    """Return a call with the parameters, each on a line of its own if they are many."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if parameters and parameters[0].name in {"self", "cls"}:
        signature = signature.replace(parameters=parameters[1:])
    # Annotations are texts: their quotes go.
    text = re.sub(r"(: |-> )'([^'\n]*)'", r"\1\2", str(signature)).removesuffix(" -> None")
    text = re.sub(r"<function [^ ]* at \w+>", "...", text)
    if len(name) + len(text) > _WIDTH:
        inside, _, result = text[1:].rpartition(")")
        text = "(\n" + "".join(f"    {each},\n" for each in _split(inside)) + f"){result}"
    return name + text


def _split(parameters: str) -> list[str]:
    """Return the parameters of a signature: commas inside brackets divide none."""
    parts, depth = [""], 0
    for letter in parameters:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    return [each.strip() for each in parts]


def _code(text: str) -> str:
    return f"```python\n{text}\n```\n"


def _read_docstring(value: Any) -> str:
    """Return a docstring as Markdown: its sections become headings in bold, and lists."""
    lines = []
    section = ""
    for line in ((value.__doc__ and inspect.getdoc(value)) or "").splitlines():
        if line.endswith(":") and line[:-1] in _LISTS + _TEXTS:
            section = line[:-1]
            lines += ["", f"**{section}**", ""]
        elif section and line and not line.startswith(" "):
            section = ""
            lines += ["", line]
        elif section in _LISTS and re.match(r"    \S", line):
            name, colon, text = line.strip().partition(": ")
            lines.append(f"- `{name}`: {text}" if colon else f"- {name}")
        elif section:
            lines.append(line[4:] if section in _TEXTS else line[2:])
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"
