"""The operators' kit fits the programs: their options, ports, variables, probes and paths."""

from __future__ import annotations

import inspect
import json
import logging
import re
import shutil
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from rsmq.cli.app.call import Call
from rsmq.cli.app.durations import parse_duration
from rsmq.cli.commands.health_server import serve_health
from rsmq.web import create_app
from rsmq.web.routes import TABLE
from rsmq.web.table import Scope
from rsmq.worker import Worker
from rsmq.worker.logging import JSONLines
from tests.operations.kit import (
    APPLICATION,
    DOCKER_COMMAND,
    KIT,
    PORTS,
    PROGRAMS,
    RUNS,
    SERVICES,
    Run,
    read_dockerfile,
    read_pods,
    read_units,
    read_yaml,
)
from tests.ports import free_port

GRACE_SECONDS = inspect.signature(Worker).parameters["grace"].default


def ports_of(run):
    return {value for name, value in run.parse().items() if name in PORTS and value}


def hosts_of(run):
    return {value for name, value in run.parse().items() if name in {"host", "health_host"}}


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_the_program_accepts_a_command_of_the_kit(run):
    parsed = run.parse()

    assert run.command != "worker" or parsed["app"] == "shop:worker"
    assert not parsed.get("no_auth")


def test_each_kind_of_program_is_in_each_place():
    commands = {}
    for run in RUNS:
        commands.setdefault(run.file.partition(",")[0], set()).add(run.command)

    assert commands["compose.yaml"] == {
        "web",
        "exporter",
    }  # its worker has the command of the image
    assert commands["kubernetes"] == {"worker", "web", "exporter"}
    assert {run.command for run in RUNS if run.file.endswith(".service")} == commands["kubernetes"]


def test_the_variables_of_the_kit_name_the_server(monkeypatch):
    names = {name for run in RUNS for name in run.environment if name.startswith("RSMQ_")}
    names |= set(re.findall(r"\bRSMQ_\w+", APPLICATION))
    url = SERVICES["worker"]["environment"]["RSMQ_URL"]

    assert names == {"RSMQ_URL"}
    monkeypatch.setenv("RSMQ_URL", url)
    assert Call().configured_url == url


def test_programs_in_containers_listen_beyond_loopback():
    for run in RUNS:
        if not run.file.endswith(".service"):
            assert hosts_of(run) == {"0.0.0.0"}


def test_the_dashboard_allows_the_names_under_which_compose_publishes_it():
    web = SERVICES["web"]
    (port,) = web["ports"]

    assert {port.partition(":")[0], "localhost"} <= set(
        Run("", web["command"]).parse()["allow_host"]
    )


@pytest.mark.parametrize("name", read_pods())
def test_probes_and_ports_of_a_pod_are_those_of_its_command(name):
    (container,) = read_pods()[name]["containers"]
    run = Run(name, container["args"])
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    paths = {
        probe: (get["port"], get["path"])
        for probe, get in (
            (key, value["httpGet"]) for key, value in container.items() if key.endswith("Probe")
        )
    }

    assert set(ports.values()) == ports_of(run)
    if run.command == "worker":
        expected = {"startupProbe": "/healthz", "livenessProbe": "/healthz"}
        expected = {probe: ("health", path) for probe, path in expected.items()}
        assert paths == expected | {"readinessProbe": ("health", "/readyz")}
        assert ports["health"] == run.parse()["health_port"]
    elif run.command == "web":
        assert paths == {
            "livenessProbe": ("http", "/healthz"),
            "readinessProbe": ("http", "/readyz"),
        }
        assert {"/healthz", "/readyz"} <= web_paths()
    else:
        assert paths == {"livenessProbe": ("metrics", "/metrics")}


def web_paths():
    app = create_app("redis://127.0.0.1:1/0", auth=False)
    return {route.path for route in app.routes}


def test_the_server_of_probes_has_their_paths():
    port = free_port()
    serve_health(port, "127.0.0.1", lambda: True, lambda: True)

    for path in ("/healthz", "/readyz"):
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            assert answer.status == 200


def test_scrapes_ask_the_port_of_the_metrics():
    for path in (KIT / "kubernetes").glob("*.yaml"):
        for document in read_yaml(f"kubernetes/{path.name}"):
            template = document["spec"].get("template", {"metadata": {}})
            annotations = template["metadata"].get("annotations")
            if annotations:
                (container,) = template["spec"]["containers"]
                ports = {each["name"]: each["containerPort"] for each in container["ports"]}
                assert annotations["prometheus.io/port"] == str(ports["metrics"])


def test_a_worker_has_its_grace_period_everywhere():
    pod = read_pods()["shop-worker"]
    (container,) = pod["containers"]
    unit = read_units()["rsmq-worker@.service"]

    assert pod["terminationGracePeriodSeconds"] > Run("", container["args"]).parse()["grace"]
    assert int(unit["TimeoutStopSec"]) > GRACE_SECONDS
    assert parse_duration(SERVICES["worker"]["stop_grace_period"]) > GRACE_SECONDS
    assert unit["KillMode"] == "mixed"


def test_the_worker_of_each_pod_and_unit_has_a_stable_name():
    documents = read_yaml("kubernetes/workers.yaml")
    (owner,) = (each for each in documents if each["kind"] == "StatefulSet")
    (container,) = owner["spec"]["template"]["spec"]["containers"]
    sources = {each["name"]: each.get("valueFrom") for each in container["env"]}

    assert Run("", container["args"]).parse()["name"] == "$(POD_NAME)"
    assert sources["POD_NAME"] == {"fieldRef": {"fieldPath": "metadata.name"}}
    assert "--name shop-%i" in read_units()["rsmq-worker@.service"]["ExecStart"]


def test_keda_reads_a_field_of_the_api():
    authentication, scaled = read_yaml("kubernetes/keda.yaml")
    (trigger,) = scaled["spec"]["triggers"]
    (service,) = (each for each in read_yaml("kubernetes/web.yaml") if each["kind"] == "Service")
    (workers,) = (
        each for each in read_yaml("kubernetes/workers.yaml") if each["kind"] == "StatefulSet"
    )
    metadata = trigger["metadata"]
    host, path = re.fullmatch(r"http://([^/]+)(/.+)", metadata["url"]).groups()
    (route,) = (each for each in TABLE if each.path.endswith("/scaling"))

    assert host == f"{service['metadata']['name']}:{service['spec']['ports'][0]['port']}"
    assert path == "/api/v1" + route.path.replace("{queue}", "orders")
    assert metadata["valueLocation"] in {each.name for each in route.result}
    assert route.scope is Scope.STATS
    assert "--scope stats" in (KIT / "kubernetes" / "keda.yaml").read_text()
    assert trigger["authenticationRef"]["name"] == authentication["metadata"]["name"]
    assert scaled["spec"]["scaleTargetRef"]["kind"] == workers["kind"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == workers["metadata"]["name"]


def test_selectors_find_their_pods():
    for path in (KIT / "kubernetes").glob("*.yaml"):
        documents = read_yaml(f"kubernetes/{path.name}")
        labels = [
            each["spec"]["template"]["metadata"]["labels"]
            for each in documents
            if "template" in each["spec"]
        ]
        for document in documents:
            selector = document["spec"].get("selector")
            if selector is not None:
                assert selector.get("matchLabels", selector) in labels


def test_the_image_has_no_root_and_what_its_commands_need():
    instructions = read_dockerfile()
    last = dict(instructions)
    (install,) = (rest for name, rest in instructions if "pip install" in rest)

    assert last["USER"].split(":")[0] not in {"0", "root"}
    assert set(map(int, last["EXPOSE"].split())) == ports_of(DOCKER_COMMAND)
    assert re.search(r"\[(.*)\]", install)[1] == "metrics,schedules,web"
    for pod in read_pods().values():
        assert str(pod["securityContext"]["runAsUser"]) == last["USER"].split(":")[0]


def test_the_first_process_of_the_image_reaps_orphans():
    instructions = read_dockerfile()
    of_image = instructions[max(n for n, (name, _) in enumerate(instructions) if name == "FROM") :]
    (entry_point,) = (json.loads(rest) for name, rest in of_image if name == "ENTRYPOINT")
    containers = [each for pod in read_pods().values() for each in pod["containers"]]

    assert entry_point == ["tini", "--"]
    assert any(
        name == "RUN" and "apt-get install" in rest and "tini" in rest for name, rest in of_image
    )
    assert not any("command" in each for each in containers), "it replaces the entry point"
    assert not any("entrypoint" in each for each in SERVICES.values()), "as in Kubernetes"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_systemd_accepts_the_units(tmp_path):
    programs = f"{Path(sys.executable).parent}/"
    for path in (KIT / "systemd").iterdir():
        (tmp_path / path.name).write_text(path.read_text().replace(PROGRAMS, programs))
    done = subprocess.run(
        ["systemd-analyze", "verify", *tmp_path.iterdir()],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


def test_the_fields_of_loki_are_those_of_the_log():
    record = logging.makeLogRecord({"msg": "a", "levelname": "INFO"} | dict.fromkeys(
        ("queue", "message_id", "request_id", "attempt"), "x"
    ))  # fmt: skip
    line = JSONLines(lambda: "shop-1").format(record)
    text = (KIT / "loki" / "config.alloy").read_text()
    expressions = dict(re.findall(r"^ +(\w+) += \"(\w+)\",$", text, re.MULTILINE))

    assert expressions
    assert all(f'"{name}": ' in line for name in expressions.values())
    for values in re.findall(r"values = \{(.*)\}", text):
        assert set(re.findall(r"(\w+) =", values)) <= expressions.keys()
