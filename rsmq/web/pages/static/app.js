// Looks again while the tab is visible, and replaces the sections whose content has changed.
// Focus, open details, checked boxes and scrolled tables stay as they are.

const LIVE = "[data-live]";
const known = new Map();
let etag = null;
let seconds = Number(document.documentElement.dataset.refresh) || 0;

const sectionsOf = (root) => [...root.querySelectorAll(LIVE)].filter((each) => each.id);
for (const each of sectionsOf(document)) known.set(each.id, each.outerHTML);

// A button that is replaced while it is pressed gets no click.
let pressed = null;
addEventListener("pointerdown", (event) => { pressed = event.target; }, true);
for (const end of ["pointerup", "pointercancel"]) {
  addEventListener(end, () => setTimeout(() => { pressed = null; }), true);
}

const isBusy = (node) => {
  const active = document.activeElement;
  if (pressed && node.contains(pressed)) return true;
  if (node.contains(active) && active.matches("input:not([type=checkbox]), textarea, select")) return true;
  const selection = document.getSelection();
  return Boolean(selection && !selection.isCollapsed && node.contains(selection.anchorNode));
};

const keyOf = (node) =>
  node.id ? `#${CSS.escape(node.id)}`
    : node.name ? `[name="${CSS.escape(node.name)}"][value="${CSS.escape(node.value ?? "")}"]`
      : node.href ? `a[href="${CSS.escape(node.getAttribute("href"))}"]` : null;

const replace = (old, fresh) => {
  const focus = old.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const open = [...old.querySelectorAll("details")].map((each) => each.open);
  const scrolls = [...old.querySelectorAll(".scroll")].map((each) => [each.scrollLeft, each.scrollTop]);
  const checked = [...old.querySelectorAll("input[type=checkbox]")].filter((each) => each.checked).map(keyOf);
  old.replaceWith(fresh);
  fresh.querySelectorAll("details").forEach((each, at) => { if (open[at]) each.open = true; });
  fresh.querySelectorAll(".scroll").forEach((each, at) => { if (scrolls[at]) each.scrollTo(...scrolls[at]); });
  for (const key of checked) { const box = key && fresh.querySelector(key); if (box) box.checked = true; }
  if (focus) fresh.querySelector(focus)?.focus({ preventScroll: true });
  addLocalTimes(fresh);
};

const apply = (text) => {
  const page = new DOMParser().parseFromString(text, "text/html");
  const ids = (root) => sectionsOf(root).map((each) => each.id).join(" ");
  if (ids(page) !== ids(document) && !pressed && !sectionsOf(document).some(isBusy)) {
    location.reload(); // a message is gone: its facts and actions are too
    return;
  }
  for (const fresh of sectionsOf(page)) {
    const old = document.getElementById(fresh.id);
    const html = fresh.outerHTML;
    if (!old || known.get(fresh.id) === html || isBusy(old)) continue;
    known.set(fresh.id, html);
    replace(old, document.adoptNode(fresh));
  }
  document.title = page.title;
  seconds = Number(page.documentElement.dataset.refresh) || 0;
};

// All times of a page are UTC, also those in sentences and charts. The local time is a hint.
const addLocalTimes = (root) => {
  for (const node of root.querySelectorAll("time[datetime]")) {
    const at = new Date(node.dateTime);
    if (Number.isNaN(at.getTime())) continue;
    node.title = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
  }
};

// An error that has ended, or a session that has: then the page is loaded again.
const isOver = (answer) =>
  answer.type === "opaqueredirect" || answer.status === 401 ||
  (answer.ok && "problem" in document.documentElement.dataset);

const look = async () => {
  const state = () => document.getElementById("state");
  try {
    const headers = { Accept: "text/html", ...(etag ? { "If-None-Match": etag } : {}) };
    const answer = await fetch(location.href, { headers, redirect: "manual", cache: "no-store" });
    if (isOver(answer)) { location.reload(); return; }
    if (answer.status === 200) {
      etag = answer.headers.get("ETag");
      apply(await answer.text());
    }
    state()?.toggleAttribute("data-lost", answer.status >= 500);
  } catch {
    state()?.setAttribute("data-lost", "");
  }
};

const wait = () => {
  if (!seconds) return;
  setTimeout(async () => {
    if (document.visibilityState === "visible") await look();
    wait();
  }, seconds * 1000);
};

document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && seconds) look();
});

// A box in the head of a table checks all boxes of its rows.
document.addEventListener("change", (event) => {
  if (!event.target.matches("input[data-all]")) return;
  for (const box of event.target.closest("table").querySelectorAll("tbody input[type=checkbox]")) {
    box.checked = event.target.checked;
  }
});

// The slash goes to the field that finds anything.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
  const field = document.querySelector("input[type=search]");
  if (field) { event.preventDefault(); field.focus(); field.select(); }
});

// In a narrow window the menu is wider than its bar.
document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

addLocalTimes(document);
wait();
