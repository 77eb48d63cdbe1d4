// The question "what does this client get?": three names in, limits out, with the levels that lost; before and after a plan.

const SUGGESTED = 60;
let lookup = null;

/** The section; `look` is one cluster of the facts. */
function lookupSection(look) {
  const now = indexOf(look.quotas.map((row) => [facts.entities[row[0]], row.slice(1, 6)]));
  const after = changed(now, look.changes.map((row) => [facts.entities[row[0]], row[1], row[4]]));
  const fields = {
    user: field("User", "principal name, without User:; ANONYMOUS if empty", 0, now, after),
    clientId: field("Client id", "as the client sends it", 1, now, after),
    ip: field("Address", "ip it connects from", 2, now, after),
  };
  const answer = element("div.answer", { role: "status", "aria-label": "Effective limits" });
  const form = element("form.ask", { role: "search", "aria-label": "Look up a client" }, Object.values(fields).map((one) => one.label),
    element("button.button", { type: "reset" }, "Clear"));
  const show = () => showAnswer(answer, look, now, after, fields);
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
  form.addEventListener("reset", () => setTimeout(show));
  lookup = {
    /** Ask for a client of an entity: for a default, a client that no rule names. */
    ask(at) {
      const [user, clientId, ip] = facts.entities[at];
      fields.user.input.value = nameFor(user, now, 0);
      fields.clientId.input.value = nameFor(clientId, now, 1);
      fields.ip.input.value = ip === null ? "203.0.113.99" : ip === 0 ? "" : ip;
      show();
      fields.user.input.closest("section").scrollIntoView({ block: "start" });
      fields[user !== 0 ? "user" : clientId !== 0 ? "clientId" : "ip"].input.focus({ preventScroll: true });
    },
  };
  show();
  return section("lookup", "Look up a client", null,
    element("p.quiet.small", {}, "Enter a client to see its limits: for each key the closest one applies. To a client without a client id, only user quotas apply."),
    form, answer);
}

function nameFor(slot, index, column) {
  if (slot === 0) return "";
  if (slot !== null) return slot;
  let name = "somebody-else";
  while ([...index.values()].some((one) => one.slots[column] === name)) name += "-else";
  return name;
}

/** One input; what is known and begins with what was typed is suggested. */
function field(title, hint, column, ...indexes) {
  const names = new Set();
  for (const index of indexes) for (const { slots } of index.values()) if (typeof slots[column] === "string" && slots[column]) names.add(slots[column]);
  const known = [...names].sort(collator.compare);
  const list = element("datalist", { id: `known-${column}` });
  const input = element("input", { type: "text", list: list.id, placeholder: hint, autocomplete: "off", spellcheck: "false", autocapitalize: "none" });
  const suggest = () => {
    const typed = input.value.toLowerCase();
    const fitting = known.filter((one) => one.toLowerCase().includes(typed)).slice(0, SUGGESTED);
    list.replaceChildren(...fitting.map((one) => element("option", { value: one })));
  };
  input.addEventListener("input", suggest);
  input.addEventListener("focus", suggest);
  return { input, label: element("label", {}, title, input, list) };
}

function showAnswer(answer, look, now, after, fields) {
  const given = Object.fromEntries(Object.entries(fields).map(([name, one]) => [name, one.input.value || null]));
  if (given.user === null && given.clientId === null && given.ip === null) {
    answer.replaceChildren(element("p.quiet", {}, "Type a user, a client id or an address, or press an entity in any table."));
    return;
  }
  if (given.clientId !== null) given.user ??= "ANONYMOUS"; // reconciler/quota/precedence.py, Principal
  performance.mark("kquota-asked");
  const before = resolve(now, given);
  const later = look.changes.length ? resolve(after, given) : null;
  const rows = before.map((one, at) => answerRow(one, later === null ? null : later[at], unrankedFor(look.unranked, given, one.column)));
  const heads = ["Key", ...(later === null ? ["Limit"] : ["Limit now", "After this plan"]), "Comes from", "Shared with", "Overridden"];
  answer.replaceChildren(
    element("div.window", { tabindex: 0, role: "group", "aria-label": "Limits per key" }, element("table", {},
      element("caption.hidden-label", {}, "Effective limits per key"),
      element("thead", {}, element("tr", {}, heads.map((one) => element("th", { scope: "col" }, element("span", {}, one))))),
      element("tbody", {}, rows))),
    element("p.quiet.small", {}, facts.perBroker));
  performance.measure("kquota-lookup", "kquota-asked");
}

function answerRow(before, later, unranked) {
  const last = later ?? before;
  const limit = (one) => (!isKnown(one, unranked) ? element("span", {}, "unknown") : one.winner === null ? element("span.quiet", {}, "unlimited") : valueCell(one.winner.value));
  const same = later === null || before.winner?.value === later.winner?.value;
  return element("tr", {},
    element("th", { scope: "row" }, element("span.mono", {}, facts.keys[before.column].name)),
    element("td", {}, limit(before)),
    later === null ? null : element("td", {}, same ? element("span.quiet", {}, "the same") : limit(later)),
    element("td", {}, last.winner === null ? UNSET : [slotsNode(last.winner.slots), element("span.under", {}, facts.levels[last.winner.level])],
      ...unranked.map(([text]) => element("span.under", {}, `or ${text}, which may apply`))),
    element("td", {}, sharedWith(last)),
    element("td", {}, last.lost.length ? element("ul.lost", {}, last.lost.map((one) => element("li", {}, element("s", {}, valueText(one.value)), " ", slotsNode(one.slots), element("span.quiet.small", {}, ` ${facts.levels[one.level]}`)))) : UNSET));
}

function slotsNode(slots) {
  const parts = [];
  for (const [kind, slot] of [["user", slots[0]], ["client-id", slots[1]], ["ip", slots[2]]]) {
    if (slot !== 0) parts.push([`${kind}=`, slot === null ? "<default>" : nameNode(slot)]);
  }
  return element("bdi.entity", {}, parts.map((one, at) => element("span.part", {}, one, at < parts.length - 1 ? "," : "")));
}

/** A name that may hold anything: what cannot be seen is written as its number, and it never turns its surroundings round. */
function nameNode(name) {
  const seen = name.replace(/[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, (one) => `\\u${one.codePointAt(0).toString(16).padStart(4, "0")}`);
  return element("bdi", {}, seen === name && !/^[<"]|^$|[,"\\]/u.test(name) ? name : `"${seen}"`);
}

/** Who draws on the same limit: the metric tags that are set. */
function sharedWith({ winner, bucket }) {
  if (winner === null) return UNSET;
  if (bucket.length === 1) return element("span", {}, "all connections of ", nameNode(bucket[0]));
  const [user, clientId] = bucket;
  if (user && clientId) return "no other client";
  return user ? element("span", {}, "all client-ids of ", nameNode(user)) : element("span", {}, "all users with ", nameNode(clientId));
}
