"""The table of operations is complete, and everything that follows from it fits."""

import inspect
import re
from pathlib import Path

import pytest

from rsmq import AsyncRSMQ
from rsmq.web.fields import Field, Refused, Shape, read_query
from rsmq.web.openapi import PROBLEMS, make_document
from rsmq.web.pages.api_page import _GROUPS, make_api_page
from rsmq.web.problems import _STATUS
from rsmq.web.routes import TABLE


def test_each_route_with_get_has_a_scope_that_changes_nothing():
    assert [each.path for each in TABLE if each.method == "GET" and not each.is_reading] == []


def test_each_parameter_of_a_send_can_be_passed():
    route = next(each for each in TABLE if each.path.endswith("/messages") and each.body)
    fields = {each.name for each in route.body}
    parameters = set(inspect.signature(AsyncRSMQ.send_message).parameters)
    of_programs = {"self", "qname", "body", "codec", "confirm", "timeout"}
    assert parameters - of_programs <= fields


def test_the_document_has_each_route_under_a_name_of_its_own():
    document = make_document(TABLE, "1.0", "/api/v1")
    names = [each["operationId"] for path in document["paths"].values() for each in path.values()]
    assert len(names) == len(TABLE) == len(set(names))


def _api_page(namespace="rsmq"):
    return make_api_page(TABLE, "<b>", "/api/v1", "http://<b>", namespace)


def test_the_page_of_the_api_has_each_operation_and_no_script_of_its_own():
    page = _api_page()
    assert page.count('<details class="operation"') == len(TABLE)
    assert re.findall("<script[^>]*>[^<]", page) == []
    assert "<b>" not in page


def test_the_page_of_the_api_has_an_id_for_each_group_and_each_operation():
    page = _api_page()
    ids = re.findall(' id="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    links = re.findall('href="#([^"]*)"', page)
    assert links == [
        *(each.lower().replace(", ", "-").replace(" ", "-") for each in _GROUPS),
        "server",
    ]
    assert set(links) < set(ids)


def test_the_page_of_the_api_names_another_namespace_in_its_examples():
    assert "ns=&#39;shop&#39;" in _api_page("shop")
    assert "ns=" not in _api_page()


def test_the_page_lists_each_operation_with_its_scope():
    page = (Path(__file__).parents[2] / "docs" / "http-api.md").read_text()
    listed = re.findall(r"^\| `(\w+ /\S*)` \| (.*) \| (?:`(\w+)` )?\|$", page, re.MULTILINE)
    assert listed == [
        (
            f"{each.method} {each.path}",
            each.summary.removesuffix("."),
            each.scope.value if each.scope else "",
        )
        for each in TABLE
    ]


@pytest.mark.parametrize("text", ["1_0", " 5", "5 ", "\u0665", "+5", "0x10", "nan", "1e400", "1.5"])
def test_a_whole_number_in_a_query_is_written_as_in_json(text):
    with pytest.raises(Refused):
        read_query([("limit", text)], (Field("limit", Shape.WHOLE, "A number."),))
    assert read_query([("limit", "-5")], (Field("limit", Shape.WHOLE, ""),)) == {"limit": -5}


def test_the_document_has_each_status_of_an_error_with_its_form():
    document = make_document(TABLE, "1.0", "/api/v1")
    for path in document["paths"].values():
        for operation in path.values():
            assert {str(each) for each in PROBLEMS} < set(operation["responses"])
            assert "500" not in operation["responses"]
            for status, answer in operation["responses"].items():
                has_schema = all("schema" in each for each in answer.get("content", {}).values())
                assert has_schema, (operation["operationId"], status)


def test_each_error_has_a_status_of_the_document():
    assert {status for _, status in _STATUS} <= set(PROBLEMS)
