"use strict";
const make = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

// The switch between light and dark colours.
const button = document.getElementById("theme");
const shown = () => button.setAttribute("aria-pressed", String(theme.dark));
button.hidden = false;
button.addEventListener("click", () => {
  const name = theme.dark ? "light" : "dark";
  theme.show(name);
  theme.chosen = name;
  shown();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", shown);
shown();

// Tables are sorted by a click on a head: numbers by size, what is missing last either way.
const size = (text) => text === "∞" ? Infinity : parseFloat(text.replace(/^\(/, "").replace("−", "-"));
function order(one, other, way) {
  if (!one || one === "-" || !other || other === "-") return (!one || one === "-") - (!other || other === "-");
  const [x, y] = [size(one), size(other)];
  return way * (Number.isNaN(x) || Number.isNaN(y) ? one.localeCompare(other, "en", { numeric: true }) : x === y ? 0 : x - y);
}
function sortable(table, sorted) {
  const heads = all("thead th", table);
  heads.forEach((head, column) => {
    const press = make("button", { type: "button" }, ...head.childNodes);
    head.replaceChildren(press);
    head.setAttribute("aria-sort", "none");
    press.addEventListener("click", () => {
      const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const each of heads) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
      sorted(column, way);
    });
  });
}
for (const table of all("main table")) {
  const body = table.tBodies[0];
  if (body.rows.length < 2) continue;
  sortable(table, (column, way) => {
    const text = (row) => (row.cells[column]?.textContent ?? "").trim();
    body.append(...[...body.rows].sort((a, b) => order(text(a), text(b), way)));
  });
}

// Lists, tables and small pictures are filtered by words, and by verdict where there are verdicts.
function filtered(box) {
  const { what } = box.dataset, entries = all("ol.verdicts > li, ul.cards > li, tbody tr", box);
  const kind = (entry) => entry.querySelector("[data-kind]")?.dataset.kind;
  const text = entries.map((entry) => `${entry.textContent} ${entry.dataset.words ?? ""}`.toLowerCase());
  const input = make("input", { type: "search" }), count = make("span", { className: "count" });
  count.setAttribute("role", "status");
  const bar = make("div", { className: "filter" }, make("label", {}, `Search ${what}`, input));
  const buttons = [];
  for (const name of new Set(entries.map(kind).filter(Boolean))) {
    const like = entries.map((entry) => entry.querySelector("[data-kind]")).find((badge) => badge?.dataset.kind === name);
    const number = entries.filter((entry) => kind(entry) === name).length;
    const press = make("button", { type: "button", className: like.className }, `${name}: ${number}`);
    press.dataset.kind = name;
    press.setAttribute("aria-pressed", "false");
    press.addEventListener("click", () => {
      press.setAttribute("aria-pressed", String(press.getAttribute("aria-pressed") !== "true"));
      filter();
    });
    buttons.push(press);
  }
  function filter() {
    const wanted = words(input.value);
    const kinds = buttons.filter((press) => press.getAttribute("aria-pressed") === "true").map((press) => press.dataset.kind);
    let number = 0;
    entries.forEach((entry, i) => {
      entry.hidden = !wanted.every((word) => text[i].includes(word)) || (kinds.length > 0 && !kinds.includes(kind(entry)));
      number += !entry.hidden;
    });
    for (const list of all("ul.cards", box)) {
      list.hidden = list.previousElementSibling.hidden = all("li", list).every((entry) => entry.hidden);
    }
    count.textContent = number === entries.length ? `${number} ${what}` : `${number} of ${entries.length} ${what}`;
  }
  input.addEventListener("input", filter);
  bar.append(...buttons, count);
  box.prepend(bar);
  filter();
  // ?verdicts=not-reproduced shows these only
  const asked = new URLSearchParams(location.search).get(what);
  buttons.filter((press) => press.dataset.kind.replace(/[^A-Za-z0-9]+/g, "-") === asked).forEach((press) => press.click());
}
all(".filtered").forEach(filtered);

// A figure's whole table is unpacked when it is opened: searched, sorted, a hundred lines at a time.
async function fill(box) {
  const packed = box.querySelector('script[type="application/gzip"]');
  const first = document.querySelector(`#figure-${packed.dataset.at} script[type="application/gzip"]`); // of equal tables
  const bytes = Uint8Array.from(atob(first.textContent), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { heads, columns } = await new Response(stream).json();
  const data = (columns[0] ?? []).map((_, line) => columns.map((column) => column[line]));
  const format = (cell) => cell === null ? "" : typeof cell !== "number" ? String(cell) :
    Number.isInteger(cell) ? String(cell) : String(Number(cell.toPrecision(4)));
  const text = data.map((row) => row.map((cell, i) => `${heads[i]}=${cell ?? ""}`).join(" ").toLowerCase());
  const input = make("input", { type: "search" }), count = make("span", { className: "count" });
  count.setAttribute("role", "status");
  const body = make("tbody"), more = make("button", { type: "button" }, "Show more");
  const head = make("tr", {}, ...heads.map((name) => make("th", { scope: "col" }, name)));
  const table = make("table", {}, make("thead", {}, head), body);
  const drawn = chart(heads, data, packed.dataset.label.replace(/^.* |\.csv$/g, ""));
  let sorted = data.map((_, i) => i), kept = [], length = 100;
  function draw() {
    body.replaceChildren(...kept.slice(0, length).map((i) => make("tr", {}, ...data[i].map((cell) =>
      make("td", { className: String(cell).length > 30 ? "t" : "" }, format(cell))))));
    count.textContent = `${kept.length} of ${data.length} lines`;
    more.hidden = kept.length <= length;
  }
  function filter() {
    const wanted = words(input.value);
    kept = sorted.filter((i) => wanted.every((word) => text[i].includes(word)));
    length = 100;
    draw();
    drawn?.keep(kept);
  }
  sortable(table, (column, way) => {
    const cell = (i) => String(data[i][column] ?? "");
    sorted.sort((a, b) => order(cell(a), cell(b), way));
    filter();
  });
  input.addEventListener("input", filter);
  more.addEventListener("click", () => { length += 400; draw(); });
  const scroll = make("div", { className: "scroll", tabIndex: 0, ariaLabel: packed.dataset.label }, table);
  scroll.setAttribute("role", "region");
  box.append(make("div", { className: "filter" }, make("label", {}, "Search lines", input), count), ...(drawn ? [drawn.element] : []), scroll, more);
  filter();
}
for (const box of all("details.rows")) box.addEventListener("toggle", () => fill(box), { once: true });
