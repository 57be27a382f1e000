"""The wheel beside PyRSMQ, whose package has the same name."""

from __future__ import annotations

import sys

import pytest

from scripts.releasing.environments import must, pip, run
from tests.servers import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.foreign]

PYRSMQ = (ROOT / "compat" / "pyrsmq" / "requirements.txt").read_text().split()[0]
REPAIR = "pip uninstall -y PyRSMQ && pip install --force-reinstall --no-deps rsmq"
VERSION = "{}.{}".format(*sys.version_info)


@pytest.fixture
def with_rsmq(installed, copy_environment):
    """The interpreter of an environment with the wheel and its requirements."""
    return copy_environment(installed(VERSION))


@pytest.fixture
def clean(with_rsmq):
    """The interpreter of an environment with the requirements alone."""
    pip(with_rsmq, "uninstall", "-y", "rsmq")
    return with_rsmq


def test_pyrsmq_in_the_same_folder_is_an_error_with_its_repair(wheel, clean, tmp_path):
    pip(clean, "install", PYRSMQ)
    pip(clean, "install", wheel)
    done = run(clean, "-c", "import rsmq", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: PyRSMQ is installed into the folder of rsmq. Repair it: {REPAIR}"
    )
    repair(clean, wheel)
    must(clean, "-c", "from rsmq import RSMQ, RedisSMQ", cwd=tmp_path)


def test_pyrsmq_installed_later_hides_rsmq_until_the_repair(wheel, with_rsmq, tmp_path):
    """This library's code does not run then; docs/faq.md shows this error."""
    pip(with_rsmq, "install", PYRSMQ)
    done = run(with_rsmq, "-c", "from rsmq import RSMQ", cwd=tmp_path)

    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: cannot import name 'RSMQ' from 'rsmq'")
    for page in ("README.md", "docs/faq.md"):
        text = (ROOT / page).read_text()
        assert "cannot import name 'RSMQ' from 'rsmq'" in text
        assert REPAIR in text
    repair(with_rsmq, wheel)
    must(with_rsmq, "-c", "from rsmq import RSMQ, RedisSMQ", cwd=tmp_path)


def repair(python, wheel):
    """Run the documented repair, with the wheel in place of the name of the package."""
    for command in REPAIR.split(" && "):
        words = [str(wheel) if word == "rsmq" else word for word in command.split()[1:]]
        pip(python, *words)


def test_pyrsmq_on_a_lower_path_entry_is_no_error(with_rsmq, tmp_path):
    other = tmp_path / "other"
    pip(with_rsmq, "install", "--no-deps", "--target", other, PYRSMQ)
    program = f"import sys; sys.path.append({str(other)!r}); from rsmq import RSMQ"

    must(with_rsmq, "-W", "error", "-c", program, cwd=tmp_path)
