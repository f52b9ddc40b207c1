"use strict";
(() => {
  // Terms say what they mean when they are pointed at, or reached by the keyboard.
  for (const term of document.querySelectorAll("dfn")) {
    term.dataset.tip = document.getElementById(term.getAttribute("aria-describedby")).textContent;
  }

  // The chosen setting: all that is said of it, and its rows in the tables.
  const show = (section, chosen) => {
    for (const view of section.querySelectorAll("[data-setting]")) view.hidden = view.dataset.setting !== chosen;
    const plain = (text) => text.replaceAll(" ", "");
    const names = JSON.parse(section.querySelector(".finding:not([hidden])").dataset.names).map(plain);
    for (const row of section.querySelectorAll("tbody tr")) {
      row.classList.toggle("chosen", names.includes(plain(row.cells[0].textContent)));
    }
  };
  for (const form of document.querySelectorAll(".choose")) {
    const menu = form.querySelector("select");
    form.hidden = false;
    form.parentElement.classList.add("has-menu");
    show(form.closest("section.release"), menu.value);
    menu.addEventListener("change", () => show(form.closest("section.release"), menu.value));
  }
  document.addEventListener("submit", (event) => event.preventDefault());

  // A table as a file. A spreadsheet must not run a name that looks like a formula.
  const cellText = (text) => {
    const safe = /^[=+\-@\t\r]/.test(text) && !/^-?[\d.]+$/.test(text) ? "'" + text : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const save = (id) => {
    const { rows } = document.getElementById(id).closest("table");
    const csv = [...rows].map((row) => [...row.cells].map((cell) => cellText(cell.textContent)).join(",")).join("\r\n");
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv + "\r\n"], { type: "text/csv" }));
    link.download = `${id}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  };
  document.addEventListener("click", ({ target }) => {
    if (target instanceof HTMLButtonElement && target.dataset.csv) save(target.dataset.csv);
  });

  document.getElementById("print").addEventListener("click", () => window.print());
})();
