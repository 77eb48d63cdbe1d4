// Tables that sort and filter. Up to NATURAL rows flow with the page; longer ones keep only the rows in sight in the
// document. Every row has one thing to press (its entity); arrow keys go from row to row, so Tab passes a table quickly.

const NATURAL = 60;
const SPARE = 10;
const PRINTED = 2000;
const collator = new Intl.Collator("en", { numeric: true });
const tables = [];

/**
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => Node|string|null} cell
 * @property {(row: any) => string} text what filters search
 * @property {(row: any) => string|number|null} [sort] what sorting compares; the text if not given
 * @property {boolean} [number] at the right edge
 * @property {boolean} [facet] offers a choice of its texts
 * @property {boolean} [unseen] only to be chosen and searched by
 */

/** @param {{label: string, noun: string, plural?: string, columns: Column[], rows: any[], note?: string}} given */
function makeTable(given) {
  const columns = given.columns.filter((one) => !one.unseen);
  const table = { ...given, columns, all: given.columns, shown: given.rows, sorted: null, down: false, query: "", picked: new Map(), current: 0, painted: new Map(), height: 50, open: false };
  table.texts = null;
  table.body = element("tbody.rows");
  table.above = element("td", { colspan: columns.length });
  table.below = element("td", { colspan: columns.length });
  table.heads = columns.map((column, at) => headOf(table, column, at));
  table.status = element("p.shown", { role: "status" });
  table.grid = element(
    "table", { "aria-rowcount": given.rows.length + 1 },
    element("caption.hidden-label", {}, `${given.label}. ${given.note ?? ""}`),
    element("thead", {}, element("tr", { "aria-rowindex": 1 }, table.heads)),
    element("tbody", { "aria-hidden": "true" }, element("tr.spacer", {}, table.above)),
    table.body,
    element("tbody", { "aria-hidden": "true" }, element("tr.spacer", {}, table.below)),
  );
  table.window = element("div.window", { tabindex: 0, role: "group", "aria-label": `Rows of ${given.label}` }, table.grid);
  let asked = false;
  table.window.addEventListener("scroll", () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; paint(table); });
  });
  table.body.addEventListener("keydown", (event) => moveBetweenRows(table, event));
  tables.push(table);
  table.root = element("div.spread", {}, controlsOf(table), table.window);
  refresh(table);
  return table.root;
}

function headOf(table, column, at) {
  const press = () => {
    table.down = table.sorted === at && !table.down;
    table.sorted = at;
    refresh(table);
  };
  const way = element("span.way", { "aria-hidden": "true" });
  return element(column.number ? "th.number" : "th", { scope: "col", "aria-sort": "none" }, element("button", { type: "button", click: press }, column.title, way));
}

/** The filter, the choices, and how many rows are left; short tables need none of them. */
function controlsOf(table) {
  if (table.rows.length < 6) return element("div.controls", { hidden: "" }, table.status);
  const search = element("input", { type: "search", placeholder: "any word of a row", autocomplete: "off", spellcheck: "false" });
  search.addEventListener("input", () => { table.query = search.value; refresh(table); });
  const choices = table.all.filter((column) => column.facet).map((column) => choiceOf(table, column));
  return element("div.controls", {}, element("label", {}, `Filter ${table.plural ?? `${table.noun}s`}`, search), choices, table.status);
}

function choiceOf(table, column) {
  const texts = [...new Set(table.rows.map(column.text))].sort(collator.compare);
  if (texts.length < 2 || texts.length > 200) return null;
  const select = element("select", {}, element("option", { value: "" }, "all"), texts.map((text, at) => element("option", { value: at + 1 }, text || "(none)")));
  select.addEventListener("change", () => {
    if (select.value) table.picked.set(column, texts[Number(select.value) - 1]);
    else table.picked.delete(column);
    refresh(table);
  });
  return element("label", {}, column.title, select);
}

/** Filter and sort anew, from the top. */
function refresh(table) {
  performance.mark("kquota-refresh");
  const words = table.query.toLowerCase().split(/\s+/u).filter(Boolean);
  let rows = table.rows;
  if (words.length) {
    table.texts ??= new Map(table.rows.map((row) => [row, table.all.map((one) => one.text(row)).join("\n").toLowerCase()]));
    rows = rows.filter((row) => words.every((one) => table.texts.get(row).includes(one)));
  }
  for (const [column, text] of table.picked) rows = rows.filter((row) => column.text(row) === text);
  table.shown = table.sorted === null ? rows : inOrder(rows, table.columns[table.sorted], table.down);
  table.heads.forEach((head, at) => {
    const way = table.sorted !== at ? "none" : table.down ? "descending" : "ascending";
    head.setAttribute("aria-sort", way);
    head.querySelector(".way").textContent = { none: "↕", ascending: "↑", descending: "↓" }[way];
  });
  const some = table.shown.length === table.rows.length ? "" : `${table.shown.length.toLocaleString("en")} of `;
  table.status.textContent = some + count(table.rows.length, table.noun, table.plural);
  table.grid.setAttribute("aria-rowcount", String(table.shown.length + 1));
  table.current = 0;
  table.window.scrollTop = 0;
  repaint(table);
  performance.measure("kquota-table", "kquota-refresh");
}

/** By a column; what is not set comes last, whichever way. */
function inOrder(rows, column, down) {
  const value = column.sort ?? column.text;
  const keyed = rows.map((row, at) => ({ row, at, value: value(row) }));
  const none = (one) => one.value === null || one.value === "" || Number.isNaN(one.value);
  const way = down ? -1 : 1;
  keyed.sort((one, other) => {
    if (none(one) || none(other)) return none(one) - none(other) || one.at - other.at;
    const order = typeof one.value === "number" ? one.value - other.value : collator.compare(one.value, other.value);
    return order * way || one.at - other.at;
  });
  return keyed.map((one) => one.row);
}

function repaint(table) {
  const long = table.shown.length > NATURAL && !table.open;
  table.window.classList.toggle("long", long);
  table.window.classList.toggle("filled", long);
  table.body.replaceChildren();
  table.painted = new Map();
  paint(table);
  if (!table.shown.length) {
    table.body.replaceChildren(element("tr", {}, element("td.nothing", { colspan: table.columns.length }, "Nothing fits the filter.")));
  }
}

/** Put the rows in sight into the document, and take the others out. */
function paint(table) {
  const long = table.window.classList.contains("long");
  const total = table.open ? Math.min(table.shown.length, PRINTED) : table.shown.length;
  let first = 0;
  let last = total;
  if (long) {
    const visible = Math.ceil((table.window.clientHeight || 600) / table.height);
    first = Math.max(0, Math.floor(table.window.scrollTop / table.height) - SPARE);
    last = Math.min(total, first + visible + 2 * SPARE);
  }
  for (const [at, row] of table.painted) {
    if (at >= first && at < last) continue;
    if (row.contains(document.activeElement)) table.window.focus({ preventScroll: true });
    row.remove();
    table.painted.delete(at);
  }
  let next = table.body.firstChild;
  for (let at = first; at < last; at += 1) {
    const there = table.painted.get(at);
    if (there !== undefined) {
      next = there.nextSibling;
      continue;
    }
    const row = rowOf(table, table.shown[at], at);
    table.painted.set(at, row);
    table.body.insertBefore(row, next);
  }
  table.above.style.height = `${first * table.height}px`;
  table.below.style.height = `${(total - last) * table.height}px`;
  if (long && !table.painted.has(table.current)) {
    follow(table, Math.min(total - 1, Math.ceil(table.window.scrollTop / table.height)));
  }
  if (long) measure(table);
}

/** Rows of a long table are all as high as the first one. */
function measure(table) {
  const [row] = table.painted.values();
  const height = row === undefined ? 0 : row.getBoundingClientRect().height;
  if (height > 0 && Math.abs(height - table.height) > 0.5) {
    table.height = height;
    paint(table);
  }
}

function rowOf(table, row, at) {
  const long = table.window.classList.contains("long");
  const cells = table.columns.map((column, number) => element(
    `${number === 0 ? "th" : "td"}${column.number ? ".number" : ""}`,
    { scope: number === 0 ? "row" : null, title: long ? column.text(row) : null },
    column.cell(row),
  ));
  const made = element("tr", { "aria-rowindex": at + 2 }, cells);
  const press = made.querySelector("button.entity");
  press?.setAttribute("tabindex", at === table.current ? "0" : "-1");
  press?.addEventListener("focus", () => follow(table, at));
  return made;
}

/** The row that Tab comes back to. */
function follow(table, at) {
  if (at === table.current) return;
  table.painted.get(table.current)?.querySelector("button.entity")?.setAttribute("tabindex", "-1");
  table.current = at;
  table.painted.get(at)?.querySelector("button.entity")?.setAttribute("tabindex", "0");
}

function moveBetweenRows(table, event) {
  const page = Math.max(1, Math.floor(table.window.clientHeight / table.height) - 2);
  const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
  if (!(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  const at = Math.max(0, Math.min(table.shown.length - 1, table.current + steps[event.key]));
  if (table.window.classList.contains("long")) {
    const top = at * table.height;
    const room = table.window.clientHeight - table.grid.tHead.offsetHeight - table.height;
    if (top < table.window.scrollTop) table.window.scrollTop = top;
    else if (top > table.window.scrollTop + room) table.window.scrollTop = top - room;
    paint(table);
  }
  table.painted.get(at)?.querySelector("button.entity")?.focus({ preventScroll: table.window.classList.contains("long") });
}

/** Long tables are unfolded for paper, up to a number that a printer can bear. */
function unfold(open) {
  for (const table of tables) {
    if (table.open === open) continue;
    table.open = open;
    repaint(table);
    const missing = table.shown.length - PRINTED;
    if (open && missing > 0) table.status.textContent += `; the first ${PRINTED.toLocaleString("en")} are printed`;
    if (!open) refresh(table);
  }
}
