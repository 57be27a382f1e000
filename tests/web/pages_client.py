"""Pages, as a browser asks for them, and forms, as it sends them."""

import re
from html import unescape
from urllib.parse import urlencode

_FORM = {"content-type": "application/x-www-form-urlencoded"}


def open_pages(http):
    """Let a client ask for pages instead of the API, and return it."""
    http.prefix, http.headers = "", {"accept": "text/html"}
    return http


async def read_page(http, path, **headers):
    """Return the text of a page."""
    reply = await http("GET", path, headers=headers)
    assert reply.status == 200, (path, reply.content)
    return reply.content.decode()


def hidden_fields(page):
    """Return the hidden fields of the form of an action, each with its values."""
    found = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page):
        found.setdefault(unescape(name), []).append(unescape(value))
    return found


async def run_action(http, action, **fields):
    """Send the form of an action; ``typed`` is the name that confirms it."""
    if "typed" in fields:
        fields["typed-name"] = fields.pop("typed")
    body = urlencode(fields, doseq=True).encode()
    return await http("POST", f"/actions/{action}", body=body, headers=_FORM)
