"use strict";
(() => {
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const { look, floors, start, audited, cell, eager } = parse("pcer-settings");
  const sections = [...document.querySelectorAll("section.release")];
  const data = new Map(), views = new Map(), near = new Set();
  const slider = document.getElementById("floor");
  let floor = floors[start], queue = Promise.resolve();

  const dataOf = (section) => {
    if (!data.has(section)) data.set(section, parse(section.dataset.rows));
    return data.get(section);
  };
  const sameFloor = (one, other) => Math.abs(one / other - 1) < 1e-9;

  // Numbers as the tables write them: a true minus, three digits or whole numbers.
  const signed = (x) => {
    if (x === null) return "–";
    const size = Math.abs(x);
    const text = size >= 100 ? Math.round(size).toLocaleString("en-US") : String(Number(size.toPrecision(3)));
    return (x < 0 ? "−" : "+") + text;
  };

  // Mean disparity of a pair over a budget's models: benefit / max(cost, floor), first minus second.
  const recompute = (rows, budget, [i, j]) => {
    const models = rows.filter((row) => row.budget === budget);
    const ratio = (row, g) => row["b" + g] / Math.max(row["c" + g], floor);
    const known = models.every((row) => [i, j].every((g) => row["b" + g] !== null && row["c" + g] !== null));
    if (!known) return { mean: null, floored: null };
    const sum = models.reduce((total, row) => total + (ratio(row, i) - ratio(row, j)), 0);
    const below = models.filter((row) => Math.max(row["c" + i], row["c" + j]) < floor).length;
    return { mean: sum / models.length, floored: below / models.length };
  };

  const intervalOf = (rows, budget, pair) => {
    const found = rows.find((row) => row.budget === budget && row.pair === pair && sameFloor(row.floor, floor));
    if (!found) return "none at this floor";
    return found.low === null ? "[no interval]" : `[${signed(found.low)}, ${signed(found.high)}]`;
  };

  const refreshTable = (section) => {
    const { datasets, pairs } = dataOf(section);
    for (const line of section.querySelectorAll("tr[data-pair]")) {
      const { budget, pair } = line.dataset;
      const { mean, floored } = recompute(datasets.runs, budget, pairs[pair]);
      const shown = line.querySelector("data");
      shown.value = mean === null ? "" : mean;
      shown.textContent = signed(mean);
      line.querySelector(".floored").textContent = floored === null ? "–" : `${Math.round(100 * floored)} %`;
      const name = datasets.keys.find((row) => row.key === "d" + pair).name;
      line.querySelector(".interval").textContent = intervalOf(datasets.pairs, budget, name);
    }
  };

  // As many panels side by side as fit, in rows of equal length.
  const columnsFor = (panels, width) => {
    const most = Math.max(1, Math.floor((width - 40) / (cell + 24)));
    return Math.ceil(panels / Math.ceil(panels / most));
  };

  const draw = async (place) => {
    if (views.has(place)) return;
    views.set(place, null);
    const { datasets, charts } = dataOf(place.closest("section"));
    const spec = structuredClone(charts[place.dataset.chart]);
    spec.datasets = datasets;
    spec.params.find((one) => one.name === "floor").value = floor;
    if (spec.facet) spec.columns = columnsFor(spec.facet.sort.length, place.clientWidth);
    // Errors only: between audited floors a layer has no rows, which Vega would warn about.
    const quiet = { logLevel: 1, actions: false, tooltip: false };
    const options = { ast: true, renderer: "svg", mode: "vega-lite", config: look, ...quiet };
    const { view } = await vegaEmbed(place, spec, options);
    place.style.minHeight = "0";
    // The place is one image with a text alternative; its parts say nothing more.
    place.querySelector("svg").setAttribute("aria-hidden", "true");
    views.set(place, view);
    if (view.signal("floor") !== floor) await view.signal("floor", floor).runAsync();
    place.dataset.drawn = "yes";
  };
  const enqueue = (place) => { queue = queue.then(() => draw(place)).then(() => new Promise((next) => setTimeout(next))); return queue; };

  const setFloor = () => {
    floor = floors[Number(slider.value)];
    const text = String(Number(floor.toPrecision(4)));
    slider.setAttribute("aria-valuetext", text);
    document.querySelectorAll(".floor-value").forEach((one) => { one.textContent = text; });
    const known = audited.some((one) => sameFloor(one, floor));
    document.getElementById("floor-hint").textContent = known ? "audited: intervals shown" : "between: means only";
    near.forEach(refreshTable);
    views.forEach((view, place) => { if (view && near.has(place.closest("section"))) view.signal("floor", floor).runAsync(); });
  };

  const drawAll = () => { document.querySelectorAll(".chart").forEach(enqueue); return queue; };
  new Map([[sections, (section, close) => {
    if (!close) { near.delete(section); return; }
    near.add(section);
    refreshTable(section);
    views.forEach((view, place) => { if (view && place.closest("section") === section) view.signal("floor", floor).runAsync(); });
  }], [document.querySelectorAll(".chart"), (place, close) => { if (close) enqueue(place); }]]).forEach((act, places) => {
    const watch = new IntersectionObserver((seen) => seen.forEach((one) => act(one.target, one.isIntersecting)), { rootMargin: "700px" });
    places.forEach((one) => watch.observe(one));
  });

  let waiting = false;
  slider.addEventListener("input", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; setFloor(); });
  });
  document.querySelector(".floorbar").addEventListener("submit", (event) => event.preventDefault());
  document.getElementById("print").addEventListener("click", () => drawAll().then(() => window.print()));
  if (eager) requestIdleCallback(drawAll);
})();
