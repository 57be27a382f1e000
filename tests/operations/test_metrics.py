"""The rules of Prometheus and the dashboard of Grafana ask for metrics and labels that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rsmq.metrics import processes, queues, workers
from tests.documents.pages import DOCS
from tests.documents.test_pages import read_anchors
from tests.operations.kit import KIT, read_yaml
from tests.scale import SOAK

_SERIES = [
    *workers.ALL_SERIES, processes._RESTARTS, queues._UP, queues._AGE,
    *queues._QUEUE_SERIES.values(), *queues._OF_TASKS.values(),
]  # fmt: skip
_SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
#: The labels of each exported name.
LABELS = {
    series.name + suffix: {*series.labels, *({"le"} if suffix == "_bucket" else ())}
    for series in _SERIES
    for suffix in _SUFFIXES[series.kind]
}
#: Metrics of redis_exporter.
FOREIGN = {"redis_memory_used_bytes", "redis_memory_max_bytes"}
RULES = [
    rule for group in read_yaml("prometheus/alerts.yaml")[0]["groups"] for rule in group["rules"]
]
DASHBOARD = json.loads((KIT / "grafana" / "dashboard.json").read_text())


def check_expression(expression):
    """Check the names and labels of an expression; return the labels that its result may have."""
    names = set(re.findall(r"\br(?:smq|edis)_\w+", expression))
    assert names, expression
    assert names <= LABELS.keys() | FOREIGN, expression
    for name, selector in re.findall(r"\b(rsmq_\w+)\{(.*?)\}", expression):
        assert set(re.findall(r"(\w+)\s*(?:=~?|!~|!=)", selector)) <= LABELS[name], expression
    labels = set.union(*(LABELS.get(name, set()) for name in names))
    grouped = [set(each.split(", ")) for each in re.findall(r"by \((.*?)\)", expression)]
    for each in grouped:
        assert each <= labels, expression
    return set.intersection(*grouped) if grouped else labels | {"instance"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_asks_for_metrics_that_exist(rule):
    labels = check_expression(rule["expr"])
    annotations = rule["annotations"]
    page, _, anchor = annotations["runbook"].partition("#")

    assert set(re.findall(r"\$labels\.(\w+)", annotations["summary"])) <= labels
    assert rule["labels"]["severity"] in {"critical", "warning"}
    text = (DOCS / "operations" / page).read_text()
    assert anchor in read_anchors(text)
    sections = [each for each in text.split("\n## ") if f"`{rule['alert']}`" in each]
    assert [read_anchors(f"## {each}") & {anchor} for each in sections] == [{anchor}]


def test_the_dashboard_asks_for_metrics_that_exist():
    panels = DASHBOARD["panels"]
    targets = [target for panel in panels for target in panel["targets"]]

    for target in targets:
        labels = check_expression(target["expr"])
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(targets))) <= {*variables, "__rate_interval"}
    metric, label = re.fullmatch(
        r"label_values\((\w+), (\w+)\)", variables["queue"]["query"]
    ).groups()
    assert label in LABELS[metric]


@pytest.mark.skipif(
    not SOAK, reason="promtool is in a large package: scripts/soak operations installs it"
)
def test_promtool_accepts_the_rules_and_they_fire():
    promtool = shutil.which("promtool")
    assert promtool, "promtool is missing: scripts/soak operations installs it"
    for command in (
        ["check", "rules", KIT / "prometheus" / "alerts.yaml"],
        ["test", "rules", Path(__file__).with_name("alerts_test.yaml")],
    ):
        done = subprocess.run([promtool, *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
