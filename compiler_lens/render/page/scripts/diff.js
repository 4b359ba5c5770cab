// The views of the page of two recordings.
const VIEWS = (() => {
  const AROUND = 3; // equal lines that are shown around what differs
  const LONG = 300; // lines of one stretch that are shown at once
  const quiet = (told) => make("p", { class: "quiet" }, told);
  const back = (view, told) => make("a", { href: `#/${view}` }, told);

  // -- code, both sides: a row for each line, equal stretches folded
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
  async function code(both) {
    if (both.same) return [quiet(both.same), listing(await text(both.before), both.language)];
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

  // -- kernels
  const folded = (one, open) => one && make("details", { open }, make("summary", {}, one[0]), table(one[1], true));
  async function kernels() {
    const all = await data("kernels");
    return [make("h1", {}, "Kernels"), make("p", { class: "figures" }, make("span", {}, all.line)),
      blocks([all.changes, all.pairs]), folded(all.retuned), folded(all.same, !all.pairs && !all.retuned)];
  }
  async function change(rest) {
    const one = (await data("change"))[Number(rest) - 1];
    if (!one) return [quiet("No such change between these recordings.")];
    return [make("p", { class: "setting" }, back("kernels", "Kernels")), make("h1", {}, one.name),
      make("p", { class: "figures" }, make("span", {}, one.method ? `${one.verdict}, matched by ${one.method}` : one.verdict), one.times ? make("span", {}, one.times) : null), table(one.table)];
  }
  const plain = (address) => { try { return decodeURIComponent(address); } catch { return address; } };
  // By its address, or by a name that it has on either side.
  async function kernel(rest) {
    const wanted = plain(rest), name = wanted.slice(wanted.indexOf("/") + 1);
    const found = (await thing("kernel", (key) => key === rest)) || (await thing("kernel", (key) => plain(key) === wanted));
    const named = found ? null : (await data("main")).search.find((one) => one[0] === name);
    const one = found || (named && (await thing("kernel", (key) => `#/kernel/${key}` === named[2])));
    if (!one) return [quiet("No such kernel in these recordings.")];
    const keys = (await data("kernel")).flat(), at = keys.indexOf(one.key);
    const step = (by, told) => keys[at + by] ? make("a", { href: `#/kernel/${keys[at + by]}` }, told) : null;
    const head = make("p", { class: "setting steps-by" }, back("kernels", "Kernels"), one.change ? [" › ", back(`change/${one.change}`, `change ${one.change}`)] : null,
      make("span", { class: "chip" }, step(-1, "‹ previous"), " ", step(1, "next ›")));
    const lines = one.lines.map(([mark, place, told]) => make("li", { class: { "-": "gone", "+": "new" }[mark] || "" }, make("span", { class: "sign" }, mark === "=" ? " " : mark), make("span", { class: "place" }, place), make("code", {}, told)));
    return [head, make("h1", { class: "mono" }, one.name),
      make("p", { class: "figures" }, make("span", {}, one.where), make("span", {}, one.method && one.verdict !== "identical" ? `${one.verdict}, matched by ${one.method}` : one.verdict), one.times ? make("span", {}, one.times) : null),
      one.told ? make("p", { class: "differs-in" }, one.told) : null,
      facts(one.facts),
      lines.length ? [make("h2", {}, "From your lines"), make("ul", { class: "from" }, lines)] : null,
      make("h2", {}, "Code", make("span", { class: "quiet" }, "without names, paths and comments")), await code(one.code),
      blocks([one.launches]), one.tuned ? make("details", {}, make("summary", {}, `autotuning tried ${one.tuned.note} for ${one.tuned.table}`), table(one.tuned, true)) : null, blocks(one.configs), one.differences ? make("details", {}, make("summary", {}, "every value that differs"), table(one.differences, true)) : null];
  }
  // What is known of the kernels, each in a column; the cells of a narrow screen have their column's name.
  function facts({ columns, rows, alone }) {
    const heads = columns.map(([side, name]) => make("th", { scope: "col" }, make("b", { class: side === "before" ? "was" : "is" }, side), " ", make("span", { class: "mono" }, name)));
    return make("div", { class: "scroll" }, make("table", { class: "list sides-of", "aria-label": "both sides" },
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, make("span", { class: "unseen" }, "fact")), heads)),
      make("tbody", {}, rows.map(([name, cells, differs]) => make("tr", { class: differs ? "differs" : null }, make("th", { scope: "row" }, name),
        cells.map((told, i) => make("td", { "data-side": alone ? columns[i][0] : columns[i].join(" ") }, told)))))));
  }

  // -- graphs
  const WHOLE = 250; // ops that are listed at once, of several graphs
  const graph = async (one, alone) => [make(alone ? "h1" : "h2", {}, alone ? one.name : link(one.name, `#/graphs/${one.key}`), make("span", { class: "quiet" }, ` ${one.where}`)), table(one.table, true),
    one.code ? make("details", { open: alone }, make("summary", {}, "code, before and after"), await code(one.code)) : null];
  async function graphs(rest) {
    if (rest) {
      const one = await thing("graph", (key) => key === rest);
      return one ? [make("p", { class: "setting" }, back("graphs", "Graphs")), ...(await graph(one, true))] : [quiet("No such graph among those that differ.")];
    }
    const all = await data("graphs");
    const head = [make("h1", {}, "Graphs"), make("p", { class: "figures" }, make("span", {}, `${all.length.toLocaleString("en")} ${all.length === 1 ? "graph differs" : "graphs differ"}`), make("span", {}, "what differs further down mostly follows from what differs above"))];
    if (all.reduce((sum, [, , , count]) => sum + count, 0) <= WHOLE) return [...head, ...(await Promise.all(all.map(async ([key]) => graph(await thing("graph", (own) => own === key), false))))];
    return [...head, sliced(make("ul", { class: "around" }), all, ([key, name, note]) => make("li", {}, link(name, `#/graphs/${key}`), make("span", { class: "quiet" }, `  ${note}`)), 200)];
  }

  const autotune = async () => {
    const [first, ...rest] = await data("autotune");
    return [make("h1", {}, "Autotuning"), table(first, true), rest.length ? make("h2", {}, "What was tried") : null,
      sliced(make("div", {}), rest, (block) => make("details", {}, make("summary", {}, `${block.table}  `, make("span", { class: "quiet" }, block.note)), table(block, true)), 30)];
  };
  return { kernels, kernel, change, graphs, autotune };
})();
