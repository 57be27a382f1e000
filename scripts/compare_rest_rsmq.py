"""
Send random sequences of requests to rest-rsmq and to ours, and compare the answers.

Both servers must have namespaces of their own in Redis: all queues there are deleted. The exit
status is 0 if status, content type and body of all answers are equal; ids and times are masked.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from tests.web.rest_rsmq_sequences import Answer, NodeRequest, Sequence, make_sequence, mask

_MAX_SHOWN = 40


class _Server:
    """A server with rest-rsmq's routes."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=30)

    def delete_queues(self) -> None:
        """Delete all queues."""
        for name in json.loads(self._send(NodeRequest("GET", "/queues", {}, None))[2])["queues"]:
            self._send(NodeRequest("DELETE", f"/queues/{name}", {}, None))

    def run(self, requests: list[NodeRequest]) -> list[Answer]:
        """Return the answers to requests."""
        self.delete_queues()
        sequence, answers = Sequence(), []
        for request in requests:
            status, content_type, body = self._send(
                request._replace(path=sequence.path_of(request))
            )
            sequence.note(body)
            answers.append(mask(status, content_type, body.replace(self._prefix, "")))
            if request.method != "HEAD" and "/messages" in request.path.lower():
                time.sleep(0.0015)  # The order of messages is by milliseconds.
        return answers

    def _send(self, request: NodeRequest) -> tuple[int, str | None, str]:
        body = request.encode_body()
        for is_last in (False, True):
            try:
                self._connection.putrequest(
                    request.method, self._prefix + request.path, skip_accept_encoding=True
                )
                for name, value in request.headers.items():
                    self._connection.putheader(name, value)
                if body is not None:
                    self._connection.putheader("content-length", str(len(body)))
                self._connection.endheaders(body)
                answer = self._connection.getresponse()
                content = answer.read().decode()
                return answer.status, answer.getheader("content-type"), content
            except (http.client.HTTPException, ConnectionError):
                self._connection.close()
                if is_last:
                    raise
        raise AssertionError


def main() -> int:
    """Compare the servers; return the exit status."""
    parser = argparse.ArgumentParser(prog="scripts/compare-rest-rsmq", description=__doc__)
    parser.add_argument("original", metavar="ORIGINAL_URL")
    parser.add_argument("ours", metavar="OUR_URL")
    parser.add_argument("--sequences", type=int, default=5000, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--record", type=Path, metavar="FILE", help="write the original's answers")
    options = parser.parse_args()
    original, ours = _Server(options.original), _Server(options.ours)
    number = differences = 0
    records = []
    for each in range(options.sequences):
        requests = make_sequence(random.Random(f"{options.seed} {each}"))  # noqa: S311 - no secret
        theirs, own = original.run(requests), ours.run(requests)
        records.append((requests, theirs))
        number += len(requests)
        for place, (request, expected, found) in enumerate(zip(requests, theirs, own, strict=True)):
            if expected != found:
                differences += 1
                if differences <= _MAX_SHOWN:
                    shown = re.sub(r"(.)\1{99,}", r"\1…", str(request))
                    print(f"sequence {each}, request {place}: {shown}")
                    print(f"  original: {expected}\n  ours:     {found}", flush=True)
                break  # what follows may only follow from this one
    if options.record:
        _write(records, options.record)
    print(f"{options.sequences} sequences, {number} requests, {differences} differences")
    return int(differences > 0)


def _write(records: list[tuple[list[NodeRequest], list[Answer]]], path: Path) -> None:
    """Write the answers once each, and a line for each sequence."""
    answers: dict[Answer, int] = {}
    lines = []
    for requests, found in records:
        numbers = [answers.setdefault(answer, len(answers)) for answer in found]
        lines.append([[*each, number] for each, number in zip(requests, numbers, strict=True)])
    rows = [list(answers), *lines]
    path.write_text("\n".join(json.dumps(each, separators=(",", ":")) for each in rows) + "\n")


if __name__ == "__main__":
    sys.exit(main())
