"""Every page on a phone: what is tapped is large enough, and what scrolls sideways shows it."""

#: WCAG 2.2, 2.5.8: targets are 24 pixels wide and high; or smaller, and circles of 24 pixels around
#: their centres meet no other target, nor its circle. Links in a sentence are exempt.
_SMALL = """
const all = [...document.querySelectorAll(
  "a[href], button, input:not([type=hidden]), select, textarea, summary")]
  .filter(each => each.checkVisibility({visibilityProperty: true}) && !each.matches(".skip"));
const isText = node => node.nodeType === 3 && /[\\p{L}\\p{N}]/u.test(node.data);
const isInSentence = each => getComputedStyle(each).display === "inline"
  && [...each.parentNode.childNodes].some(isText);
const boxes = all.map(each => [each, each.getBoundingClientRect()])
  .filter(([, box]) => box.width && box.height);
const isSmall = box => box.width < 23.9 || box.height < 23.9;
const middle = box => [box.x + box.width / 2, box.y + box.height / 2];
const distance = ([x, y], box) => Math.hypot(
  Math.max(box.left - x, 0, x - box.right), Math.max(box.top - y, 0, y - box.bottom));
const between = ([x, y], [z, w]) => Math.hypot(x - z, y - w);
const isNear = (one, other) => distance(middle(one), other) < 12
  || isSmall(other) && between(middle(one), middle(other)) < 24;
return boxes.filter(([each, box]) => isSmall(box) && !isInSentence(each)
  && boxes.some(([other, its]) => other !== each && isNear(box, its)))
  .map(([each, box]) => `${box.width} x ${box.height}: ${each.outerHTML.slice(0, 160)}`);
"""

#: Each list or table that is wider than its place has a shadow at the edge that is not at its end.
_HIDDEN = """
const all = [...document.body.querySelectorAll("*")].filter(each => each.checkVisibility()
  && each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 24
  && ["auto", "scroll"].includes(getComputedStyle(each).overflowX));
const unmarked = all.filter(
  each => !getComputedStyle(each).backgroundAttachment.includes("local"));
return [all.length, unmarked.map(each => each.outerHTML.slice(0, 160))];
"""


_WIDTH = 390
_LONG_WORD = """
const text = document.createElement("p");
text.textContent = "x".repeat(200);
document.querySelector(".panel .body").append(text);
return [text.scrollWidth, text.clientWidth];
"""


def test_a_long_word_of_a_sentence_is_wrapped(chromium, busy_site):
    chromium.set_view(_WIDTH, is_phone=True)
    path = next(each for each in busy_site.pages if "/messages/" in each)
    chromium.visit(busy_site.address + path)
    needed, has = chromium.driver.execute_script(_LONG_WORD)
    assert 0 < needed <= has


_CALM = """
const calm = document.createElement("p");
calm.className = "calm";
calm.innerHTML = '<i class="dot good"></i><span></span>';
calm.lastChild.textContent = "Nothing is wrong. ".repeat(20);
document.querySelector(".panel").append(calm);
const box = calm.firstChild.getBoundingClientRect();
return [box.width, box.height];
"""


def test_the_dot_of_the_calm_sentence_is_round(chromium, busy_site):
    chromium.set_view(_WIDTH, is_phone=True)
    chromium.visit(busy_site.address + busy_site.pages[0])
    width, height = chromium.driver.execute_script(_CALM)
    assert abs(width - height) < 0.1, (width, height)
    assert height > 5


_SHOWN = """
const heads = [...document.querySelectorAll("thead th")];
const box = heads.find(each => each.innerText.trim() === arguments[0])?.getBoundingClientRect();
return box ? Math.min(box.right, innerWidth) - box.left : 0;
"""


def test_the_columns_that_say_what_is_wrong_are_in_sight(chromium, busy_site):
    chromium.set_view(_WIDTH, is_phone=True)
    messages = next(each for each in busy_site.pages if each.endswith("/messages"))
    shown = {}
    for path, title in (("/workers", "failed"), (messages, "body")):
        chromium.visit(busy_site.address + path)
        shown[path] = chromium.driver.execute_script(_SHOWN, title)
    assert all(width >= 40 for width in shown.values()), shown


def test_a_bar_of_actions_covers_no_message_before_one_is_chosen(chromium, busy_site):
    chromium.set_view(_WIDTH, is_phone=True)
    path = next(each for each in busy_site.pages if each.endswith("/messages"))
    chromium.visit(busy_site.address + path)
    run = chromium.driver.execute_script
    place = "return getComputedStyle(document.querySelector('.rows > .buttons')).position;"
    assert run(place) == "static"
    run("document.querySelector('.rows tbody input').click();")
    assert run(place) == "sticky"


def test_each_page_can_be_used_with_a_thumb(chromium, busy_site):
    chromium.set_view(_WIDTH, is_phone=True)
    run = chromium.driver.execute_script
    found, scrolling = {}, 0
    for path in [*busy_site.pages, "/api/v1/docs"]:
        chromium.visit(busy_site.address + path)
        run("for (const each of document.querySelectorAll('details')) each.open = true;")
        wide, unmarked = run(_HIDDEN)
        scrolling += wide
        # The window of a phone grows with a page that is too wide.
        width = run("return document.documentElement.scrollWidth;")
        bad = [*run(_SMALL), *unmarked, *([f"{width} wide"] if width > _WIDTH else [])]
        if bad:
            found[path] = bad
    assert found == {}
    assert scrolling  # else no sign was measured
