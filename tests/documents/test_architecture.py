"""The map of the source in ARCHITECTURE.md has all folders and floors."""

from __future__ import annotations

import re
import tomllib

from tests.documents.pages import ROOT

MAP = (ROOT / "docs/contributing/ARCHITECTURE.md").read_text()


def test_every_folder_is_in_the_tree():
    tree = MAP.partition("```\nrsmq/\n")[2].partition("```")[0]
    named = set(re.findall(r"(?:^  |  )(\w+)/", tree, re.MULTILINE))
    folders = {each.parent.name for each in (ROOT / "rsmq").glob("*/__init__.py")}

    assert folders <= named


def test_every_floor_is_in_the_list():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (floors,) = (
        each["layers"] for each in contracts["contracts"] if "rsmq.cli" in each.get("layers", ())
    )
    names = {
        name.split(".")[1]
        for floor in floors
        for name in re.split(r" [|:] ", floor)
        if not name.startswith(("rsmq._", "rsmq.__"))
    }
    listed = set(
        re.findall(
            r"\w+",
            re.sub(
                r"   .*",
                "",
                MAP.partition("All of them:")[2].partition("```\n")[2].partition("```")[0],
            ),
        )
    )

    assert names - {"headers"} <= listed
