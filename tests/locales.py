"""A locale that no program expects: its order of characters is that of their bytes, reversed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

_CHARACTERS = [f"<U{byte:04X}>" for byte in range(256)]
_CHARMAP = "\n".join(
    (
        "<code_set_name> REVERSED",
        "<comment_char> %",
        "<escape_char> /",
        "CHARMAP",
        *(f"{character} /x{byte:02x} name" for byte, character in enumerate(_CHARACTERS)),
        "END CHARMAP\n",
    )
)
_ORDER = "\n".join(
    (
        "comment_char %",
        "escape_char /",
        "LC_COLLATE",
        "order_start forward",
        *reversed(_CHARACTERS),
        "order_end",
        "END LC_COLLATE\n",
    )
)


def reversed_locale(folder: Path) -> dict[str, str]:
    """Make the locale in this folder, and return the environment variables of its users."""
    program = shutil.which("localedef")
    assert program, "localedef is missing: it belongs to the C library (Debian: libc-bin)"
    charmap, order = folder / "charmap", folder / "order"
    charmap.write_text(_CHARMAP)
    order.write_text(_ORDER)
    # Its status is 1, because it warns of the other categories of the locale, which are missing.
    command = [program, "-c", "--no-archive", "-i", order, "-f", charmap, folder / "reversed"]
    subprocess.run(command, check=False, capture_output=True)
    return {"LOCPATH": str(folder), "LC_ALL": "", "LC_COLLATE": "reversed"}
