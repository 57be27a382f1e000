"""Answers are those that AWS has given, in both protocols, with boto3."""

import concurrent.futures
import json
from pathlib import Path

import pytest

from tests.scale import SOAK
from tests.web.sqs.replay import Run, make_client

_CASES = json.loads((Path(__file__).parent / "cases.json").read_text())["cases"]
#: Cases that differ, as docs/sqs.md says, with its reasons.
_DIFFERING = {
    "a name can't be used again within a minute after its deletion",
    "a second purge within a minute is refused",
    "an answer in JSON for a GET that accepts it",
}


def _is_chosen(case, protocol):
    is_of_protocol = protocol in case.get("protocols", ["json", "query"])
    return is_of_protocol and (SOAK or not case.get("slow"))


@pytest.mark.parametrize("protocol", ["json", "query"])
def test_answers_are_those_of_aws(start_sqs, protocol):
    url = start_sqs().url
    client = make_client(url, protocol, "us-east-1")

    def replay(case):
        # Short timeouts may end while this machine does something else: then it is repeated.
        for _ in range(3):
            difference = Run(client, url, protocol, "us-east-1").case(case)
            if difference is None or case["title"] in _DIFFERING:
                break
        return case["title"], difference

    chosen = [each for each in _CASES if _is_chosen(each, protocol)]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        found = dict(pool.map(replay, chosen))
    differing = {title: each for title, each in found.items() if each is not None}
    assert {k: v for k, v in differing.items() if k not in _DIFFERING} == {}
    assert differing.keys() >= {t for t in _DIFFERING if t in found}, "one differs no longer"
