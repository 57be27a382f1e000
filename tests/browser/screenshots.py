"""
Take a picture of each page of a running server, in both themes and widths.

python -m tests.browser.screenshots ADDRESS FOLDER [PATH...]

The address may have a key or a token, as in http://127.0.0.1:8080/?key=KEY.
"""

from __future__ import annotations

import asyncio
import base64
import sys
import urllib.error
import urllib.request
from pathlib import Path

from tests.browser.chromium import THEMES, WIDTHS, Chromium
from tests.web.asgi import Reply
from tests.web.crawling import crawl, shape_of

_MAX_HEIGHT = 4000


def _read(url, key):
    headers = {"Accept": "text/html"}
    if key:
        headers["Authorization"] = f"Basic {base64.b64encode(f':{key}'.encode()).decode()}"
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            content = reply.read()
    except urllib.error.HTTPError as error:
        with error:
            reply, content = error, error.read()
    names = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    return Reply(reply.status, names, content)


async def _pages_of(address, key):
    """Return the paths of the views of all pages."""

    async def http(_, path):
        return await asyncio.to_thread(_read, address + path, key)

    return {
        shape_of(path): path
        async for path, reply in crawl(http, ["/"], alike=1)
        if reply.headers["content-type"].startswith("text/html")
    }.values()


def take(browser, folder, name, max_height=_MAX_HEIGHT):
    """Write the picture of the page that the browser shows."""
    size = browser.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
    clip = {**size, "height": min(size["height"], max_height), "scale": 1}
    picture = browser.driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}
    )
    (folder / f"{name}.png").write_bytes(base64.b64decode(picture["data"]))


def main(address, folder, *paths):
    address, _, key = address.partition("?key=")
    address = address.rstrip("/")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    browser = Chromium()
    try:
        if key:
            browser.log_in(address, key)
        for path in paths or asyncio.run(_pages_of(address, key)):
            name = "".join(each if each.isalnum() else "-" for each in path).strip("-")[:80]
            for theme in THEMES:
                for width in WIDTHS:
                    browser.set_view(width, theme)
                    _, found = browser.visit(address + path)
                    print(path, theme, width, *found, *browser.problems())
                    take(browser, folder, f"{name or 'overview'}-{theme}-{width}")
    finally:
        browser.quit()


if __name__ == "__main__":
    main(*sys.argv[1:])
