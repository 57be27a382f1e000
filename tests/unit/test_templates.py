"""Pages show hostile texts, so templates escape all of them, and have no code in them."""

import re
from pathlib import Path

import pytest

import rsmq.web.pages
from rsmq.web.pages.rendering import POLICY

_FOLDER = Path(rsmq.web.pages.__file__).parent
_TEMPLATES = sorted((_FOLDER / "templates").rglob("*.html"))
_MODULES = sorted([*_FOLDER.rglob("*.py"), *_FOLDER.rglob("*.js")])
_FORBIDDEN_IN_TEMPLATES = {
    r"\|\s*(safe|tojson|xmlattr)\b": "a filter that escapes nothing, or in another way",
    r"\bMarkup\b|__html__": "text that is not escaped",
    r"{%-?\s*autoescape": "a place that is escaped in another way",
    r"<style|<[^>{]*\sstyle\s*=": "a style that the policy refuses",
    r"\son[a-z]+\s*=": "code in an attribute",
    r"javascript:|https?://|src\s*=\s*[\"']//": "code or a file from elsewhere",
    r"<script(?![^>]*\ssrc=)": "a script that is not a file",
    r"<(iframe|object|embed|base)\b": "an element that hostile texts could use",
}
_FORBIDDEN_IN_MODULES = {
    r"\bMarkup\b|markupsafe|__html__": "text that is not escaped",
    r"\.(innerHTML|outerHTML)\s*\+?=|insertAdjacentHTML|document\.write": "markup from text",
    r"\beval\(|new Function|setTimeout\(\s*[\"'`]": "code from text",
    r"autoescape=(?!True)": "templates that are not escaped",
}


@pytest.mark.parametrize("path", _TEMPLATES, ids=lambda path: path.name)
def test_a_template_escapes_all_and_has_no_code(path):
    text = path.read_text()
    for pattern, what in _FORBIDDEN_IN_TEMPLATES.items():
        found = re.search(pattern, text)
        assert found is None, f"{what}: {found}"
    outside_of_quotes = re.sub(r'"[^"]*"', '""', text)
    assert re.search(r"=\s*{{", outside_of_quotes) is None, "an attribute without quotes"


@pytest.mark.parametrize("path", _MODULES, ids=lambda path: path.relative_to(_FOLDER).as_posix())
def test_a_module_of_pages_makes_no_markup_from_text(path):
    text = path.read_text()
    for pattern, what in _FORBIDDEN_IN_MODULES.items():
        found = re.search(pattern, text)
        assert found is None, f"{what}: {found}"


def test_there_are_templates():
    assert _TEMPLATES


def test_the_policy_allows_the_files_of_the_pages_only():
    directives = dict(part.strip().partition(" ")[::2] for part in POLICY.split(";"))
    assert directives["default-src"] == "'none'"
    assert set(directives.values()) <= {"'none'", "'self'"}
    assert {"base-uri", "form-action", "frame-ancestors", "script-src"} <= directives.keys()
