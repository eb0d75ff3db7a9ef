"use strict";
const make = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const text = (row, column) => (row.cells[column]?.textContent ?? "").trim();

// The number at the beginning of a cell, such as "(1.2 ± 0.3)·10⁻⁵"; NaN if there is none.
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";
function number(cell) {
  if (cell === "∞") return Infinity;
  const found = cell.match(/^\(?([−+-]?[\d.,]+(?:e[+-]?\d+)?)/);
  if (!found) return NaN;
  const power = cell.match(/·10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)/);
  const digits = power ? [...power[1]].map((sign) => sign === "⁻" ? "-" : RAISED.indexOf(sign)).join("") : "0";
  return Number(found[1].replace("−", "-").replaceAll(",", "")) * 10 ** Number(digits);
}

// Tables are sorted by a click on a head: numbers by size, what is missing last either way.
function compare(one, other, way) {
  if (!one || !other || one === "-" || other === "-") return (!one || one === "-") - (!other || other === "-");
  const [x, y] = [number(one), number(other)];
  if (Number.isNaN(x) || Number.isNaN(y)) return way * one.localeCompare(other, "en", { numeric: true });
  return x === y ? 0 : way * (x - y);
}
function sortable(table) {
  const body = table.tBodies[0], heads = all("thead th", table);
  heads.forEach((head, column) => {
    head.setAttribute("aria-sort", "none");
    head.tabIndex = 0;
    const sort = () => {
      const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      for (const each of heads) each.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", way === 1 ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => compare(text(a, column), text(b, column), way)));
    };
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}

// Long tables have a field that keeps the rows with all of its words.
function filtered(table) {
  const input = make("input", { type: "search", placeholder: "filter rows", ariaLabel: "Filter rows" });
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of table.tBodies[0].rows) {
      const content = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => content.includes(word));
    }
  });
  table.parentElement.before(input);
}

// A table with numbers in its first column is also a chart, whose nearest point is told.
const SVG = "http://www.w3.org/2000/svg";
const COLOURS = ["#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#777777"];
function draw(name, attributes, parent) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  parent.append(element);
  return element;
}
function axis(values, from, to) {
  const known = values.filter((value) => value > 0 && Number.isFinite(value));
  const log = known.length === values.length && Math.max(...known) >= 5 * Math.min(...known);
  const scaled = (value) => log ? Math.log(value) : value;
  const low = Math.min(...values.map(scaled)), high = Math.max(...values.map(scaled));
  return (value) => from + (to - from) * (scaled(value) - low) / (high - low || 1);
}
function chart(table) {
  const heads = all("thead th", table).map((head) => head.textContent);
  const points = [];
  for (const row of table.tBodies[0].rows) {
    for (let column = 1; column < heads.length; column++) {
      const [x, y] = [number(text(row, 0)), number(text(row, column))];
      if (Number.isFinite(x) && Number.isFinite(y)) points.push({ x, y, column, words: text(row, column) });
    }
  }
  const place = { x: axis(points.map((point) => point.x), 20, 580), y: axis(points.map((point) => point.y), 240, 20) };
  const picture = document.createElementNS(SVG, "svg");
  picture.setAttribute("viewBox", "0 0 600 260");
  const told = make("output"), figure = make("figure", {}, told);
  figure.append(picture);
  for (let column = 1; column < heads.length; column++) {
    const own = points.filter((point) => point.column === column);
    const colour = COLOURS[(column - 1) % COLOURS.length];
    const line = own.map((point) => `${place.x(point.x)},${place.y(point.y)}`).join(" ");
    draw("polyline", { points: line, fill: "none", stroke: colour, "stroke-width": 1.5 }, picture);
    for (const point of own) draw("circle", { cx: place.x(point.x), cy: place.y(point.y), r: 3, fill: colour }, picture);
  }
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect(), factor = 600 / box.width;
    const [x, y] = [(event.clientX - box.left) * factor, (event.clientY - box.top) * factor];
    const far = (point) => Math.hypot(place.x(point.x) - x, place.y(point.y) - y);
    const nearest = points.reduce((one, other) => far(other) < far(one) ? other : one);
    told.textContent = `${heads[nearest.column]}, ${heads[0]} = ${nearest.x}: ${nearest.words}`;
  });
  return figure;
}
function charted(table) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 3 || rows.some((row) => Number.isNaN(number(text(row, 0))))) return;
  const box = make("details", {}, make("summary", {}, "Chart"));
  box.addEventListener("toggle", () => box.append(chart(table)), { once: true });
  table.parentElement.before(box);
}

for (const table of all("main table")) {
  if (table.closest(".claims") || table.tBodies[0].rows.length < 2) continue;
  sortable(table);
  if (table.tBodies[0].rows.length > 12) filtered(table);
  charted(table);
}
