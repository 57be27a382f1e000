"""Every page, as people see it: in both themes, in narrow and wide windows, and by keyboard."""

import itertools

import pytest

from tests.browser.chromium import THEMES, WIDTHS
from tests.scale import SOAK

_SITES = ("busy_site", "empty_site", "site_without_redis")
#: Each theme and each width; all combinations in a soak.
_SOME = [
    ("busy_site", "light", 1280),
    ("busy_site", "dark", 360),
    ("empty_site", "dark", 360),
    ("site_without_redis", "light", 1280),
]
_CASES = list(itertools.product(_SITES, THEMES, WIDTHS)) if SOAK else _SOME


@pytest.mark.parametrize(("site_name", "theme", "width"), _CASES)
def test_each_page_is_accessible_and_fits_into_its_window(
    request, chromium, site_name, theme, width
):
    """One view of each page; test_hostile.py visits the others, which fit and do nothing, too."""
    site = request.getfixturevalue(site_name)
    chromium.set_view(width, theme)
    found = {}
    for path in site.paths if SOAK else site.pages:
        _, bad = chromium.visit(site.address + path)
        bad += chromium.accessibility_problems()
        if bad:
            found[path] = bad
    assert found == {}


_FOCUS = """
const all = [...document.querySelectorAll(
  "a[href], button, input:not([type=hidden]), select, textarea, summary")];
const shown = all.filter(
  each => each.checkVisibility({visibilityProperty: true}) && !each.disabled);
const missed = shown.filter(each => { each.focus(); return document.activeElement !== each; });
const trapped = shown.filter(each => each.tabIndex < 0);
const clickable = [...document.querySelectorAll("[onclick], [role=button]")]
  .filter(each => !all.includes(each) && each.tabIndex < 0);
return [...missed, ...trapped, ...clickable].map(each => each.outerHTML.slice(0, 160));
"""


def test_each_action_can_be_reached_by_keyboard(chromium, busy_site):
    chromium.set_view()
    found = {}
    for path in busy_site.pages:
        chromium.visit(busy_site.address + path)
        missed = chromium.driver.execute_script(_FOCUS)
        if missed:
            found[path] = missed
    assert found == {}


_LINKS = """
return [...document.querySelectorAll("#alerts .problems a")].map(each => {
  const box = each.getBoundingClientRect();
  return [Math.min(box.width, box.height) >= 24, each.outerHTML];
});
"""


def test_the_links_of_what_is_wrong_are_24_pixels_wide_and_high(chromium, busy_site):
    chromium.set_view(1280)
    chromium.visit(busy_site.address + "/")
    links = chromium.driver.execute_script(_LINKS)
    assert len(links) > 1
    assert [html for is_large, html in links if not is_large] == []


_HEIGHTS = """
const each = document.createElement("span");
each.className = "failure"; each.tabIndex = 0; each.textContent = "first\\nsecond\\nthird";
document.querySelector("tbody td").append(each);
const cut = each.clientHeight; each.focus(); return [cut, each.clientHeight];
"""


def test_an_error_is_one_line_until_it_has_the_focus(chromium, busy_site):
    chromium.set_view(1280)
    chromium.visit(busy_site.address + "/queues")
    cut, whole = chromium.driver.execute_script(_HEIGHTS)
    assert 0 < 2.5 * cut < whole
