// What stands on the page for one cluster, section by section. Rows are lists of numbers; their order is that of
// reconciler/render/html/facts.py, where each list is described.

/** A section with its place in the list of sections; `amount` is shown beside the title. */
function section(id, title, amount, ...children) {
  return element("section", { id, "aria-labelledby": `${id}-title`, "data-title": title, "data-count": amount },
    element("div.title", {}, element("h2", { id: `${id}-title` }, title), amount === null ? null : element("span.quiet", {}, amount.toLocaleString("en"))),
    children);
}

function says(text) {
  return element("p.quiet.small", {}, text);
}

function entityButton(at) {
  return element("button.entity", { type: "button", click: () => lookup.ask(at), "aria-label": `Look up ${entityText(at)}` }, entityNode(at));
}

const column = {
  /** The entity with its key below, and the key alone to choose by. */
  pair: (title = "Entity") => [
    { title, text: (row) => `${entityText(row[0])} ${facts.keys[row[1]].name}`, cell: (row) => [entityButton(row[0]), element("span.under.mono", {}, facts.keys[row[1]].name)] },
    { ...column.key(1), unseen: true },
  ],
  entity: (title = "Entity") => ({ title, text: (row) => entityText(row[0]), cell: (row) => entityButton(row[0]) }),
  key: (at) => ({ title: "Key", facet: true, text: (row) => facts.keys[row[at]].name, cell: (row) => element("span.mono", {}, facts.keys[row[at]].name) }),
  value: (title, at, none = UNSET) => ({ title, number: true, text: (row) => valueText(row[at], none), sort: (row) => valueNumber(row[at]), cell: (row) => valueCell(row[at], none) }),
  words: (title, at, more = {}) => ({ title, text: (row) => word(row[at]), cell: (row) => element("span", {}, word(row[at])), ...more }),
  pill: (title, at, more = {}) => ({ title, facet: true, text: (row) => word(row[at]), cell: (row) => pill(word(row[at])), ...more }),
  place: (title, at) => ({ title, text: (row) => word(row[at]), cell: (row) => element("span.place", {}, placeNode(word(row[at]))) }),
  time: (title, at) => ({ title, text: (row) => word(row[at]), cell: (row) => (word(row[at]) ? timeNode(word(row[at])) : UNSET) }),
};

function timeNode(text) {
  return element("time.small", { datetime: text }, text);
}

const ROWS_NOTE = "Press a heading to sort. Arrow keys go from row to row, Enter looks the client up.";

function changesSection(look) {
  const title = facts.page === "plan" ? "What changes" : "What the documents would change";
  const rows = look.changes.filter((row) => word(row[9]) !== EXCLUSIVE);
  if (!look.changes.length) return section("changes", title, 0, says(`${look.counts.drift ? "No limit to write" : "Nothing to do"}: ${count(look.counts.inSync, "declared limit")} in sync.`));
  return section("changes", title, rows.length, directionStrip(look), rows.length ? changesTable(title, rows) : null, says(facts.perBroker));
}

const EXCLUSIVE = "exclusive";

/** Removals of what was never ours have a table of their own: no document names them. */
function exclusiveSection(look) {
  const rows = look.changes.filter((row) => word(row[9]) === EXCLUSIVE);
  if (!rows.length) return null;
  return section("exclusive", "Exclusive removals", rows.length,
    says("Live in the scope, neither declared nor managed: removed because the cluster is exclusive."), changesTable("Exclusive removals", rows));
}

function changesTable(label, rows) {
  return makeTable({
    label, noun: "change", rows, note: ROWS_NOTE,
    columns: [
      { ...column.entity(), cell: (row) => changedEntity(row), text: (row) => `${entityText(row[0])} ${facts.keys[row[1]].name}` },
      { title: "Action", facet: true, unseen: true, text: (row) => word(row[2]) },
      { title: "Key", facet: true, unseen: true, text: (row) => facts.keys[row[1]].name },
      { title: "Now → then", number: true, text: (row) => `${valueText(row[3], "not set")} → ${valueText(row[4], "removed")}`, sort: (row) => valueNumber(row[4]), cell: (row) => stepCell(row[3], row[4], row[4] === null ? "removed" : "not set") },
      { title: "Effect", facet: true, text: (row) => word(row[5]), cell: (row) => pill(word(row[6]) || word(row[5]), TONES[word(row[5])]) },
      { title: "Why", text: (row) => [7, 8, 9, 12].map((at) => word(row[at])).join(" "), sort: (row) => word(row[7]), cell: (row) => element("span.wide", {}, word(row[7]), word(row[9]) ? [" ", pill(word(row[9]), "warn")] : null, element("span.under", {}, word(row[12]) || word(row[8]))) },
      { title: "Declared at", text: (row) => `${word(row[10])} ${word(row[11])}`, cell: (row) => element("span.place", {}, placeNode(word(row[10]) || "no document"), element("span.under", {}, word(row[11]))) },
    ],
  });
}

const MARKS = { create: "+", update: "~", remove: "−" };

function changedEntity(row) {
  const action = word(row[2]);
  return element("div.subject", {}, element(`span.mark.${TONES[action]}`, { "aria-hidden": "true" }, MARKS[action]),
    element("div", {}, entityButton(row[0]), element("span.under", {}, `${action} `, element("span.mono", {}, facts.keys[row[1]].name))));
}

const DIRECTIONS = [["tightened", "bad"], ["newly limited", "warn"], ["newly unlimited", "accent"], ["loosened", "good"], ["unchanged", "plain"], ["unknown", "plain"]];

/** How the changes divide, for the clients that they are written for. */
function directionStrip(look) {
  const parts = DIRECTIONS.filter(([name]) => look.directions[name]);
  if (!parts.length) return null;
  const strip = element("div.strip", { "aria-hidden": "true" }, parts.map(([name, tone]) => {
    const part = element(`span.bar-${tone}`);
    part.style.flexGrow = String(look.directions[name]);
    return part;
  }));
  const key = parts.map(([name, tone]) => element("li", {}, element(`span.dot.bar-${tone}`, { "aria-hidden": "true" }), `${look.directions[name].toLocaleString("en")} ${name}`));
  return element("div.spread", {}, strip, element("ul.key", { "aria-label": "Effect for the clients that the changes are written for" }, key));
}

function affectedSection(look) {
  if (!look.changes.length) return null;
  const lines = look.impact.map((at) => element("li", {}, word(at)));
  const none = (row, at) => (row[at + 1] === null ? "unknown" : "unlimited");
  const level = (row, at) => (row[at + 1] === null || row[at + 2] === null ? "" : entityText(row[at + 2]));
  const side = (at) => (row) => valueLine(row[at], none(row, at), level(row, at));
  const from = (at) => (row) => `${valueText(row[at], none(row, at))} ${row[at + 2] === null ? "" : entityText(row[at + 2])}`;
  return section("affected", "Who is affected", new Set(look.affected.map((row) => row[0])).size,
    lines.length ? element("ul.sentences", {}, lines) : null,
    look.affected.length ? makeTable({
      label: "Clients whose limit changes", noun: "limit of a client", plural: "limits of clients", rows: look.affected, note: ROWS_NOTE,
      columns: [
        ...column.pair("Client"),
        { title: "Now", text: from(4), sort: (row) => valueNumber(row[4]), cell: side(4) },
        { title: "After", text: from(7), sort: (row) => valueNumber(row[7]), cell: side(7) },
        { title: "Effect", facet: true, text: (row) => word(row[2]), cell: (row) => pill(word(row[3]) || word(row[2]), TONES[word(row[2])]) },
        { title: "Shared", facet: true, text: (row) => word(row[10]) || "as before", cell: (row) => element("span.small", {}, word(row[10]) || "as before") },
      ],
    }) : says(look.known ? `None of the ${count(look.known, "client")} with a limit or a login of their own gets another limit.` : "No client has a limit or a login of its own."));
}

/** What the plan does to recorded use; rows are those of reconciler/render/recorded_use.py. */
function recordedSection(look) {
  const found = look.recorded;
  if (found === null) return null;
  const tones = { "!": "bad", "?": "warn" };
  return section("recorded", "Effect by recorded use", found.rows.length,
    element("p", {}, word(found.headline)), found.evidence.map((at) => says(word(at))),
    found.rows.length ? makeTable({
      label: "Effect by recorded use", noun: "client", rows: found.rows, note: "Press a heading to sort.",
      columns: [
        { title: "Who", text: (row) => word(row[0]), cell: (row) => element("bdi.mono", {}, word(row[0])) },
        column.words("What", 1, { facet: true }),
        { title: "Now → then", text: (row) => `${word(row[2])} → ${word(row[3])}`, cell: (row) => element("span.small", {}, `${word(row[2])} → ${word(row[3])}`) },
        { title: "Recorded use", text: (row) => word(row[4]), cell: (row) => element("span.wide", {}, word(row[6]) ? [pill(word(row[6]) === "!" ? "worse" : "not known", tones[word(row[6])]), " "] : null, word(row[4])) },
        { title: "Worst broker", text: (row) => word(row[5]), cell: (row) => element("span.small", {}, word(row[5])) },
      ],
    }) : null,
    found.rows.length ? says(word(found.says)) : null,
    found.notes.length ? element("ul.sentences", {}, found.notes.map((at) => element("li", {}, word(at)))) : null);
}

function quotasSection(look) {
  const shown = facts.keys.map((_, at) => at).filter((at) => look.quotas.some((row) => row[at + 1] !== null));
  const rows = look.quotas.map((row) => [...row, levelOf(facts.entities[row[0]])]);
  return section("quotas", "Current quotas", rows.length,
    says(`${look.snapshotAt === null ? "As described by the cluster" : "As contained in the snapshot"}. ${facts.perBroker}`),
    rows.length ? makeTable({
      label: "Current quotas", noun: "entity", plural: "entities", rows, note: ROWS_NOTE,
      columns: [
        column.entity(),
        { title: "Level", facet: true, text: (row) => `${row[8]} ${facts.levels[row[8]]}`, sort: (row) => row[8], cell: (row) => element("span.small", {}, facts.levels[row[8]]) },
        column.pill("State", 6),
        ...shown.map((at) => column.value(facts.keys[at].name.replaceAll("_", " "), at + 1)),
        column.words("Document", 7),
      ],
    }) : says("No quotas."));
}

function foreignSection(look) {
  if (!look.foreign.length) return null;
  const words = (title, at, more) => ({ title, text: (row) => word(row[at]), cell: (row) => element("span.mono.small", {}, word(row[at])), ...more });
  return section("foreign", "Foreign", look.foreign.length, says("Entity types and keys that are not Kafka's: listed only."), makeTable({
    label: "Foreign entities and keys", noun: "value", rows: look.foreign, columns: [words("Entity", 0), words("Key", 1), words("Value", 2, { number: true, sort: (row) => Number(word(row[2])) }), words("Kind", 3)],
  }));
}

function findingSection(found) {
  const drifted = found.name === "drift";
  return section(`found-${found.name}`, word(found.title), found.rows.length, says(word(found.says)), makeTable({
    label: word(found.title), noun: "pair", rows: found.rows, note: ROWS_NOTE,
    columns: [
      ...column.pair(),
      ...(drifted ? [column.value("Expected", 3), column.value("Live", 2)] : [column.value("Live", 2)]),
      ...(drifted || found.name === "unmanaged" ? [] : [column.value("Declared or applied", 3)]),
      ...(drifted ? [{ title: "First seen", text: (row) => word(row[4]), cell: (row) => (word(row[4]) ? element("span", {}, timeNode(word(row[4])), element("span.under", {}, `${word(row[5])} before this observation`)) : "just now") }] : []),
      ...(found.rows.some((row) => word(row[6])) ? [column.place("Where", 6)] : []),
      { title: "Why", text: (row) => `${word(row[8])} ${word(row[7])}`, cell: (row) => element("span.wide", {}, word(row[8]), word(row[7]) ? element("span.under", {}, word(row[7])) : null) },
    ],
  }));
}

function shadowsSection(look) {
  if (!look.shadows.length) return null;
  return section("shadows", "Rules that can never apply", look.shadows.length,
    says("A closer limit applies to every client that they could match."), makeTable({
      label: "Rules that can never apply", noun: "rule", rows: look.shadows, note: ROWS_NOTE,
      columns: [...column.pair(), column.value("Value", 2), { title: "Closer", text: (row) => entityText(row[3]), cell: (row) => element("span.entity", {}, entityNode(row[3])) },
        { title: "Since", facet: true, text: (row) => (row[4] ? "this plan" : "before"), cell: (row) => (row[4] ? pill("this plan", "warn") : "before") }],
    }));
}

/** Problems, before everything else. */
function troubleSection(look) {
  const line = (tone, where, ...text) => element(`li.is-${tone}`, {}, text, where ? element("bdi.where.mono", {}, where) : null);
  const name = (at) => element("span.entity", {}, entityNode(at));
  const groups = [
    ["Refused by guards", look.violations.map(([at, key, message, place, allow]) => line("bad", word(place), at === null ? null : [name(at), ": "], word(message), element("span.where", {}, `allowed with ${word(allow)}`)))],
    ["Refused by the recorded-use policy", look.recorded === null ? [] : look.recorded.refusals.map((at) => line("bad", "", word(at)))],
    ["Conflicts: nothing can be applied", look.conflicts.map(([at, key, claims]) => line("bad", "", name(at), ` ${facts.keys[key].name} is declared by ${claims.map(word).join(" and ")}`))],
    ["The broker would refuse", look.refused.map(([at, code, message]) => line("bad", "", name(at), `: ${word(code)}: ${word(message)}`))],
    ["Warnings", look.warnings.map((at) => line("warn", "", word(at)))],
  ].filter(([, lines]) => lines.length);
  if (!groups.length) return null;
  const amount = groups.reduce((sum, [, lines]) => sum + lines.length, 0);
  return section("trouble", "What stands in the way", amount, groups.map(([title, lines]) => [element("h3", {}, `${title} (${lines.length.toLocaleString("en")})`), element("ul.sentences", {}, lines)]));
}

function adviceSection(look) {
  if (!look.advice.length) return null;
  return section("advice", "Doubtful rules", look.advice.length, says("Valid, but probably not intended."), makeTable({
    label: "Doubtful rules", noun: "rule", rows: look.advice, columns: [column.place("Declared at", 0), column.words("Advice", 1)],
  }));
}

function historySection(look) {
  if (look.history === null) return null;
  const left = look.historyLeftOut ? says(`${count(look.historyLeftOut, "older entry", "older entries")} of the log are not on this page.`) : null;
  return section("history", "History", look.history.length, says("Changes applied by kquota, newest first, from the audit log."), left, look.history.length ? makeTable({
    label: "History", noun: "entry", plural: "entries", rows: look.history.map((row) => [row[3], row[4], ...row]), note: ROWS_NOTE,
    columns: [
      ...column.pair(), column.time("Time", 2),
      { title: "Change", number: true, text: (row) => `${valueText(row[7], "not set")} → ${valueText(row[8], "removed")}`, sort: (row) => valueNumber(row[8]), cell: (row) => stepCell(row[7], row[8], row[8] === null ? "removed" : "not set") },
      column.pill("Outcome", 11),
      { title: "By", facet: true, text: (row) => word(row[3]), cell: (row) => element("span", {}, word(row[3]), word(row[4]) ? element("span.under.mono", {}, word(row[4]).slice(0, 12)) : null) },
      { title: "Why", text: (row) => [9, 10, 12].map((at) => word(row[at])).join(" "), cell: (row) => element("span.wide", {}, word(row[9]), element("span.under", {}, word(row[12]) || word(row[10]))) },
    ],
  }) : says("The audit log has no entries for this cluster."));
}
