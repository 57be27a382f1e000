"""The bill of materials (SBOM) of a wheel, in the JSON of CycloneDX."""

from __future__ import annotations

import tempfile
from pathlib import Path

from .environments import make_environment, must, pip
from .source import read_version

_TOOL = Path(__file__).with_name("requirements.txt")


def write_bill(root: Path, wheel: Path, path: Path) -> None:
    """
    Write what pip installs for a wheel today: its requirements without extras, and their licences.

    Args:
        root: the clone, whose ``pyproject.toml`` describes the main component.
        wheel: the wheel.
        path: the file to write.
    """
    with tempfile.TemporaryDirectory() as folder:
        tool, installed = (make_environment(Path(folder) / each) for each in ("tool", "installed"))
        pip(tool, "install", "-r", _TOOL)
        pip(installed, "install", wheel)
        # The tool reads no version that the build finds.
        project = Path(folder) / "pyproject.toml"
        version = f'version = "{read_version(root)}"'
        project.write_text(
            (root / "pyproject.toml").read_text().replace('dynamic = ["version"]', version)
        )
        must(
            tool.with_name("cyclonedx-py"), "environment", installed,
            "--pyproject", project, "--mc-type", "library",
            "--output-format", "JSON", "--output-reproducible", "--output-file", path,
        )  # fmt: skip
