"""
Writes the types of options from the tables of ``rsmq/vocabulary``, for type checkers and editors.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

from rsmq.vocabulary.sends import BATCH, PUBLISH, SEND, SendCall

TARGET = Path(__file__).parents[1] / "rsmq" / "vocabulary" / "send_arguments.py"
_NAMES = {
    SEND: "SendArguments",
    BATCH: "BatchArguments",
    PUBLISH: "PublishArguments",
}
_HEAD = '''\
# Generated from rsmq/vocabulary/sends.py by scripts/generate-sync. Do not edit.
"""
The options of sends, as type checkers and editors read them.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TypedDict
'''


def generate() -> str:
    """Return the source of the module."""
    return "\n\n".join([_HEAD.rstrip("\n"), *map(_write_class, _NAMES)]) + "\n"


def _write_class(call: SendCall) -> str:
    lines = [
        f"\nclass {_NAMES[call]}(TypedDict, total=False):",
        f'    """The options of ``{call.name}``."""',
    ]
    for option in call.options.values():
        detail = option.detail_in(call)
        detail = detail[0].upper() + detail[1:]
        lines += ["", f"    {option.name_in(call)}: {option.annotation_in(call)}"]
        if len(detail) <= 100 - 4 - 6:
            lines.append(f'    """{detail}"""')
        else:
            text = textwrap.fill(detail, 96, break_on_hyphens=False)
            lines += ['    """', *textwrap.indent(text, "    ").splitlines(), '    """']
    return "\n".join(lines)
