// Which limit a client gets: the same rules as reconciler/quota/precedence.py, held to it by tests/render/test_page_in_chromium.py.
// A slot of an entity is a name, null (the default) or 0 (absent); a client has names or null where nothing was asked.

const ABSENT = 0;

function identity(slots) {
  return JSON.stringify(slots.slice(0, 3));
}

/**
 * Limits by entity.
 * @param {Array<[slots: Array<string|null|0>, limits: Array<number|null>]>} rows
 */
function indexOf(rows) {
  return new Map(rows.map(([slots, limits]) => [identity(slots), { slots, limits }]));
}

/** A copy with some values set or (null) taken away. */
function changed(index, changes) {
  const after = new Map(index);
  for (const [slots, column, value] of changes) {
    const name = identity(slots);
    const limits = [...(after.get(name)?.limits ?? [null, null, null, null, null])];
    limits[column] = value;
    after.set(name, { slots, limits });
  }
  return after;
}

/** 1 (closest) to 8 for users and client ids, 9 for an address, 10 for the default address. */
function levelOf([user, clientId, ip]) {
  if (ip !== ABSENT) return ip === null ? 10 : 9;
  const kind = (slot) => (slot === ABSENT ? 2 : slot === null ? 1 : 0);
  const levels = [[1, 2, 3], [4, 5, 6], [7, 8, 0]];
  return levels[kind(user)][kind(clientId)];
}

/** Entities that can hold for a client, closest first; an empty client id matches no level with a client id. */
function candidates(user, clientId) {
  const clients = clientId ? [clientId, null] : [];
  const found = [];
  for (const name of user ? [user, null] : []) {
    for (const client of clients) found.push([name, client, ABSENT]);
    found.push([name, ABSENT, ABSENT]);
  }
  for (const client of clients) found.push([ABSENT, client, ABSENT]);
  return found;
}

/** Whose tokens a limit of `source` counts: a default is a template, each client that it matches has its own. */
function bucketOf([user, clientId, ip], client) {
  if (ip !== ABSENT) return [client.ip ?? ""];
  return [user === ABSENT ? "" : client.user ?? "", clientId === ABSENT ? "" : client.clientId ?? ""];
}

/** Whether an entity of any types can hold for a client: reconciler/quota/precedence.py, may_match_client. */
function mayMatchClient(parts, client) {
  const names = { user: client.user, "client-id": client.clientId, ip: client.ip };
  return parts.every(([kind, name]) => {
    if (kind === "client-id-prefix") return Boolean(client.clientId) && client.clientId.startsWith(name ?? "");
    return !(kind in names) || (Boolean(names[kind]) && (name === null || name === names[kind]));
  });
}

/**
 * What one client gets, per key that was asked for.
 * @param {Map<string, {slots: Array, limits: Array}>} index
 * @param {{user: string|null, clientId: string|null, ip: string|null}} client
 */
function resolve(index, client) {
  const found = [];
  const closest = (slots, columns) => {
    const around = slots.map((one) => index.get(identity(one))).filter((one) => one !== undefined);
    for (const column of columns) {
      const holding = around.filter((one) => one.limits[column] !== null);
      const [winner, ...lost] = holding.map((one) => ({
        slots: one.slots, level: levelOf(one.slots), value: one.limits[column],
      }));
      found.push({ column, winner: winner ?? null, bucket: winner ? bucketOf(winner.slots, client) : [], lost });
    }
  };
  const columns = facts.keys.map((_, at) => at);
  if (client.user !== null || client.clientId !== null) {
    closest(candidates(client.user, client.clientId), columns.filter((at) => !facts.keys[at].onIp));
  }
  if (client.ip !== null) {
    closest([[ABSENT, ABSENT, client.ip], [ABSENT, ABSENT, null]], columns.filter((at) => facts.keys[at].onIp));
  }
  return found;
}

/** Limits of a column that may match a client and whose place among the levels is unknown. */
function unrankedFor(unranked, client, column) {
  return unranked.filter(([, parts, values]) => values[column] !== null && mayMatchClient(parts, client)).map(([text, , values]) => [text, values[column]]);
}

/** Whether a limit is certain: every unranked limit has the same value. */
function isKnown({ winner }, unranked) {
  return unranked.every(([, value]) => value === winner?.value);
}
