"""The commands of README.md that install a wheel and a clone."""

from __future__ import annotations

import shlex

from tests.documents.pages import read_blocks

(_INSTALL,) = (each for each in read_blocks("README.md") if each.code.startswith("pip install"))
#: Their arguments of pip.
CLONE_COMMAND, WHEEL_COMMAND = (shlex.split(line)[1:] for line in _INSTALL.code.splitlines())
