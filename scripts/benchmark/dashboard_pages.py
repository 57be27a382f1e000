"""
How fast and how large the pages of the dashboard are.

    .venv/bin/python -m scripts.benchmark.dashboard_pages [QUEUES] [REQUESTS]

It makes queues (1,000) and one queue of 100,000 messages, and asks for each page REQUESTS (200)
times in turn. Each request reads Redis again: the answers that pages share for a moment are not
kept. Prints for each page the time until its first byte, the processor time of the dashboard and of
Redis for a request, which depend less on other work of the machine, and the size with gzip.
"""

from __future__ import annotations

import http.client
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field

from scripts.benchmark.dashboard import fill
from scripts.benchmark.dashboard_server import PATHS, WebServer, make_queues, serving
from scripts.benchmark.server import Server

_MESSAGES = 100_000


@dataclass(slots=True)
class _Page:
    """The measured times in milliseconds, and the size of a page in bytes."""

    until_first_byte: list[float] = field(default_factory=list)
    of_dashboard: list[float] = field(default_factory=list)
    of_redis: list[float] = field(default_factory=list)
    size: int = 0


def main() -> None:
    """Fill, measure and print."""
    numbers = [int(each) for each in sys.argv[1:]]
    queues, requests = (*numbers, *(1000, 200)[len(numbers) :])
    pages: dict[str, _Page] = defaultdict(_Page)
    with Server() as server:
        make_queues(server.url, queues)
        fill(server, _MESSAGES)
        with serving(server.url, shares_answers=False) as web:
            connection = http.client.HTTPConnection(*web.address)
            for path in PATHS:  # loads scripts and templates
                _ask(server, web, connection, path, _Page())
            for _ in range(requests):
                for path in PATHS:
                    _ask(server, web, connection, path, pages[path])
    print(f"{'page':38} {'p50':>7} {'p95':>7} {'dashboard':>9} {'Redis':>9} {'size':>9}")
    for path, page in pages.items():
        times = sorted(page.until_first_byte)
        print(
            f"{path:38} {times[len(times) // 2]:4.0f} ms {times[int(len(times) * 0.95)]:4.0f} ms "
            f"{sum(page.of_dashboard) / requests:6.1f} ms "
            f"{sum(page.of_redis) / requests:6.2f} ms {page.size / 1024:6.1f} KB"
        )


def _ask(
    server: Server,
    web: WebServer,
    connection: http.client.HTTPConnection,
    path: str,
    page: _Page,
) -> None:
    of_redis, of_dashboard = server.cpu_seconds(), web.cpu_seconds()
    begin = time.perf_counter()
    connection.request("GET", path, headers={"Accept-Encoding": "gzip", "Accept": "text/html"})
    answer = connection.getresponse()  # returns when it has the headers
    page.until_first_byte.append(1000 * (time.perf_counter() - begin))
    page.size = len(answer.read())
    page.of_dashboard.append(1000 * (web.cpu_seconds() - of_dashboard))
    page.of_redis.append(1000 * (server.cpu_seconds() - of_redis))
    if answer.status != http.HTTPStatus.OK or answer.headers["Content-Encoding"] != "gzip":
        raise SystemExit(f"{path}: {answer.status}, {answer.headers['Content-Encoding']}")


if __name__ == "__main__":
    main()
