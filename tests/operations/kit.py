"""The files of the operators' kit, and the commands and containers in them."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field

import click
import yaml

from rsmq.cli.app.command_table import COMMANDS
from tests.documents.pages import DOCS, read_blocks

KIT = DOCS / "operations" / "kit"
#: The directory of the programs in the image and in the units.
PROGRAMS = "/opt/shop/bin/"
#: The options of ports.
PORTS = {"port", "health_port", "metrics_port"}
#: The text of shop.py.
(APPLICATION,) = (
    block.code for block in read_blocks("operations/kit/README.md") if block.file == "shop.py"
)


@dataclass(frozen=True)
class Run:
    """A command of the kit, with what it gets from its file."""

    file: str
    words: list[str]
    environment: dict[str, str] = field(default_factory=dict)

    def __str__(self):
        return f"{self.file}: {' '.join(self.words[:2])}"

    @property
    def command(self) -> str:
        """The name of the command of rsmq."""
        return "worker" if self.words[0] == "rsmq-worker" else self.words[1]

    def parse(self) -> dict[str, object]:
        """
        Return the options and arguments as the program reads them.

        Raises:
            click.UsageError: it would refuse them.
        """
        entry = COMMANDS[self.command]
        command: click.Command = entry.load()
        arguments = self.words[1:] if self.words[0] == "rsmq-worker" else self.words[2:]
        return command.make_context(self.command, list(arguments)).params


def read_dockerfile() -> list[tuple[str, str]]:
    """Return the instructions of the Dockerfile with their arguments."""
    text = re.sub(r"^#.*\n", "", (KIT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [
        (name, rest.strip()) for name, _, rest in (each.partition(" ") for each in lines) if name
    ]


def read_yaml(name: str) -> list[dict]:
    """Return the documents of a YAML file."""
    return list(yaml.safe_load_all((KIT / name).read_text()))


def read_units() -> dict[str, dict[str, str]]:
    """Return the settings of the units of systemd; of one that is repeated, the last value."""
    return {
        path.name: dict(re.findall(r"^(\w+)=(.*)$", path.read_text(), re.MULTILINE))
        for path in sorted((KIT / "systemd").glob("*.service"))
    }


def read_pods() -> dict[str, dict]:
    """Return the pod templates of the manifests by the names of their owners."""
    return {
        document["metadata"]["name"]: document["spec"]["template"]["spec"]
        for path in sorted((KIT / "kubernetes").glob("*.yaml"))
        for document in read_yaml(f"kubernetes/{path.name}")
        if "template" in document["spec"]
    }


def read_environment(container: dict) -> dict[str, str]:
    """Return the variables of a container; a reference has no value here."""
    return {each["name"]: each.get("value", "") for each in container["env"]}


DOCKER_COMMAND = Run("Dockerfile", json.loads(dict(read_dockerfile())["CMD"]))
SERVICES: dict[str, dict] = read_yaml("compose.yaml")[0]["services"]
RUNS = [
    DOCKER_COMMAND,
    *(
        Run("compose.yaml", service["command"], service["environment"])
        for name, service in SERVICES.items()
        if name != "redis" and "command" in service
    ),
    *(
        Run(name, shlex.split(unit["ExecStart"].removeprefix(PROGRAMS)))
        for name, unit in read_units().items()
    ),
    *(
        Run(f"kubernetes, {name}", container["args"], read_environment(container))
        for name, pod in read_pods().items()
        for container in pod["containers"]
    ),
]
