"use strict";
(() => {
  // Terms say what they mean when they are pointed at, or reached by the keyboard.
  for (const term of document.querySelectorAll("dfn")) {
    term.dataset.tip = document.getElementById(term.getAttribute("aria-describedby")).textContent;
  }

  // The chosen setting: its picture and verdict, and its rows in the tables.
  const show = (section, chosen) => {
    for (const view of section.querySelectorAll(".setting")) view.hidden = view.dataset.setting !== chosen;
    const { label } = section.querySelector(".setting:not([hidden])").dataset;
    for (const row of section.querySelectorAll(".appendix tbody tr")) {
      row.classList.toggle("chosen", row.cells[0].textContent === label);
    }
  };
  document.addEventListener("change", ({ target }) => {
    if (target.matches(".choose-setting")) show(target.closest("section.release"), target.value);
  });
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

  const print = (whole) => {
    document.body.classList.toggle("print-all", whole);
    if (whole) document.querySelectorAll("details").forEach((one) => { one.open = true; });
    window.print();
  };
  document.getElementById("print").addEventListener("click", () => print(false));
  document.getElementById("print-all").addEventListener("click", () => print(true));
})();
