// Adds to each table of six rows and more: headings that sort, and a filter. Without it every table is complete.
"use strict";

const collator = new Intl.Collator("en", { numeric: true });

function element(name, attributes, ...children) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...children);
  return made;
}

function sort(body, at, way) {
  const text = (row) => row.cells[at].textContent.replace(/^-$/u, "");
  const isEmpty = (row) => text(row) === "";
  const order = (one, other) => isEmpty(one) - isEmpty(other) || way * collator.compare(text(one), text(other));
  body.append(...[...body.rows].sort(order));
}

/** Rounded quantities of several units, such as 5 KiB/s and 2 h, do not sort by their texts; exact numbers do. */
const ROUNDED = /^[^\d(]*[\d.,]+ (?:[kKMGT]i?B|d|h|min|m?s)\b/u;

function makeSortable(heads, body) {
  heads.forEach((head, at) => {
    if ([...body.rows].some((row) => ROUNDED.test(row.cells[at].textContent))) return;
    head.ariaSort = "none";
    const button = element("button", { type: "button" }, ...head.childNodes);
    button.addEventListener("click", () => {
      const way = head.ariaSort === "ascending" ? "descending" : "ascending";
      for (const other of heads) if (other.ariaSort) other.ariaSort = "none";
      head.ariaSort = way;
      sort(body, at, way === "ascending" ? 1 : -1);
    });
    head.append(button);
  });
}

function makeFilter(view, body) {
  const rows = [...body.rows];
  const status = element("output", {}, `${rows.length} rows`);
  const input = element("input", { type: "search", placeholder: "any words of a row", autocomplete: "off" });
  input.addEventListener("input", () => {
    const words = input.value.toLowerCase().split(/\s+/u);
    let shown = 0;
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
    }
    status.textContent = `${shown} of ${rows.length} rows`;
  });
  view.before(element("div", { className: "controls" }, element("label", {}, "Filter ", input), status));
}

for (const view of document.querySelectorAll(".window")) {
  const table = view.querySelector("table");
  if (table.tBodies[0].rows.length < 6) continue;
  makeSortable([...table.tHead.rows[0].cells], table.tBodies[0]);
  makeFilter(view, table.tBodies[0]);
}
