// The page as a whole: head, list of sections, one cluster at a time, theme, printing.

const THEMES = [["", "System"], ["light", "Light"], ["dark", "Dark"]];

function remembered() {
  try {
    return localStorage.getItem("kquota-theme") ?? "";
  } catch {
    return "";
  }
}

/** Light, dark, or as the system says; kept where the browser lets a page keep something. */
function themeChoice() {
  const buttons = THEMES.map(([theme, title]) => element("button", { type: "button", click: () => choose(theme) }, title));
  function choose(theme, keep = true) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
    THEMES.forEach(([one], at) => buttons[at].setAttribute("aria-pressed", String(one === theme)));
    try {
      if (keep) localStorage.setItem("kquota-theme", theme);
    } catch { /* A page opened from a file may not keep anything. */ }
  }
  const kept = remembered();
  choose(THEMES.some(([one]) => one === kept) ? kept : "", false);
  return element("div.choice", { role: "group", "aria-label": "Colours" }, buttons);
}

function clusterChoice(chosen) {
  if (facts.clusters.length < 2) return null;
  const select = element("select", { "aria-label": "Cluster" }, facts.clusters.map((one, at) => element("option", { value: at, selected: at === chosen ? "" : null }, word(one.name))));
  select.addEventListener("change", () => { show(Number(select.value)); document.querySelector("#header select").focus(); });
  return select;
}

function verdictPill(look) {
  const source = word(look.verdict);
  if (source === "broker") return pill("validated by the broker", "good");
  if (source === "none") return pill("not validated by a broker", "plain");
  return pill(`by the rules of the ${source}, not by the broker`, "accent");
}

function head(look, chosen) {
  const title = facts.page === "plan" ? "Plan" : "Quota report";
  const fact = (name, value) => (value ? element("div", {}, element("dt", {}, name), element("dd", {}, value)) : null);
  const snapshot = look.snapshotAt === null ? null : pill(`from a snapshot that is ${word(look.snapshotAge)} old`, "warn");
  return element("div.head", {},
    element("div.bar", {},
      element("div.brand", {}, element("span.sign", { "aria-hidden": "true" }), element("strong", {}, "kquota"), "Kafka client quotas"),
      element("div.tools", {}, clusterChoice(chosen), themeChoice(), element("button.button", { type: "button", click: () => window.print() }, "Print"))),
    element("div.first", {}, element("h1", {}, `${title} for `, element("bdi", {}, word(look.name))), look.declared ? verdictPill(look) : null, snapshot),
    element("p", {}, look.declared ? (facts.page === "plan" ? "" : "Live quotas, and what the documents would change. ") + word(look.headline) : `Live quotas of cluster ${word(look.clusterId)}; no documents were read`),
    element("dl.facts", {},
      fact("Cluster", word(look.clusterId)), fact("Looked at", timeNode(word(look.createdAt))),
      look.snapshotAt === null ? null : fact("Snapshot of", timeNode(word(look.snapshotAt))),
      fact("Policy", word(look.policy)), fact("Drift", word(look.driftDetection)), fact("By", word(look.who)),
      fact("Commit", word(look.commit).slice(0, 12)), look.changes.length ? fact("Digest", element("code", {}, word(look.digest))) : null));
}

/** One sentence: the state of the cluster. */
function banner(look) {
  if (!look.declared) return null;
  const [tone, strong, more] = standing(look);
  return element(`div.banner.${tone}`, {}, element("strong", {}, strong), element("span", {}, more));
}

function standing(look) {
  const { counts } = look;
  if (counts.conflicts) return ["bad", "Nothing can be applied", `${count(counts.conflicts, "conflict")} between documents`];
  if (counts.refused) return ["bad", "The broker would refuse some changes", `${count(counts.refused, "entity", "entities")} would be rejected`];
  if (counts.violations) return ["bad", "Refused by guards", `${count(counts.violations, "violation")}; nothing would be applied`];
  if (look.recorded !== null && look.recorded.refusals.length) return ["bad", "Refused by the recorded-use policy", `${count(look.recorded.refusals.length, "figure")} beyond what the policy tolerates`];
  if (!look.changes.length) return counts.drift
    ? ["warn", "Nothing to apply, but there is drift", word(look.summary)]
    : ["good", "In sync", word(look.summary)];
  return ["accent", "Can be applied", word(look.summary)];
}

function tiles(look) {
  const { counts } = look;
  const clients = new Set(look.affected.map((row) => row[0])).size;
  const shown = [
    ...(look.declared ? [["to create", counts.create], ["to update", counts.update], ["to remove", counts.remove], ...(look.recorded === null ? [["clients affected", clients]] : []), ["in sync", counts.inSync]] : []),
    ["live entities", look.quotas.length], ["drifted", counts.drift], ["document deleted", counts.orphans], ["unmanaged", counts.unmanaged],
  ];
  return element("dl.tiles", {}, shown.map(([name, amount]) => element(amount ? "div.tile" : "div.tile.zero", {}, element("dt", {}, name), element("dd", {}, amount.toLocaleString("en")))));
}

function sectionsOf(look) {
  const found = new Map(look.findings.map((one) => [one.name, one]));
  const drift = found.get("drift");
  found.delete("drift");
  const planned = look.declared ? [changesSection(look), exclusiveSection(look), affectedSection(look), recordedSection(look)] : [];
  const first = facts.page === "plan";
  return [
    troubleSection(look), ...(first ? planned : []), lookupSection(look),
    drift ? findingSection(drift) : section("found-drift", "Drift", 0, says(look.recordsKnown ? "No drift." : "Without ownership records, drift cannot be determined.")),
    quotasSection(look), ...(first ? [] : planned),
    ...[...found.values()].map(findingSection), foreignSection(look),
    shadowsSection(look), adviceSection(look), historySection(look),
  ].filter((one) => one !== null);
}

function show(chosen) {
  const look = facts.clusters[chosen];
  tables.length = 0;
  const made = sectionsOf(look);
  document.getElementById("header").replaceChildren(head(look, chosen));
  document.getElementById("main").replaceChildren(...[banner(look), tiles(look), ...made].filter(Boolean));
  document.getElementById("sections").replaceChildren(element("ul", {}, made.map((one) => element("li", {}, element("a", { href: `#${one.id}` }, one.dataset.title,
    one.dataset.count === undefined ? null : element("span.count", {}, Number(one.dataset.count).toLocaleString("en")))))));
  document.getElementById("footer").replaceChildren(element("p", {}, `${facts.perBroker} A limit that brokers show is not yet enforced: they apply it some milliseconds later.`),
    element("p", {}, "Made by kquota ", facts.toolVersion, " at ", timeNode(facts.madeAt), "; the page needs no network and sends nothing."));
  for (const table of tables) repaint(table);
}

window.addEventListener("beforeprint", () => unfold(true));
window.addEventListener("afterprint", () => unfold(false));
window.addEventListener("resize", () => { for (const table of tables) paint(table); });
// For tests and for people at the console: the same answer as `kquota resolve`.
Object.defineProperty(window, "kquota", { value: Object.freeze({ indexOf, changed, resolve, unrankedFor, isKnown }) });
show(0);
performance.measure("kquota-ready", "kquota-start");
