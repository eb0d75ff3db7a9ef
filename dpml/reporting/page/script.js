"use strict";
// Every table of numbers: filtered by words, sorted by a click on a head, filled a hundred lines at a time.
for (const box of document.querySelectorAll(".rows")) {
  const { columns, data } = JSON.parse(box.querySelector('script[type="application/json"]').textContent);
  const body = box.querySelector("tbody"), heads = [...box.querySelectorAll("th")];
  const input = box.querySelector("input"), count = box.querySelector(".count"), more = box.querySelector(".more");
  const words = data.map((row) => row.map((cell, i) => `${columns[i]}=${cell}`).join(" ").toLowerCase());
  let sorted = data.map((_, i) => i), shown = [], length = 100;

  const text = (cell) =>
    cell === null ? "" : typeof cell !== "number" ? cell : Number.isInteger(cell) ? String(cell) : String(Number(cell.toPrecision(4)));

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
    const wanted = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = sorted.filter((i) => wanted.every((word) => words[i].includes(word)));
    length = 100;
    draw();
  }
  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
    sorted.sort((a, b) => {
      const [x, y] = [data[a][column], data[b][column]];
      if (x === null || y === null) return (x === null) - (y === null); // what is missing comes last either way
      return way * (typeof x === "number" ? x - y : String(x).localeCompare(String(y)));
    });
    filter();
  }));
  input.addEventListener("input", filter);
  more.addEventListener("click", () => { length += 400; draw(); });
  filter();
}
