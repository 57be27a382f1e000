"""The image of the operators' kit, built in a folder."""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from scripts.releasing.environments import must
from tests.operations.image import INSTRUCTIONS, run_image
from tests.packaging.conftest import IS_RELEASE

pytestmark = [pytest.mark.slow, pytest.mark.foreign]


@pytest.mark.skipif(not IS_RELEASE, reason="tests/operations runs the command in the tests' venv")
def test_the_commands_of_the_dockerfile_make_a_worker(wheel, server, tmp_path):
    """COPY and RUN of the first stage, with folders in place of those of the image."""
    for name, rest in INSTRUCTIONS:
        if name == "RUN":
            must(*shlex.split(re.sub("/(opt|tmp)/", rf"{tmp_path}/\1/", rest)))
        elif name == "COPY" and rest.startswith("rsmq-"):
            source, target = rest.split()
            assert source == wheel.name
            (tmp_path / target.strip("/")).mkdir()
            shutil.copy(wheel, tmp_path / target.strip("/"))
    (tmp_path / "srv").mkdir()
    run_image(tmp_path / "opt" / "shop" / "bin", server, tmp_path / "srv")
