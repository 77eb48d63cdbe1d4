// What the page was given: one block of JSON, read once; ways to its words, entities and values; elements from text.
// Text becomes text nodes and nothing else, so a name can never be markup.

performance.mark("kquota-start");

const facts = JSON.parse(document.getElementById("facts").textContent);
const UNSET = "–";

function word(at) {
  return at === null ? "" : facts.words[at];
}

/** An entity as every output writes it; odd names come quoted, plain ones are put together here. */
function entityText(at) {
  const [user, clientId, ip, odd] = facts.entities[at];
  if (odd !== undefined) return odd;
  const parts = [];
  for (const [kind, slot] of [["user", user], ["client-id", clientId], ["ip", ip]]) {
    if (slot !== 0) parts.push(`${kind}=${slot === null ? "<default>" : slot}`);
  }
  return parts.join(",");
}

/** The same as an element that folds between its parts rather than inside a name. */
function entityNode(at) {
  const odd = facts.entities[at][3] !== undefined;
  const parts = odd ? [entityText(at)] : entityText(at).split(/(?<=,)/u);
  return element("bdi", {}, parts.map((one) => element("span.part", {}, one)));
}

/** A path that folds after its slashes. */
function placeNode(text) {
  return element("bdi.mono.small", {}, text.split(/(?<=\/)/u).flatMap((one, at) => (at ? [element("wbr"), one] : [one])));
}

/** The number behind a value; NaN and infinities come as words, because JSON has none. */
function valueNumber(at) {
  return at === null ? null : Number(facts.values[at][1]);
}

/** What people read first: 10 MiB/s; and the exact number where that is another text. */
function valueWords(at) {
  const [, , exact, shown] = facts.values[at];
  if (shown === undefined) return unitWords(at);
  return { shown, exact };
}

function unitWords(at) {
  const [column, , exact] = facts.values[at];
  const units = [" B/s", " B/s", " %", "/s", "/s"];
  return { shown: exact + units[column], exact: "" };
}

function valueText(at, none = UNSET) {
  if (at === null) return none;
  const { shown, exact } = valueWords(at);
  return exact ? `${shown} (${exact})` : shown;
}

/**
 * An element. Children are elements or text; `null` is left out.
 * @param {string} name tag, with classes after dots: "span.pill.good"
 * @param {Record<string, unknown>} [attributes] functions are listeners, `false` and `null` are left out
 */
function element(name, attributes = {}, ...children) {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key, value);
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(key, String(value));
  }
  made.append(...children.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== ""));
  return made;
}

function count(amount, noun, plural = `${noun}s`) {
  return `${amount.toLocaleString("en")} ${amount === 1 ? noun : plural}`;
}

/** A value in a cell: what people read, the exact number below. */
function valueCell(at, none = UNSET) {
  if (at === null) return element("span.quiet", {}, none);
  const { shown, exact } = valueWords(at);
  return exact ? element("span", {}, shown, element("span.under", {}, exact)) : element("span", {}, shown);
}

/** The same on one line, with something below. */
function valueLine(at, none, below) {
  const { shown, exact } = at === null ? { shown: none, exact: "" } : valueWords(at);
  return element("span", {}, shown, exact && element("span.quiet.small", {}, ` ${exact}`), below && element("span.under", {}, below));
}

/** From one value to another, in one line of what people read, with the exact numbers below. */
function stepCell(before, after, none) {
  const parts = [before, after].map((at) => (at === null ? { shown: none, exact: "" } : valueWords(at)));
  const exact = parts.some((one) => one.exact) ? parts.map((one) => one.exact || one.shown).join(" → ") : null;
  return element(
    "span", {},
    element("span.was", {}, parts[0].shown),
    element("span.arrow", { "aria-hidden": "true" }, "→"),
    element("span.hidden-label", {}, " to "),
    element("strong", {}, parts[1].shown),
    exact && element("span.under", {}, exact),
  );
}

const TONES = {
  "tightened": "bad", "newly limited": "warn", "loosened": "good", "newly unlimited": "warn", "unchanged": "plain", "unknown": "warn",
  "create": "good", "update": "warn", "remove": "bad",
  "APPLIED": "good", "REJECTED": "bad", "UNKNOWN": "bad", "WAITING": "warn",
  "ours": "good", "partly ours": "accent", "unmanaged": "plain", "not ours": "plain", "drifted": "warn", "document deleted": "warn", "overridden": "accent", "suspended or unusable": "plain",
};

function pill(text, tone = TONES[text] ?? "plain") {
  return text ? element(`span.pill.${tone}`, {}, text) : null;
}
