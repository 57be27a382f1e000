"""
Builds the site of the documentation, and serves it on this machine.

``scripts/docs`` calls it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from .interface import PAGES, write_page
from .links import find_faults
from .pages import ROOT, copy_pages
from .programs import write_commands, write_metrics

FOLDER = ROOT / "build" / "site"
CONFIGURATION = Path(__file__).with_name("mkdocs.yml")
#: The theme and the folder of the site of each builder.
_BUILDERS = {"zensical": ("material", "site"), "mkdocs": ("mkdocs", "site-of-mkdocs")}


def prepare(folder: Path) -> None:
    """
    Write all that the builders read.

    Args:
        folder: a folder, which is emptied.
    """
    shutil.rmtree(folder, ignore_errors=True)
    pages = folder / "pages"
    reference = pages / "reference"
    reference.mkdir(parents=True)
    shutil.copyfile(CONFIGURATION, folder / CONFIGURATION.name)
    copy_pages(pages)
    for title in PAGES:
        name = title.lower().replace(" ", "-")
        (reference / f"{name}.md").write_text(write_page(title))
    (reference / "commands.md").write_text(write_commands())
    (reference / "metrics.md").write_text(write_metrics())


def build(builder: str, *, is_strict: bool) -> bool:
    """
    Build the site.

    Args:
        builder: a name of ``_BUILDERS``.
        is_strict: whether a warning is an error.

    Returns:
        Whether it has passed; otherwise its output is printed.
    """
    theme, site = _BUILDERS[builder]
    done = subprocess.run(
        [Path(sys.executable).with_name(builder), "build", *["--strict"] * is_strict],
        cwd=FOLDER,
        env=os.environ | {"NO_COLOR": "1", "SITE_THEME": theme, "SITE_FOLDER": site},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout)
    return done.returncode == 0


def check(builder: str) -> bool:
    """Build the site, and look for faults; return whether there are none."""
    has_passed = build(builder, is_strict=True)
    for fault in find_faults(FOLDER / _BUILDERS[builder][1]):
        print(f"{builder}: {fault}")
        has_passed = False
    return has_passed


def serve(folder: Path, port: int) -> None:
    """Serve a folder to this machine until Ctrl-C."""
    handler = partial(SimpleHTTPRequestHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        print(f"The documentation is at http://127.0.0.1:{server.server_port}/", flush=True)
        server.serve_forever()


def main() -> int:
    """Do what the command line says; return 1 if the site has a fault."""
    parser = argparse.ArgumentParser(prog="scripts/docs", description=__doc__.split("\n")[1])
    parser.add_argument(
        "--strict", action="store_true",
        help="serve nothing, and fail at a warning, a broken link or a part of another host",
    )  # fmt: skip
    parser.add_argument("--mkdocs", action="store_true", help="with --strict: with MkDocs too")
    parser.add_argument("--port", type=int, default=8000, help="serve at this port, not at 8000")
    arguments = parser.parse_args()
    prepare(FOLDER)
    if arguments.strict:
        builders = ["zensical", *["mkdocs"] * arguments.mkdocs]
        return int(sum(check(each) for each in builders) < len(builders))
    if not build("zensical", is_strict=False):
        return 1
    with suppress(KeyboardInterrupt):
        serve(FOLDER / "site", arguments.port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
