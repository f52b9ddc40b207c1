"use strict";
(() => {
  const parse = (id) => JSON.parse(document.getElementById(id).textContent);
  const { look, floors, start, audited } = parse("pcer-settings");
  const sections = [...document.querySelectorAll("section.release")];
  const data = new Map(), views = new Map(), chosen = new Map(sections.map((one) => [one, floors[start]]));
  let queue = Promise.resolve();

  const dataOf = (section) => {
    if (!data.has(section)) data.set(section, parse(section.dataset.rows));
    return data.get(section);
  };
  const sameFloor = (one, other) => Math.abs(one / other - 1) < 1e-9;

  // Terms say what they mean when they are pointed at, or reached by the keyboard.
  const explain = (inside) => {
    for (const term of inside.querySelectorAll("dfn:not([data-tip])")) {
      term.dataset.tip = document.getElementById(term.getAttribute("aria-describedby")).textContent;
    }
  };

  // The two screens of a release by the chosen cost and setting.
  const stateOf = (section) => {
    const at = (selector) => section.querySelector(selector);
    const { story } = dataOf(section);
    const screen = story.screens[at(".choose-cost")?.value ?? 0];
    const setting = Number(at(".choose-setting")?.value ?? screen.telling);
    return { at, story, screen, setting, view: screen.settings[setting] };
  };
  const badge = (place, verdict, words) => {
    place.className = place.className.replace(/(verdict-words|setting-words) .*/, "$1 " + verdict);
    place.textContent = words;
  };
  const show = (section) => {
    const { at, story, screen, view } = stateOf(section);
    const text = (numbers) => numbers.map((one) => story.texts[one]).join("\n");
    const list = (numbers) => numbers.map((one) => `<li>${story.texts[one]}</li>`).join("");
    at(".finding").className = "finding " + screen.verdict;
    badge(at(".verdict-words"), screen.verdict, screen.words);
    badge(at(".setting-words"), view.verdict, view.words);
    at(".headline").innerHTML = text(screen.headline);
    at(".hero .picture").innerHTML = text(view.hero);
    at(".setting-name").textContent = view.name;
    at(".setting-advice").innerHTML = text(view.advice);
    at(".account-lines").innerHTML = list(screen.account);
    at(".trust-lines").innerHTML = list(screen.trust);
    at(".next-lines").innerHTML = list(screen.next);
    if (at(".exposures")) at(".exposures .picture").innerHTML = text(screen.exposures);
    if (at(".other-cost")) at(".other-cost").hidden = screen === story.screens[0];
    const options = [...(at(".choose-setting")?.options ?? [])];
    if (options.length <= 12) options.forEach((one, k) => { one.textContent = `${screen.settings[k].name}: ${screen.settings[k].words}`; });
    for (const row of section.querySelectorAll(".appendix tbody tr")) {
      row.classList.toggle("chosen", options.length > 1 && row.cells[0].textContent === view.label);
    }
    section.querySelectorAll(".tools button[aria-expanded=true]").forEach((one) => { one.click(); });
    explain(section);
  };

  // The numbers of a picture or chart, as a table and as a file.
  const numbersOf = (section, name) => {
    const { story, screen } = stateOf(section);
    if (name === "hero" || name === "exposures") return { columns: story.columns, rows: screen.rows };
    const { datasets, rows } = dataOf(section);
    const columns = Object.keys(datasets[rows[name]][0] ?? {});
    return { columns, rows: datasets[rows[name]].map((row) => columns.map((one) => row[one])) };
  };
  const cellText = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const save = (section, name) => {
    const { columns, rows } = numbersOf(section, name);
    const csv = [columns, ...rows].map((row) => row.map(cellText).join(",")).join("\r\n") + "\r\n";
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv" }));
    link.download = `${section.id}-${name}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  const fill = (row, kind, values) => values.forEach((value, k) => {
    const cell = document.createElement(k || kind === "col" ? (kind === "col" ? "th" : "td") : "th");
    if (cell.tagName === "TH") cell.scope = kind;
    cell.textContent = value ?? "–";
    if (typeof value === "string") cell.className = "label";
    row.append(cell);
  });
  const toggleTable = (button) => {
    const open = button.getAttribute("aria-expanded") === "true";
    button.setAttribute("aria-expanded", String(!open));
    if (open) { button.parentElement.nextElementSibling.remove(); return; }
    const { columns, rows } = numbersOf(button.closest("section.release"), button.dataset.table);
    const place = document.createElement("div"), table = document.createElement("table");
    Object.assign(place, { className: "table", tabIndex: 0 });
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", "Numbers of this chart");
    fill(table.createTHead().insertRow(), "col", columns);
    const body = table.createTBody();
    rows.forEach((row) => fill(body.insertRow(), "row", row));
    place.append(table);
    button.parentElement.after(place);
  };

  // Numbers as the tables write them: a true minus, three digits or whole numbers.
  const signed = (x) => {
    if (x === null) return "–";
    const size = Math.abs(x);
    const text = size >= 100 ? Math.round(size).toLocaleString("en-US") : String(Number(size.toPrecision(3)));
    return (x < 0 ? "−" : "+") + text;
  };

  // Mean disparity of a pair over a budget's models: benefit / max(cost, floor), first minus second.
  const recompute = (rows, budget, [i, j], floor) => {
    const models = rows.filter((row) => row.budget === budget);
    const ratio = (row, g) => row["b" + g] / Math.max(row["c" + g], floor);
    const known = models.every((row) => [i, j].every((g) => row["b" + g] !== null && row["c" + g] !== null));
    if (!known) return { mean: null, floored: null };
    const sum = models.reduce((total, row) => total + (ratio(row, i) - ratio(row, j)), 0);
    const below = models.filter((row) => Math.max(row["c" + i], row["c" + j]) < floor).length;
    return { mean: sum / models.length, floored: below / models.length };
  };

  const intervalOf = (rows, budget, pair, floor) => {
    const found = rows.find((row) => row.budget === budget && row.pair === pair && sameFloor(row.floor, floor));
    if (!found) return "none at this floor";
    return found.low === null ? "[no interval]" : `[${signed(found.low)}, ${signed(found.high)}]`;
  };

  const refreshTable = (section) => {
    const { datasets, pairs } = dataOf(section), floor = chosen.get(section);
    for (const line of section.querySelectorAll("tr[data-pair]")) {
      const { budget, pair } = line.dataset;
      const { mean, floored } = recompute(datasets.runs, budget, pairs[pair], floor);
      const shown = line.querySelector("data");
      shown.value = mean === null ? "" : mean;
      shown.textContent = signed(mean);
      line.querySelector(".floored").textContent = floored === null ? "–" : `${Math.round(100 * floored)} %`;
      const name = datasets.keys.find((row) => row.key === "d" + pair).name;
      line.querySelector(".interval").textContent = intervalOf(datasets.pairs, budget, name, floor);
    }
  };

  // As many panels side by side as fit, in rows of equal length.
  const columnsFor = (panels, width, cell) => {
    const most = Math.max(1, Math.floor((width - 40) / (cell + 24)));
    return Math.ceil(panels / Math.ceil(panels / most));
  };

  const draw = async (place) => {
    if (views.has(place)) return;
    views.set(place, null);
    const section = place.closest("section.release");
    const { datasets, charts } = dataOf(section);
    const spec = structuredClone(charts[place.dataset.chart]);
    spec.datasets = datasets;
    spec.params.find((one) => one.name === "floor").value = chosen.get(section);
    if (spec.facet) spec.columns = columnsFor(spec.facet.sort.length, place.clientWidth, spec.spec.width);
    // Errors only: between audited floors a layer has no rows, which Vega would warn about.
    const quiet = { logLevel: 1, actions: false, defaultStyle: false, tooltip: { disableDefaultStyle: true } };
    const options = { ast: true, renderer: "svg", mode: "vega-lite", config: look, ...quiet };
    const { view } = await vegaEmbed(place, spec, options);
    place.style.minHeight = "0";
    // The place is one image with a text alternative; its numbers are a table away.
    place.querySelector("svg").setAttribute("aria-hidden", "true");
    views.set(place, view);
    if (view.signal("floor") !== chosen.get(section)) await view.signal("floor", chosen.get(section)).runAsync();
    place.dataset.drawn = "yes";
  };
  const enqueue = (place) => { queue = queue.then(() => draw(place)).then(() => new Promise((next) => setTimeout(next))); return queue; };

  const setFloor = (slider) => {
    const section = slider.closest("section.release"), floor = floors[Number(slider.value)];
    chosen.set(section, floor);
    const text = String(Number(floor.toPrecision(4)));
    slider.setAttribute("aria-valuetext", text);
    section.querySelectorAll(".floor-value").forEach((one) => { one.textContent = text; });
    const known = audited.some((one) => sameFloor(one, floor));
    section.querySelector(".hint").textContent = known ? "audited: intervals shown" : "between: means only";
    refreshTable(section);
    views.forEach((view, place) => { if (view && section.contains(place)) view.signal("floor", floor).runAsync(); });
  };

  const watch = new IntersectionObserver((seen) => seen.forEach((one) => { if (one.isIntersecting) enqueue(one.target); }), { rootMargin: "500px" });
  document.querySelectorAll(".chart").forEach((one) => watch.observe(one));

  const waiting = new Set();
  document.addEventListener("input", ({ target }) => {
    if (!target.matches(".floor") || waiting.has(target)) return;
    waiting.add(target);
    requestAnimationFrame(() => { waiting.delete(target); setFloor(target); });
  });
  document.addEventListener("change", ({ target }) => { if (target.closest(".choose")) show(target.closest("section.release")); });
  document.addEventListener("submit", (event) => event.preventDefault());
  document.addEventListener("click", ({ target }) => {
    if (!(target instanceof HTMLButtonElement)) return;
    if (target.dataset.csv) save(target.closest("section.release"), target.dataset.csv);
    if (target.dataset.table) toggleTable(target);
  });
  const print = (whole) => {
    document.body.classList.toggle("print-all", whole);
    window.print();
  };
  document.getElementById("print").addEventListener("click", () => print(false));
  document.getElementById("print-all").addEventListener("click", async () => {
    document.querySelectorAll("details").forEach((one) => { one.open = true; });
    document.querySelectorAll(".chart").forEach(enqueue);
    await queue;
    print(true);
  });
  explain(document);
})();
