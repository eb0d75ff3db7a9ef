// A picture of the lines of a figure's table that are kept: any setting against any value, a curve for each choice of the rest.
const EPS = ["ε", "ε claimed", "ε proven"];
const VALUES = ["mean", "s.d.", "n", "of them NaN", "seeds", "± 95 %", "published", "vs. reference", "view", "why not proven",
  "tuned", "rows, smallest party", "rows, largest party", "conditional_eps", "metric", "block"];
const COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#882255", "#777777"]; // Okabe & Ito's, mostly
const svg = (name, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
};
const short = (number) => number !== 0 && (Math.abs(number) < 1e-3 || Math.abs(number) >= 1e5) ?
  number.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e") : String(Number(number.toPrecision(4)));

// Where values lie on an axis of so many pixels, and its ticks; a logarithm needs what is above zero.
function scale(values, pixels, log) {
  const to = log ? Math.log10 : (value) => value;
  let [low, high] = [Math.min(...values.map(to)), Math.max(...values.map(to))];
  if (!(high > low)) [low, high] = [low - 0.5, high + 0.5];
  const pad = 0.04 * (high - low), at = (value) => ((to(value) - low + pad) / (high - low + 2 * pad)) * pixels;
  const raw = (high - low) / 5, base = 10 ** Math.floor(Math.log10(raw));
  const step = log && high - low > 1 ? Math.max(1, Math.round(raw)) : base * [1, 2, 5, 10].find((by) => by * base >= raw);
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(log ? 10 ** (k * step) : k * step);
  return { at, ticks };
}

function chart(heads, data, name) {
  const column = (head) => heads.indexOf(head), cell = (i, head) => data[i][column(head)];
  const different = (head, lines) => new Set(lines.map((i) => cell(i, head))).size;
  const lines = data.map((_, i) => i), numbers = (head) => lines.some((i) => typeof cell(i, head) === "number");
  const settings = heads.filter((head) => !VALUES.includes(head) && !EPS.slice(1).includes(head));
  const across = [...settings, ...EPS.slice(1)].filter((head) => heads.includes(head) && numbers(head) && different(head, lines) > 1);
  if (!across.length || !heads.includes("mean")) return null;
  const choice = (label, options) => {
    const select = make("select", {}, ...options.map((each) => make("option", {}, each)));
    select.addEventListener("change", () => { logs[1].tick.checked = wide(); draw(); });
    return { select, box: make("label", { hidden: options.length < 2 }, label, select) };
  };
  const kinds = (head) => heads.includes(head) ? [...new Set(lines.map((i) => String(cell(i, head))))] : [];
  const places = ["block", "dataset"].filter((head) => heads.includes(head)); // pictures of their own, where they differ
  const place = (i) => [...new Set(places.map((head) => cell(i, head)))].join(" ");
  const block = choice("Block", [...new Set(lines.map(place))]), x = choice("x", across);
  const y = choice("y", [...kinds("metric"), ...(heads.includes("vs. reference") ? kinds("metric").map((each) => `${each}, vs. reference`) : [])]);
  if (across.includes("ε")) x.select.value = "ε";
  const logs = ["log x", "log y"].map((text, i) => {
    const tick = make("input", { type: "checkbox", checked: i === 0 });
    tick.addEventListener("change", draw);
    return { tick, box: make("label", {}, tick, text) };
  });
  const hidden = new Set(), legend = make("div", { className: "legend" }), picture = make("div", { className: "picture" });
  let kept = lines, shown = [];

  function curves() {
    const here = kept.filter((i) => place(i) === block.select.value && (!kinds("metric").length || String(cell(i, "metric")) === y.select.value.replace(", vs. reference", "")));
    const rest = []; // what tells curves apart: not what follows from the settings before
    const split = (heads) => new Set(here.map((i) => JSON.stringify(heads.map((head) => cell(i, head))))).size;
    for (const head of settings) {
      const same = head === x.select.value || (head === "ε" && EPS.includes(x.select.value));
      if (!same && split([...rest, head]) > split(rest)) rest.push(head);
    }
    const found = new Map();
    const relative = y.select.value.endsWith(", vs. reference"), from = column(relative ? "vs. reference" : "mean");
    const spread = heads.indexOf("± 95 %", relative ? from : 0);
    for (const i of here) {
      const label = rest.map((head) => head === "algo" ? cell(i, head) : `${head}=${cell(i, head) ?? "-"}`).join(" ") || name;
      const point = { i, x: cell(i, x.select.value), y: data[i][from], spread: spread < 0 ? null : data[i][spread] };
      if (typeof point.x === "number" && typeof point.y === "number") found.set(label, [...(found.get(label) ?? []), point]);
    }
    return [...found].map(([label, points], k) => ({ label, points: points.sort((a, b) => a.x - b.x), colour: COLOURS[k % 8], dash: 2 * Math.floor(k / 8) }));
  }
  function wide() { // whether a logarithm is needed to see more than the largest
    const values = curves().flatMap((curve) => curve.points.map((point) => point.y));
    return Math.min(...values) > 0 && Math.max(...values) > 1000 * Math.min(...values);
  }
  function draw() {
    const found = curves();
    legend.replaceChildren(...found.slice(0, 40).map((curve) => {
      const tick = make("input", { type: "checkbox", checked: !hidden.has(curve.label) }), mark = make("span", {}, "●");
      mark.style.color = curve.colour;
      tick.addEventListener("change", () => { hidden[tick.checked ? "delete" : "add"](curve.label); draw(); });
      return make("label", {}, tick, mark, curve.label);
    }));
    const usable = (point) => (!logs[0].tick.checked || point.x > 0) && (!logs[1].tick.checked || point.y > 0);
    shown = found.slice(0, 40).filter((curve) => !hidden.has(curve.label))
      .map((curve) => ({ ...curve, points: curve.points.filter(usable) })).filter((curve) => curve.points.length);
    const points = shown.flatMap((curve) => curve.points);
    if (!points.length) return picture.replaceChildren("No line that is kept has these numbers.");
    const [width, height, left, bottom] = [720, 400, 70, 50];
    const reach = points.flatMap(({ y, spread }) => spread ? [y - spread, y, y + spread] : [y]).filter((value) => !logs[1].tick.checked || value > 0);
    const [h, v] = [scale(points.map((point) => point.x), width - left - 15, logs[0].tick.checked), scale(reach, height - bottom - 15, logs[1].tick.checked)];
    const px = (value) => left + h.at(value), py = (value) => height - bottom - v.at(value);
    const text = (content, attributes) => svg("text", { "font-size": 13, fill: "currentColor", ...attributes }, content);
    const frame = { stroke: "currentColor", "stroke-opacity": 0.25 };
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "font-family": "sans-serif", "aria-label": `${y.select.value || "mean"} against ${x.select.value}` },
      ...h.ticks.flatMap((tick) => [svg("line", { x1: px(tick), x2: px(tick), y1: 15, y2: height - bottom, ...frame }), text(short(tick), { x: px(tick), y: height - bottom + 18, "text-anchor": "middle" })]),
      ...v.ticks.flatMap((tick) => [svg("line", { x1: left, x2: width - 15, y1: py(tick), y2: py(tick), ...frame }), text(short(tick), { x: left - 6, y: py(tick) + 4, "text-anchor": "end" })]),
      text(x.select.value, { x: (left + width - 15) / 2, y: height - 10, "text-anchor": "middle" }),
      text(y.select.value || "mean", { x: 16, y: (height - bottom) / 2, "text-anchor": "middle", transform: `rotate(-90 16 ${(height - bottom) / 2})` }));
    for (const { label, points: on, colour, dash } of shown) {
      drawing.append(svg("polyline", { points: on.map((point) => `${px(point.x)},${py(point.y)}`).join(" "), fill: "none", stroke: colour, "stroke-width": 1.8, "stroke-dasharray": dash ? `${3 * dash} 4` : "none" }));
      for (const point of on) {
        const low = point.y - (point.spread || 0), end = logs[1].tick.checked && low <= 0 ? height - bottom : py(low);
        const said = `${label}: ${x.select.value} = ${short(point.x)}, ${short(point.y)}${point.spread ? ` ± ${short(point.spread)}` : ""}`;
        if (point.spread) drawing.append(svg("line", { x1: px(point.x), x2: px(point.x), y1: end, y2: py(point.y + point.spread), stroke: colour, "stroke-opacity": 0.6 }));
        drawing.append(svg("circle", { cx: px(point.x), cy: py(point.y), r: 4, fill: colour }, svg("title", {}, said)));
      }
    }
    picture.replaceChildren(drawing);
  }
  const save = (content, kind, end) => {
    const link = make("a", { href: URL.createObjectURL(new Blob([content], { type: kind })), download: `${name}.${end}` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1e4);
  };
  function alone() { // as a file of its own: black on white, with its legend
    const copy = picture.firstElementChild.cloneNode(true);
    for (const [key, value] of [["xmlns", "http://www.w3.org/2000/svg"], ["color", "#222"], ["width", 720], ["height", 415 + 18 * shown.length]]) copy.setAttribute(key, value);
    copy.setAttribute("viewBox", `0 0 720 ${415 + 18 * shown.length}`);
    copy.prepend(svg("rect", { width: "100%", height: "100%", fill: "#fff" }));
    shown.forEach(({ label, colour }, k) => copy.append(svg("circle", { cx: 76, cy: 411 + 18 * k, r: 4, fill: colour }), svg("text", { x: 88, y: 415 + 18 * k, "font-size": 13, fill: "#222" }, label)));
    return new XMLSerializer().serializeToString(copy);
  }
  const quoted = (value) => { // a text is no formula to a spreadsheet
    const text = typeof value === "string" && /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value ?? "");
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const ways = {
    SVG: () => save(alone(), "image/svg+xml", "svg"),
    PNG: async () => {
      const image = new Image();
      image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(alone())}`;
      await image.decode();
      const canvas = make("canvas", { width: 2 * image.width, height: 2 * image.height });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob((blob) => save(blob, "image/png", "png"));
    },
    CSV: () => save([heads, ...shown.flatMap(({ points }) => points.map(({ i }) => data[i]))].map((row) => row.map(quoted).join(",")).join("\n"), "text/csv", "csv"),
  };
  const buttons = Object.entries(ways).map(([end, way]) => {
    const press = make("button", { type: "button" }, end);
    press.addEventListener("click", () => { if (shown.length) way(); });
    return press;
  });
  logs[1].tick.checked = wide();
  draw();
  return {
    element: make("div", { className: "chart" }, make("div", { className: "filter" }, block.box, x.box, y.box, ...logs.map((each) => each.box), ...buttons), picture, legend),
    keep: (chosen) => { kept = chosen; draw(); },
  };
}
