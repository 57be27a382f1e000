// Shows the events of a queue as they come. Bodies are texts of nodes, never HTML.

const MAX_LINES = 300;
const MAX_CHARACTERS = 300;
const panel = document.getElementById("tail");
const lines = panel.querySelector("[data-lines]");
const status = panel.querySelector("[data-status]");
const filter = panel.querySelector("[data-filter]");
const pause = panel.querySelector("[data-pause]");
const waiting = panel.querySelector("[data-waiting]");
let held = null;

// As the server shows names: characters that are not seen are escaped.
const visible = (text) =>
  text.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (each) => `\\u${each.codePointAt(0).toString(16).padStart(4, "0")}`);

const cut = (text) => (text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text);

const bodyOf = (event) => {
  if (event.body_base64 !== undefined) return `base64 ${event.body_base64}`;
  return event.body === null ? "withheld" : event.body ?? "";
};

const cell = (row, text, name) => {
  const made = row.insertCell();
  made.textContent = text;
  if (name) made.className = name;
  return made;
};

const hide = (row) => { row.hidden = !row.textContent.toLowerCase().includes(filter.value.toLowerCase()); };

const show = ({ kind, data, at }) => {
  const row = lines.insertRow(0);
  cell(row, at, "number");
  cell(row, kind);
  const id = cell(row, "", "mono id");
  if (data.id) {
    const link = document.createElement("a");
    link.href = `${panel.dataset.messages}/${encodeURIComponent(data.id)}`;
    link.textContent = visible(data.id);
    id.append(link);
  }
  cell(row, data.receive_count ?? "", "number");
  cell(row, visible(cut(kind === "missed" ? `${data.number ?? "some"} events were missed` : bodyOf(data))), "line mono");
  hide(row);
  while (lines.rows.length > MAX_LINES) lines.rows[MAX_LINES].remove();
  waiting.hidden = true;
};

const take = (kind) => (event) => {
  const line = { kind, data: JSON.parse(event.data), at: new Date().toISOString().slice(11, 19) };
  if (!held) { show(line); return; }
  held.push(line);
  if (held.length > MAX_LINES) held.shift();
  status.textContent = `paused, ${held.length} waiting`;
};

const source = new EventSource(panel.dataset.tail);
for (const [type, kind] of [["message", "sent"], ["received", "received"], ["removed", "removed"], ["missed", "missed"]]) {
  source.addEventListener(type, take(kind));
}
source.addEventListener("open", () => { if (!held) status.textContent = "live"; });
source.addEventListener("error", () => {
  status.textContent = source.readyState === EventSource.CLOSED ? "ended: load the page again" : "connecting";
});

filter.addEventListener("input", () => { for (const row of lines.rows) hide(row); });
panel.querySelector("[data-clear]").addEventListener("click", () => {
  lines.replaceChildren();
  waiting.hidden = false;
});
pause.addEventListener("click", () => {
  const shown = held;
  held = held ? null : [];
  pause.setAttribute("aria-pressed", String(Boolean(held)));
  status.textContent = held ? "paused" : "live";
  shown?.forEach(show);
});
