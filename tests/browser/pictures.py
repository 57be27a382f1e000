"""
Take the pictures of the docs, of a running ``scripts/dashboard-demo`` whose worker has just died.

python -m tests.browser.pictures ADDRESS FOLDER

The address has the token, as in http://127.0.0.1:8080/?key=TOKEN.
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image

from tests.browser.chromium import Chromium
from tests.browser.screenshots import take
from tests.nodes import wait_until

_WIDE, _NARROW = 1280, 360
_COLOURS = 160
#: The names of the pictures, the pages, and their widths and heights.
_PICTURES = (
    ("dashboard-overview", "/", _WIDE, 900),
    ("dashboard-narrow", "/", _NARROW, 1900),
    ("dashboard-queue", "/queues/orders", _WIDE, 1700),
    ("dashboard-dead-letters", "/dead-letters/orders-dead", _WIDE, 900),
)


def main(address: str, folder: str) -> None:
    address, _, key = address.partition("/?key=")
    browser = Chromium()
    try:
        browser.log_in(address, key)
        # A worker is killed after 70 s, and started again 20 s later.
        wait_until(lambda: "died with" in browser.visit(f"{address}/")[0], seconds=180)
        for name, page, width, height in _PICTURES:
            browser.set_view(width, "light")
            browser.visit(address + page)
            take(browser, Path(folder), name, height)
            path = Path(folder) / f"{name}.png"
            with Image.open(path) as picture:  # a third of the bytes
                picture.convert("RGB").quantize(_COLOURS).save(path, optimize=True)
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
