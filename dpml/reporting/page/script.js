"use strict";
const wordsOf = (input) => input.value.toLowerCase().split(/\s+/).filter(Boolean);

// The claims: filtered by words and by verdict.
for (const box of document.querySelectorAll(".claims")) {
  const lines = [...box.querySelectorAll("tbody tr")], input = box.querySelector("input");
  const buttons = [...box.querySelectorAll("button[data-verdict]")], count = box.querySelector(".count");
  function filter() {
    const wanted = wordsOf(input);
    const pressed = buttons.filter((b) => b.getAttribute("aria-pressed") === "true").map((b) => b.dataset.verdict);
    let shown = 0;
    for (const line of lines) {
      const text = line.textContent.toLowerCase(), verdict = line.lastElementChild.textContent;
      line.hidden = !wanted.every((word) => text.includes(word)) || (pressed.length > 0 && !pressed.includes(verdict));
      shown += !line.hidden;
    }
    count.textContent = shown === lines.length ? `${shown} claims` : `${shown} of ${lines.length} claims`;
  }
  input.addEventListener("input", filter);
  for (const button of buttons) {
    button.addEventListener("click", () => {
      button.setAttribute("aria-pressed", String(button.getAttribute("aria-pressed") !== "true"));
      filter();
    });
  }
}

// A table of numbers, made when it is opened: filtered by words, sorted by a click on a head, a hundred lines at a time.
function fill(box) {
  const packed = JSON.parse(box.querySelector('script[type="application/json"]').textContent), { columns } = packed;
  const cells = packed.data.map((column) => Array.isArray(column) ? column : column.codes.map((i) => column.levels[i]));
  const data = (cells[0] ?? []).map((_, line) => cells.map((column) => column[line]));
  const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("th")];
  const input = box.querySelector("input"), count = box.querySelector(".count"), more = box.querySelector(".more");
  const words = data.map((row) => row.map((cell, i) => `${columns[i]}=${cell}`).join(" ").toLowerCase());
  let sorted = data.map((_, i) => i), shown = [], length = 100;

  const text = (cell) =>
    cell === null ? "" : typeof cell !== "number" ? cell : Number.isInteger(cell) ? String(cell) : String(Number(cell.toPrecision(4)));
  const size = (cell) => cell === "∞" ? Infinity : cell;

  function draw() {
    body.replaceChildren(...shown.slice(0, length).map((i) => {
      const line = document.createElement("tr");
      for (const cell of data[i]) {
        const place = line.insertCell();
        place.textContent = text(cell);
        if (typeof cell === "number") place.className = "number";
      }
      return line;
    }));
    count.textContent = `${shown.length} of ${data.length} rows`;
    more.hidden = shown.length <= length;
  }
  function filter() {
    const wanted = wordsOf(input);
    shown = sorted.filter((i) => wanted.every((word) => words[i].includes(word)));
    length = 100;
    draw();
  }
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
    sorted.sort((a, b) => {
      const [x, y] = [size(data[a][column]), size(data[b][column])];
      if (x === null || y === null) return (x === null) - (y === null); // what is missing comes last either way
      return way * (typeof x === "number" && typeof y === "number" ? x - y || 0 : String(x).localeCompare(String(y)));
    });
    filter();
  }));
  input.addEventListener("input", filter);
  more.addEventListener("click", () => { length += 400; draw(); });
  filter();
}
for (const box of document.querySelectorAll("details.rows")) {
  box.addEventListener("toggle", () => fill(box), { once: true });
}
