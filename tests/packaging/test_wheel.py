"""The wheel: its metadata and files, on each Python of this machine, and beside PyRSMQ."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import rsmq

pytestmark = [pytest.mark.slow, pytest.mark.foreign]

ROOT = Path(__file__).parents[2]
PYRSMQ = (ROOT / "compat" / "pyrsmq" / "requirements.txt").read_text().split()[0]
REPAIR = "pip uninstall -y PyRSMQ && pip install --force-reinstall --no-deps rsmq"


def run(*command, **options):
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, **options
    )


def must(*command, **options):
    done = run(*command, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def wheel(tmp_path_factory):
    """Build the wheel from a copy of the tracked files."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in must(
        "git", "ls-files", "rsmq", "pyproject.toml", "README.md", "LICENSE", cwd=ROOT
    ).split():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    must(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", folder, source)
    (built,) = folder.glob("*.whl")
    return built


def pythons():
    """Return the Pythons of this machine that are supported, one for each minor version."""
    candidates = [shutil.which(f"python3.{minor}") for minor in range(11, 20)]
    candidates += sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    candidates += [sys.executable]
    found = {}
    for path in filter(None, candidates):
        done = run(path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])")
        version = done.stdout.strip()
        if done.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 11):
            found.setdefault(version, str(path))
    return found


PYTHONS = pythons()


@pytest.fixture
def make(tmp_path):
    """Make a clean environment of a Python; return its interpreter."""

    def environment(python=sys.executable):
        must(python, "-m", "venv", "--without-pip", tmp_path / "clean")
        return tmp_path / "clean" / "bin" / "python"

    return environment


@pytest.fixture
def clean(make):
    return make()


def pip(python, *arguments):
    """Run the pip of the tests for an environment, which needs none of its own then."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
    # What is not imported needs not be compiled.
    options = ["--no-compile"] if arguments[0] == "install" else []
    must(*command, *arguments, *options)


def test_the_metadata_is_accepted_by_the_index(wheel):
    must(sys.executable, "-m", "twine", "check", "--strict", wheel)


def test_the_files_are_those_of_the_package(wheel):
    # W009: several packages. pyspark_rsmq is the name by which Spark finds the data source.
    must(Path(sys.executable).with_name("check-wheel-contents"), "--ignore", "W009", wheel)
    names = zipfile.ZipFile(wheel).namelist()

    assert {"rsmq/py.typed", "pyspark_rsmq.py", "rsmq/lua/send_message.lua"} <= set(names)
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"rsmq", "pyspark_rsmq.py", f"rsmq-{rsmq.__version__}.dist-info"}


def test_the_version_is_the_same_everywhere(wheel):
    assert wheel.name.startswith(f"rsmq-{rsmq.__version__}-")
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE)[1] == rsmq.__version__


@pytest.mark.parametrize("version", PYTHONS)
def test_the_first_example_runs_with_each_python(wheel, make, version, tmp_path):
    """In a clean environment, with the versions of packages that pip finds."""
    python = make(PYTHONS[version])
    pip(python, "install", "-q", f"rsmq[cli,embedded] @ file://{wheel}")
    example = re.search(
        r"^## First example.*?^```python\n(.*?)^```$",
        (ROOT / "README.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )[1]

    assert must(python, "-W", "error", "-c", example, cwd=tmp_path) == "hello\nTrue\n"
    program = python.with_name("rsmq")
    assert must(program, "--version", cwd=tmp_path) == f"rsmq {rsmq.__version__}\n"


def test_pyrsmq_in_the_same_folder_is_an_error_with_its_repair(wheel, clean, tmp_path):
    pip(clean, "install", "-q", PYRSMQ)
    pip(clean, "install", "-q", wheel)
    done = run(clean, "-c", "import rsmq", cwd=tmp_path)

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: PyRSMQ is installed into the folder of rsmq. Repair it: {REPAIR}"
    )
    repair(clean, wheel)
    must(clean, "-c", "from rsmq import RSMQ, RedisSMQ", cwd=tmp_path)


def test_pyrsmq_installed_later_hides_rsmq_until_the_repair(wheel, clean, tmp_path):
    """This library's code does not run then; docs/faq.md shows this error."""
    pip(clean, "install", "-q", wheel)
    pip(clean, "install", "-q", PYRSMQ)
    done = run(clean, "-c", "from rsmq import RSMQ", cwd=tmp_path)

    last = done.stderr.splitlines()[-1]
    assert last.startswith("ImportError: cannot import name 'RSMQ' from 'rsmq'")
    for page in ("README.md", "docs/faq.md"):
        text = (ROOT / page).read_text()
        assert "cannot import name 'RSMQ' from 'rsmq'" in text
        assert REPAIR in text
    repair(clean, wheel)
    must(clean, "-c", "from rsmq import RSMQ, RedisSMQ", cwd=tmp_path)


def repair(python, wheel):
    """Run the documented repair, with the wheel in place of the name of the package."""
    for command in REPAIR.split(" && "):
        words = [str(wheel) if word == "rsmq" else word for word in command.split()[1:]]
        pip(python, *words)


def test_pyrsmq_on_a_lower_path_entry_is_no_error(wheel, clean, tmp_path):
    pip(clean, "install", "-q", wheel)
    pip(clean, "install", "-q", "--no-deps", "--target", tmp_path / "other", PYRSMQ)
    program = f"import sys; sys.path.append({str(tmp_path / 'other')!r}); from rsmq import RSMQ"

    must(clean, "-W", "error", "-c", program, cwd=tmp_path)
