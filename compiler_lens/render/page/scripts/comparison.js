// -- code of two sides: a row for each line, equal stretches folded
const AROUND = 3; // equal lines that are shown around what differs
const LONG = 300; // lines of one stretch that are shown at once
// Parts of a line, those within the spans marked: what is highlighted as code stays so.
function marked(parts, spans) {
  if (!spans.length) return parts;
  const made = [];
  let at = 0;
  for (const part of parts) {
    const told = typeof part === "string" ? part : part.textContent;
    const cuts = [];
    let from = at;
    for (const [begin, end] of spans) {
      const [first, last] = [Math.max(begin, at), Math.min(end, at + told.length)];
      if (first >= last) continue;
      if (first > from) cuts.push([from, first, false]);
      cuts.push([first, last, true]);
      from = last;
    }
    if (from < at + told.length) cuts.push([from, at + told.length, false]);
    for (const [first, last, on] of cuts) {
      const piece = told.slice(first - at, last - at);
      const inside = typeof part === "string" ? piece : make("span", { class: part.className }, piece);
      made.push(on ? make("mark", {}, inside) : inside);
    }
    at += told.length;
  }
  return made;
}
const half = (side, number, sign, parts) => make("div", { class: `half ${side}` },
  make("span", { class: "no", "aria-hidden": "true" }, number === null ? "" : String(number + 1)), make("span", { class: "sign" }, sign), make("code", {}, parts));
async function beside(both) {
  const [before, after] = (await Promise.all([text(both.before), text(both.after)])).map((told) => highlightedLines(told, both.language));
  const rowOf = (kind, b, a) => {
    const marks = (kind === "~" && both.marks[b]) || [[], []];
    return make("div", { class: `pair ${kind === "=" ? "same" : "other"}` },
      half("old", b, kind === "=" ? " " : "-", marked(before[b] || [], marks[0])), half("now", a, kind === "=" ? " " : "+", marked(after[a] || [], marks[1])));
  };
  const rows = (kind, b, a, from, upto) => Array.from({ length: Math.max(0, upto - from) }, (_, i) => rowOf(kind, b + from + i, a + from + i));
  const fold = (count, told, inside) => {
    if (count <= 0) return [];
    const button = make("button", { class: "fold", type: "button", onclick: () => button.replaceWith(...inside()) }, `${count.toLocaleString("en")} ${told}`);
    return [button];
  };
  // Lines that went, beside lines that came: they are not each other.
  const lines = (kind, side, parts, from, upto) => {
    const one = (n) => half(side, n, kind, parts[n] || []);
    const all = (first, last) => Array.from({ length: last - first }, (_, i) => one(first + i));
    const shown = Math.min(upto, from + LONG);
    return [...all(from, shown), ...fold(upto - shown, "more lines", () => all(shown, upto))];
  };
  const far = (b0, b1, a0, a1) => make("div", { class: "pair far" }, make("div", { class: b0 < b1 ? "" : "none" }, lines("-", "old", before, b0, b1)), make("div", { class: a0 < a1 ? "" : "none" }, lines("+", "now", after, a0, a1)));
  const only = both.rows.length === 1 ? " single" : "";
  const made = both.rows.map(([kind, b0, b1, a0, a1], i) => {
    const count = b1 - b0, next = both.rows[i + 1], last = both.rows[i - 1];
    if (kind === "-") return far(b0, b1, a0, next && next[0] === "+" ? next[4] : a0);
    if (kind === "+") return last && last[0] === "-" ? [] : far(b0, b0, a0, a1);
    if (kind === "~") return rows(kind, b0, a0, 0, count);
    const head = i ? AROUND : 0, tail = next ? AROUND : 0;
    if (count <= head + tail + 2) return rows(kind, b0, a0, 0, count);
    return [...rows(kind, b0, a0, 0, head), ...fold(count - head - tail, "equal lines", () => rows(kind, b0, a0, head, count - tail)), ...rows(kind, b0, a0, count - tail, count)];
  });
  return [make("div", { class: `beside${only}`, role: "region", tabindex: 0, "aria-label": "code, before and after" },
    make("div", { class: "pair heads" }, make("div", { class: "half old" }, make("b", { class: "was" }, "before")), make("div", { class: "half now" }, make("b", { class: "is" }, "after"))), made)];
}
