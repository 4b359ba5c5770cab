"use strict";
(() => {
  // Everything that comes from the recording goes into the page as text: there is no innerHTML here.
  const $ = (id) => document.getElementById(id);
  const make = (tag, given = {}, ...inside) => fill(document.createElement(tag), given, inside);
  const draw = (tag, given = {}, ...inside) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), given, inside);
  function fill(made, given, inside) {
    for (const [name, value] of Object.entries(given)) {
      if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
      else if (name === "href") setLink(made, value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
    }
    made.append(...inside.flat(Infinity).filter((one) => one !== null && one !== undefined && one !== false));
    return made;
  }
  // Addresses lead to views of this page and nowhere else.
  function setLink(made, address) { if (address && address.startsWith("#/")) made.setAttribute("href", address); }
  const link = (told, address, kind) => address ? make("a", { href: address, class: kind }, told) : make("span", { class: kind }, told);
  const ticks = (told) => told.split("`").map((part, i) => (i % 2 ? make("code", {}, part) : part));

  // -- data: packs of compressed JSON, each inflated when it is first asked for
  const known = new Map();
  function data(name) {
    if (!known.has(name)) known.set(name, inflate($(`data-${name}`)));
    return known.get(name);
  }
  async function inflate(holder) {
    const raw = atob(holder.textContent);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }
  // One of the things that are kept by key, in packs.
  async function thing(shelf, is) {
    const keys = await data(shelf);
    const pack = keys.findIndex((own) => own.some(is));
    return pack < 0 ? null : (await data(`${shelf}-${pack}`))[keys[pack].findIndex(is)];
  }
  const text = async (ref) => (ref ? (await data(`texts-${ref[0]}`))[ref[1]] : "");

  // -- code, highlighted as it is shown
  const PYTHON = /(#[^\n]*)|('''[\s\S]*?(?:'''|$)|"""[\s\S]*?(?:"""|$)|[rbfu]{0,2}"(?:[^"\\\n]|\\.)*"?|[rbfu]{0,2}'(?:[^'\\\n]|\\.)*'?)|\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b|\b(\d[\w.]*)\b|([A-Za-z_]\w*)(?=\()/g;
  const CPP = /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|#\s*(?:include|pragma|define|ifdef|ifndef|endif|if|else)[^\n]*)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|\b(auto|bool|break|case|char|const|constexpr|continue|default|do|double|else|extern|float|for|if|inline|int|int64_t|int32_t|long|namespace|return|short|signed|sizeof|static|static_cast|struct|switch|template|typename|unsigned|using|void|while)\b|\b(\d[\w.]*)\b|([A-Za-z_]\w*)(?=\()/g;
  const SYNTAX = { python: PYTHON, cpp: CPP };
  const syntax = (language = "python") => SYNTAX[language] || /(?!)/g; // what we have no syntax for is plain
  const KINDS = ["hc", "hs", "hk", "hn", "hf"];
  const kindOf = (hit) => KINDS[hit.slice(1).findIndex((group) => group !== undefined)];
  const HIGHLIGHTED = 400000; // characters: more keeps a reader waiting
  // Code in pieces: the class that each is shown in, or none, and its text.
  function pieces(code, language) {
    if (code.length > HIGHLIGHTED) return [["", code]];
    const found = [];
    let last = 0;
    for (const hit of code.matchAll(syntax(language))) {
      if (hit.index > last) found.push(["", code.slice(last, hit.index)]);
      found.push([kindOf(hit), hit[0]]);
      last = hit.index + hit[0].length;
    }
    return [...found, ["", code.slice(last)]];
  }
  const inked = (found) => found.map(([kind, told]) => (kind ? make("span", { class: kind }, told) : told));
  const highlighted = (code, language) => inked(pieces(code, language));
  // The same, line by line: what spans several lines is cut at their ends.
  function piecesByLine(code, language) {
    const lines = [[]];
    for (const [kind, told] of pieces(code, language)) {
      told.split("\n").forEach((part, i) => {
        if (i) lines.push([]);
        if (part) lines[lines.length - 1].push([kind, part]);
      });
    }
    return lines;
  }
  const highlightedLines = (code, language = "python") => piecesByLine(code, language).map(inked);
  // Blocks of lines: what is out of sight is not laid out, and what is not at the top is highlighted a little later.
  const BLOCK = 200, HEIGHT_OF_LINE = 18.75;
  function listing(code, language) {
    const ends = [];
    let lines = 0;
    for (let at = code.indexOf("\n"); at >= 0; at = code.indexOf("\n", at + 1)) if (++lines % BLOCK === 0) ends.push(at + 1);
    if (ends[ends.length - 1] !== code.length) ends.push(code.length);
    const parts = ends.map((end, i) => make("span", { class: "part" }, code.slice(i && ends[i - 1], end)));
    parts.forEach((part, i) => { part.style.containIntrinsicHeight = `auto ${Math.min(BLOCK, lines + 1 - i * BLOCK) * HEIGHT_OF_LINE}px`; });
    if (code.length <= HIGHLIGHTED) highlightedInTurn(code, language, parts, ends);
    return make("pre", { class: "listing", tabindex: 0, "aria-label": "code" }, parts);
  }
  function highlightedInTurn(code, language, parts, ends) {
    const hits = code.matchAll(syntax(language));
    let hit = hits.next(), upto = 0, next = 0;
    const one = () => {
      const end = ends[next], made = [];
      while (!hit.done && hit.value.index < end) {
        const stop = hit.value.index + hit.value[0].length, from = Math.max(hit.value.index, upto);
        if (from > upto) made.push(code.slice(upto, from));
        upto = Math.min(stop, end);
        made.push(make("span", { class: kindOf(hit.value) }, code.slice(from, upto)));
        if (stop > end) break; // it goes on in the next block
        hit = hits.next();
      }
      if (upto < end) made.push(code.slice(upto, end));
      upto = end;
      parts[next++].replaceChildren(...made);
    };
    const onward = () => { if (next < parts.length && parts[0].isConnected) { one(); setTimeout(onward, 10); } };
    one();
    setTimeout(onward, 50);
  }

  // -- tables: sorted, filtered, shown in slices
  const SLICE = 60, CHOICES = 300;
  const inOrder = new Intl.Collator("en", { numeric: true }).compare;
  const shown = (cell) => (Array.isArray(cell) ? cell[0] : cell) || "";
  const places = (cell) => (Array.isArray(cell) && Array.isArray(cell[2]) ? cell[2] : null);
  const wording = (cell) => places(cell) ? places(cell).map((one) => one[0]).join(" ") : String(shown(cell));
  const rank = (cell) => (Array.isArray(cell) && cell[1] !== null && cell[1] !== undefined ? cell[1] : wording(cell));
  const beneath = (cell) => (Array.isArray(cell) && cell[3]) || "";
  const rankBeneath = (cell) => (Array.isArray(cell) && cell[5] !== null && cell[5] !== undefined ? cell[5] : beneath(cell));
  function table(block, untitled) {
    const columns = block.columns.map(({ name, cells, rows }) => ({ kind: /^[#`=]/.test(name) ? name[0] : "", name: name.replace(/^[#`=]/, ""), cells, rows }));
    const every = Uint32Array.from({ length: block.size }, (_, i) => i);
    const body = make("tbody");
    const count = make("output");
    const more = make("button", { class: "more", type: "button", onclick: () => grow() });
    let wanted = "", rows = every, sorted = null, upto = 0;
    const chosen = new Map();
    const under = (one) => (beneath(one) ? make("span", { class: "beneath" }, beneath(one)) : null);
    const shownCell = (one, { kind }) => {
      if (places(one)) return make("td", { class: "places" }, places(one).slice(0, 4).map(([told, to], i) => [i ? ", " : "", link(told, to)]), places(one).length > 4 ? ` +${places(one).length - 4}` : "", under(one));
      const to = Array.isArray(one) ? one[2] : null;
      return make("td", { class: to && to.startsWith("#/kernel/") ? "k" : to ? "t" : { "#": "n", "`": "c", "=": String(shown(one)).length > 12 ? "" : "t" }[kind] || "" }, to ? link(shown(one), to) : ticks(String(shown(one))), under(one));
    };
    const grow = () => {
      const slice = [...rows.subarray(upto, upto + SLICE)];
      body.append(...slice.map((i) => make("tr", {}, columns.map((each) => shownCell(each.cells[each.rows[i]], each)))));
      upto += slice.length;
      more.hidden = upto >= rows.length;
      more.textContent = `${Math.min(SLICE, rows.length - upto)} more of ${(rows.length - upto).toLocaleString("en")}`;
    };
    // Every cell is asked once, however many rows have it.
    const found = (each) => {
      each.held = each.held || each.cells.map((one) => `${wording(one)}\n${places(one) ? places(one).map((at) => at[1]).join("\n") : rank(one)}\n${(Array.isArray(one) && one[4]) || ""}`.toLowerCase());
      return each.held.map((held) => held.includes(wanted));
    };
    const order = (each, by) => {
      each.orders = each.orders || new Map();
      if (each.orders.has(by)) return each.orders.get(by);
      const keys = each.cells.map(by);
      const listed = keys.map((_, i) => i).filter((i) => keys[i] !== "");
      listed.sort((a, b) => (typeof keys[a] === "number" && typeof keys[b] === "number" ? keys[a] - keys[b] : inOrder(String(keys[a]), String(keys[b]))));
      const found = new Float64Array(keys.length).fill(NaN);
      listed.forEach((i, at) => { found[i] = at && keys[i] === keys[listed[at - 1]] ? found[listed[at - 1]] : at; });
      each.orders.set(by, found);
      return found;
    };
    const again = () => {
      const hits = wanted ? columns.map((each) => [each.rows, found(each)]) : null;
      const limits = [...chosen].filter(([, value]) => value).map(([each, value]) => [each.rows, each.cells.map((one) => wording(one) === value)]);
      rows = hits || limits.length ? every.filter((i) => (!hits || hits.some(([at, of]) => of[at[i]])) && limits.every(([at, of]) => of[at[i]])) : every.slice();
      if (sorted) {
        const [each, way, by] = sorted, places = order(each, by);
        rows.sort((a, b) => {
          const [x, y] = [places[each.rows[a]], places[each.rows[b]]];
          return Number.isNaN(x) || Number.isNaN(y) ? Number.isNaN(x) - Number.isNaN(y) || a - b : (x - y) * way || a - b;
        });
      }
      body.replaceChildren();
      upto = 0;
      grow();
      count.textContent = rows.length < block.size ? `${rows.length.toLocaleString("en")} of ${block.size.toLocaleString("en")}` : "";
    };
    const header = columns.map((each) => {
      const sort = (by) => {
        const way = sorted && sorted[0] === each && sorted[2] === by ? -sorted[1] : each.kind === "#" ? -1 : 1;
        sorted = [each, way, by];
        header.forEach((one) => { one.removeAttribute("aria-sort"); one.querySelectorAll(".on").forEach((button) => button.classList.remove("on")); });
        head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
        buttons[by === rank ? 0 : 1].classList.add("on");
        again();
      };
      // What stands beneath has a heading of its own beneath.
      const buttons = each.name.split("\n").slice(0, each.cells.some(beneath) ? 2 : 1).map((told, i) => make("button", { type: "button", class: i ? "beneath" : "", onclick: () => sort(i ? rankBeneath : rank) }, told));
      const head = make("th", { scope: "col", class: each.kind === "#" ? "n" : "" }, buttons);
      return head;
    });
    const filters = columns.flatMap((each) => {
      if (each.kind !== "=") return [];
      const values = [...new Set(each.cells.map(wording))].filter(Boolean);
      if (values.length < 2) return [];
      const choose = make("select", { "aria-label": each.name, onchange: () => { chosen.set(each, choose.value); again(); } },
        make("option", { value: "" }, `every ${each.name}`), values.slice(0, CHOICES).map((value) => make("option", { value }, value)));
      return [choose];
    });
    const filter = make("input", { type: "search", placeholder: "filter", "aria-label": `filter ${block.table}`, oninput: () => { wanted = filter.value.toLowerCase(); again(); } });
    const tools = block.size > 8 ? make("div", { class: "tools" }, filter, filters, count) : null;
    grow();
    const lead = block.lead && block.lead.length ? make("div", { class: "lead" }, block.lead.map(([told, mood]) => make("p", { class: mood || null }, ticks(told)))) : null;
    return make("div", {}, untitled ? (block.note ? make("p", { class: "figures" }, block.note) : "") : make("h2", {}, block.table, block.note ? make("span", { class: "quiet" }, block.note) : null), lead, tools,
      fitting(make("table", { class: "data", "aria-label": block.table }, make("thead", {}, make("tr", {}, header)), body)), more);
  }
  // A table scrolls in a box of its own; where it has room, its head stays in sight instead.
  function fitting(listed) {
    const holder = make("div", { class: "scroll" }, listed);
    new ResizeObserver(() => holder.classList.toggle("fits", listed.offsetWidth <= holder.clientWidth)).observe(holder);
    return holder;
  }
  // A list that is shown in slices as well.
  function sliced(list, all, one, size = 40) {
    let upto = 0;
    const more = make("button", { class: "more", type: "button", onclick: () => grow() });
    const grow = () => {
      list.append(...all.slice(upto, upto + size).map(one));
      upto += size;
      more.hidden = upto >= all.length;
      more.textContent = `${Math.min(size, all.length - upto)} more of ${(all.length - upto).toLocaleString("en")}`;
    };
    grow();
    return [list, more];
  }
  // What we wrote ourselves, in which nothing of the recording is more than text.
  const drawn = (html) => [...new DOMParser().parseFromString(html, "text/html").body.children].map((one) => document.adoptNode(one));
  // What a view has besides its text: tables and code, made when they are first looked at.
  async function fillTables(view, tables) {
    for (const holder of view.querySelectorAll(".later")) {
      const folded = holder.closest("details:not([open])");
      if (folded && view.contains(folded)) { folded.addEventListener("toggle", () => fillTables(folded, tables), { once: true }); continue; }
      holder.classList.remove("later");
      if (holder.dataset.text) { holder.replaceWith(listing(await text(holder.dataset.text.split("-")), holder.dataset.language)); continue; }
      const block = (tables || (await data(holder.dataset.of)))[Number(holder.dataset.table)];
      holder.replaceChildren(...(block.strip ? strip(block.strip) : [table(block, true)]));
    }
  }
  const blocks = (listed) => listed.filter(Boolean).map((block) => (block.table !== undefined ? table(block) : make("p", { class: "quiet" }, block.text)));

  // -- the strip of the whole run: a compilation's width is its seconds, its parts are its phases
  const WIDTH = 1200, HEIGHT = 84, THINNEST = 3;
  function strip({ phases, bars }) {
    const whole = bars.reduce((sum, bar) => sum + bar[2], 0);
    if (!whole) return [];
    const scale = (WIDTH - 2) / whole;
    const groups = [];
    for (const bar of bars) { // what would be too thin to see and to click joins its neighbours
      const last = groups[groups.length - 1];
      if (last && last.took * scale < THINNEST) join(last, bar); else groups.push(join({ took: 0, parts: phases.map(() => 0), breaks: 0, again: 0, of: 0 }, bar));
    }
    let x = 1;
    const shapes = phases.map(() => []); // one shape for each phase: thousands of compilations are drawn at once
    const made = groups.map((group) => {
      const width = group.took * scale, known = group.parts.reduce((a, b) => a + b, 0);
      let y = HEIGHT + 14;
      const seen = Math.max(width - (width > THINNEST ? 1 : 0), 0.6).toFixed(1);
      const shape = (i, height) => { y -= height; if (height > 0.3) shapes[i].push(`M${x.toFixed(1)} ${y.toFixed(1)}h${seen}v${height.toFixed(1)}h-${seen}z`); };
      group.parts.forEach((part, i) => shape(i, known ? (part / known) * HEIGHT : 0));
      if (!known) shape(phases.length - 1, HEIGHT);
      const flags = [group.breaks ? draw("path", { class: "flag", d: `M${x} 1h9l-4.5 7z` }) : null, group.again ? draw("circle", { class: "again", cx: x + (group.breaks ? 16 : 4), cy: 5, r: 3.5 }) : null];
      const told = group.of > 1 ? `${group.of} compilations, the first ${group.told}` : group.told;
      const all = told + (group.breaks ? `, graph breaks: ${group.breaks}` : "") + (group.again ? `, recompiles: ${group.again}` : "");
      const area = draw("rect", { class: "area", x: x.toFixed(1), y: 0, width: width.toFixed(1), height: HEIGHT + 14 });
      x += width;
      return draw("a", { href: group.href, "aria-label": all }, draw("title", {}, all), flags, area);
    });
    const key = phases.map((name, i) => [name, i]).filter(([, i]) => groups.some((group) => group.parts[i] > 0))
      .map(([name, i]) => make("li", {}, draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, draw("rect", { class: `p${i}`, width: 10, height: 10 })), name));
    if (groups.some((group) => group.breaks)) key.push(make("li", {}, draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, draw("path", { class: "flag", d: "M0 1h10l-5 8z" })), "graph break"));
    if (groups.some((group) => group.again)) key.push(make("li", {}, draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, draw("circle", { class: "again", cx: 5, cy: 5, r: 4 })), "recompile"));
    return [make("h2", {}, "The run", make("span", { class: "quiet" }, "compilations in order, as wide as they took long; parts by phase")),
      draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT + 14}`, preserveAspectRatio: "none", role: "group", "aria-label": "compilations in order" }, shapes.map((own, i) => draw("path", { class: `p${i}`, d: own.join("") })), made),
      make("ul", { class: "key" }, key)];
  }
  function join(group, [href, told, took, parts, breaks, again]) {
    group.href = group.href || href;
    group.told = group.told || told;
    group.took += took;
    parts.forEach((part, i) => { group.parts[i] += part; });
    group.breaks += breaks;
    group.again += again;
    group.of += 1;
    return group;
  }

  // -- source
  let here = null; // the file that is shown, and how another line of it is chosen
  const inSight = (row) => { const box = row && row.getBoundingClientRect(); return !!box && box.top > 0 && box.bottom < innerHeight; };
  const MARKS = { "+": "g", "-": "w", "~": "w", x: "b", "!": "b", "|": "w", g: "u" };
  const CHUNK = 100, HEIGHT_OF_ROW = 19.4, IDS = 2;
  const split = (rest) => rest.match(/^(.*?)(?::(\d+))?$/).slice(1);
  async function source(rest) {
    const files = await data("source");
    const [wanted, number] = split(rest);
    const [asked] = files.find(([name]) => name === wanted) || files[0] || [];
    const file = await thing("file", (name) => name === asked);
    if (!file) return [make("p", {}, "No line of your files was compiled, and none broke a graph.")];
    const lines = file.text ? piecesByLine(await text(file.text), "python") : null;
    if (lines && !lines[lines.length - 1].length) lines.pop();
    const numbers = lines ? lines.map((_, i) => i + 1) : Object.keys(file.lines).map(Number);
    const first = Math.min(...Object.keys(file.lines).map(Number));
    let line = Number(number) || first;
    const panel = make("aside", { class: "panel", "aria-label": "the line's kernels", "aria-live": "polite" });
    const at = (n) => `#/source/${encodeURI(file.name)}:${n}`;
    const rows = new Map();
    const used = new Set(Object.values(file.lines).flatMap((one) => [...one.marks]));
    const rowOf = (n) => {
      const facts = file.lines[n];
      const marks = facts ? [...facts.marks].map((mark) => make("b", { class: MARKS[mark] || "" }, mark)) : [];
      const ids = facts ? facts.ids.slice(0, IDS).map(([told, to], i) => [i ? " " : "", link(told, to)]) : [];
      const row = make("div", { class: `row${facts ? " has" : ""}${facts && "-~x".includes(facts.marks[0]) ? " eager" : ""}`, id: `L${n}`, "data-line": n, onclick: (event) => { if (!event.target.closest("a") && facts) choose(n); } },
        make("span", { class: "no" }, facts ? link(String(n), at(n)) : String(n)), make("span", { class: "marks" }, marks), make("span", { class: "in" }, ids, facts && facts.ids.length > IDS ? ` +${facts.ids.length - IDS}` : ""),
        make("span", { class: "src" }, lines ? inked(lines[n - 1] || []) : highlighted(facts.code, "python")));
      rows.set(n, row);
      const told = facts ? facts.told.map(([mark, head, said, to]) => make("div", { class: `told ${MARKS[mark]}` }, link(head, to), make("span", { class: "quiet" }, ticks(said)))) : [];
      return [row, told];
    };
    // A hundred rows at a time: those in sight at once, the others a little later.
    const chunks = [], chunkOf = new Map(numbers.map((n, i) => [n, Math.floor(i / CHUNK)]));
    for (let i = 0; i < numbers.length; i += CHUNK) {
      chunks.push(make("div", { class: "block" }));
      chunks[chunks.length - 1].style.minHeight = `${Math.min(CHUNK, numbers.length - i) * HEIGHT_OF_ROW}px`;
    }
    const build = (i) => {
      if (!chunks[i] || chunks[i].firstChild) return;
      fill(chunks[i], {}, numbers.slice(i * CHUNK, (i + 1) * CHUNK).map(rowOf));
      chunks[i].style.minHeight = "";
    };
    const rowAt = (n) => { build(chunkOf.get(n)); return rows.get(n); };
    const choose = (n) => { if (location.hash === at(n)) select(n, false); else location.hash = at(n); };
    const light = (places) => { places.forEach(rowAt); rows.forEach((row, n) => row.classList.toggle("lit", places.has(n))); };
    const linesOf = (places) => new Set(places.filter(([name]) => name === file.name).map(([, n]) => n));
    async function select(n, scroll) {
      rows.forEach((row) => row.classList.remove("sel", "lit"));
      const row = rowAt(n);
      if (!row) { panel.replaceChildren(make("p", { class: "quiet" }, n ? `Nothing is known of line ${n}.` : "Click a line for its kernels, forward and backward.")); return; }
      row.classList.add("sel");
      if (scroll && (number || !inSight(row))) row.scrollIntoView({ block: "center" });
      const kernels = await data("lines");
      if (!row.classList.contains("sel")) return; // another line was chosen meanwhile
      panel.replaceChildren(...story(n, kernels));
      panel.scrollTop = 0;
    }
    function story(n, kernels) {
      const facts = file.lines[n];
      if (!facts) return [make("h2", {}, `${file.name}:${n}`), make("p", { class: "quiet" }, "Nothing is known of this line.")];
      const part = (name, backward) => {
        const listed = facts.kernels.filter((one) => one[1] === backward);
        return listed.length ? [make("h2", {}, name, make("span", { class: "quiet" }, listed.length === 1 ? "1 kernel" : `${listed.length} kernels`)), sliced(make("ul", { class: "hits" }), listed, hit)] : [];
      };
      const hit = ([index, backward, launches, share, took]) => {
        const [key, name, places] = kernels[index];
        const row = make("li", { "data-kernel": key },
          make("button", { type: "button", "aria-pressed": "false", title: "light its lines" }, name), make("span", { class: "n" }, took),
          make("span", { class: "sub" }, [facts.ids.length > 1 ? `[${key.split("/")[0].replaceAll("_", "/")}]` : "", share, launches].filter(Boolean).join(", "), " · ", link("open", `#/kernel/${key}`)));
        const toGraph = (to) => { if (to) row.querySelector(".sub").append(" · ", link("in the graph", to)); };
        setTimeout(() => kernelInGraph(key, name, backward).then(toGraph), 120); // the line is seen first
        row.addEventListener("click", (event) => {
          if (event.target.closest("a")) return;
          const on = !row.classList.contains("lit");
          panel.querySelectorAll("li.lit").forEach((one) => { one.classList.remove("lit"); one.querySelector("button").setAttribute("aria-pressed", "false"); });
          row.classList.toggle("lit", on);
          row.querySelector("button").setAttribute("aria-pressed", String(on));
          light(on ? linesOf(places) : new Set());
        });
        return row;
      };
      return [make("h2", {}, `${file.name}:${n}`), drawn(facts.above), inGraphs(n, facts),
        part("forward", 0), part("backward", 1), drawn(facts.below)].flat(Infinity).filter(Boolean);
    }
    // Of one compilation the stages with nodes that are for the line, and the others by number.
    function inGraphs(n, facts) {
      if (!facts.ids.length) return null;
      const find = `${file.name}:${n}`, [, , key] = facts.ids[0];
      const told = make("p", { class: "nodes" }, make("span", { class: "quiet" }, "graph nodes "));
      const others = facts.ids.slice(1, 9).map(([told, , key]) => [" ", link(`[${told}]`, `#/graphs/${key}${findPart(find)}`)]);
      setTimeout(async () => {
        if (line !== n) return;
        const one = await thing("graph", (own) => own === key);
        for (const stage of one ? one.stages : []) {
          if (!PLAIN.includes(stage.key) || !(await elsewhere(stage.levels || [], find)).length) continue;
          told.append(make("a", { href: `#/graphs/${key}/${stage.key}${findPart(find)}`, title: stage.name }, one.stages.filter((each) => each.group === stage.group).length > 1 && stage.group ? `${stage.group} ${stage.short}` : stage.group || stage.short), " ");
        }
        if (others.length) told.append(make("span", { class: "quiet" }, "also"), ...others.flat());
        if (told.childNodes.length < 2) told.remove();
      }, 120);
      return told;
    }
    steps.list = () => Object.keys(file.lines).map(Number);
    steps.go = (n) => choose(n);
    steps.now = () => line;
    steps.clear = () => { rows.forEach((row) => row.classList.remove("lit")); panel.querySelectorAll("li.lit").forEach((one) => one.classList.remove("lit")); };
    here = { name: file.name, show: (n) => { line = n || first; select(line, !inSight(rowAt(line))); } };
    const mine = here;
    const onward = (i) => { if (i < chunks.length && here === mine) { build(i); setTimeout(() => onward(i + 1), 10); } };
    [0, chunkOf.get(line) - 1, chunkOf.get(line), chunkOf.get(line) + 1].forEach(build);
    setTimeout(() => onward(1), 100);
    const shown = make("div", { class: "text", role: "region", tabindex: 0, "aria-label": `${file.name}, line by line` }, chunks);
    const widest = Math.max(0, ...Object.values(file.lines).map(({ ids }) => ids.slice(0, IDS).map((one) => one[0]).join(" ").length + (ids.length > IDS ? 4 : 0)));
    shown.style.setProperty("--ids", `${widest}ch`);
    here.start = () => select(line, true); // once it is in the page
    return [make("h1", {}, file.name), make("p", { class: "figures" }, make("span", {}, file.counts)),
      files.length > 1 ? make("ul", { class: "files" }, files.slice(0, 60).map(([name, breaks]) => make("li", {}, make("a", { href: `#/source/${encodeURI(name)}`, "aria-current": name === file.name ? "page" : null }, name), breaks ? make("span", { class: "bad" }, ` ${breaks}`) : null))) : null,
      make("ul", { class: "legend" }, file.legend.filter(([mark]) => used.has(mark)).map(([mark, told]) => make("li", {}, make("b", { class: MARKS[mark] }, mark), told))),
      lines ? null : make("p", { class: "quiet" }, "its text is not in the recording: these are the lines that torch gave"),
      make("div", { class: "source" }, shown, panel)];
  }
  const PLAIN = ["dynamo", "joint", "forward", "inference", "backward", "post_grad", "post_grad_backward"];
  // Where a kernel stands in the picture of its graph, if there is one.
  async function kernelInGraph(key, name, backward) {
    const [compilation] = key.split("/"), own = backward ? "kernels_backward" : "kernels";
    const one = await thing("graph", (each) => each === compilation);
    const stage = one && one.stages.find((each) => each.key === own && each.levels && each.levels.length);
    return stage ? `#/graphs/${compilation}/${own}${findPart(name)}` : "";
  }

  // -- one kernel
  async function kernel(rest) {
    const one = (await thing("kernel", (key) => key === rest)) || (await thing("kernel", (key) => decodeURIComponent(key) === decodeURIComponent(rest)));
    if (!one) return [make("p", {}, "No such kernel in this recording.")];
    const shown = make("div", {}, drawn(one.html));
    const inGraph = await kernelInGraph(one.key, one.name, one.backward);
    if (inGraph) shown.firstElementChild.append(" · ", link("in the graph", inGraph));
    await fillTables(shown, one.tables);
    return [make("p", { class: "setting" }, make("a", { href: "#/kernels" }, "Kernels")), make("h1", { class: "mono" }, one.name), shown];
  }

  // -- graphs
  async function gallery() {
    const cards = await data("gallery");
    const alone = cards.length === 1;
    const card = (one) => {
      const pieces = one.pieces.map(([told, more, to]) => make("li", { class: told === "break" ? "cut" : null }, link(told, to), make("span", { class: "quiet" }, ` ${more}`)));
      const shot = make("article", { class: "shot" }, make("h2", {}, link(one.name, one.to), one.at ? make("span", { class: "quiet" }, link(one.at, one.href)) : null), make("p", { class: one.mood }, one.treated),
        pieces.length > 1 ? make("ol", { class: "pieces" }, pieces, one.more ? make("li", { class: "quiet" }, `${one.more} more`) : null) : null);
      text(one.picture).then((told) => {
        const svg = parsed(told);
        if (svg) shot.append(alone ? canvas(svg) : make("a", { href: one.to, class: "thumb", "aria-label": `picture of ${one.name}` }, make("div", { inert: "", "aria-hidden": "true" }, svg)));
      });
      return shot;
    };
    return sliced(make("div", { class: alone ? "" : "shots" }), cards, card, 6);
  }
  const parsed = (told) => { const read = new DOMParser().parseFromString(told, "image/svg+xml").documentElement; return read.nodeName === "svg" ? document.importNode(read, true) : null; };
  const uncoded = (told) => { try { return decodeURIComponent(told); } catch { return told; } };
  async function graphs(rest) {
    if (!rest) return [make("h1", {}, "Graphs"), ...await gallery(), (await data("graphs")).map((block) => [make("h2", {}, "Compilations", make("span", { class: "quiet" }, block.size.toLocaleString("en"))), table(block, true)])];
    const [path, wanted = ""] = rest.split("?find=");
    const [key, stage, ...below] = path.split("/");
    const one = await thing("graph", (own) => own === key);
    if (!one) return [make("p", {}, "No such compilation in this recording.")];
    const now = one.stages.find((each) => each.key === stage) || one.stages[0];
    const module = uncoded(below.join("/")), find = uncoded(wanted);
    const head = [make("p", { class: "setting" }, make("a", { href: "#/graphs" }, "Graphs")),
      make("h1", {}, `[${one.id}] ${one.function} `), make("p", { class: "figures" }, one.at ? link(one.at, one.href, "place") : null, now ? make("span", {}, now.note ? `${now.name}: ${now.note}` : now.name) : null)];
    if (!now) return [...head, make("p", {}, "No graph of it is in this recording.")];
    const shown = await picture(one, now, module, find);
    const code = now.code ? make("div") : null;
    const read = async () => code.append(make("h2", {}, "Code"), listing(await text(now.code), "python"));
    if (code && shown.length) requestAnimationFrame(() => setTimeout(read)); // megabytes: the picture is seen first
    else if (code) await read();
    return [...head, tabs(one, now, module, find), ...shown, code];
  }
  const findPart = (find) => (find ? `?find=${encodeURIComponent(find)}` : "");
  // The stages, in groups; where another one has the module that is shown, or one around it or alike, it leads there.
  function tabs(one, now, module, find) {
    const groups = [];
    for (const each of one.stages) {
      const last = groups[groups.length - 1];
      if (last && last[0].group === each.group && each.group) last.push(each); else groups.push([each]);
    }
    const tab = (each, told) => make("a", { href: `#/graphs/${one.key}/${each.key}${placed(each, module)}${findPart(find)}`, title: each.name, "aria-label": each.name, "aria-current": each === now ? "page" : null }, told);
    return make("ul", { class: "tabs", "aria-label": "stages" }, groups.map((group) =>
      make("li", {}, group.length > 1 ? [make("span", { class: "quiet" }, group[0].group), group.map((each) => tab(each, each.short))] : tab(group[0], group[0].group || group[0].short))));
  }
  const alike = (path) => path.replace(/\d+/g, "*");
  function placed(stage, module) {
    const levels = stage.levels || [];
    if (!module) return "";
    if (levels.length < 2) return `/${encodeURIComponent(module)}`; // for the way back
    const found = levelOf(levels, module);
    return found ? `/${encodeURIComponent(found[0])}` : "";
  }
  function levelOf(levels, module) {
    const same = levels.find((level) => level[0] === module);
    if (same) return same;
    for (let path = module.split("~")[0]; path; path = path.slice(0, Math.max(0, path.lastIndexOf(".")))) {
      const found = levels.find((level) => level[0] === path) || levels.find((level) => alike(level[0]) === alike(path));
      if (found) return found;
    }
    return null;
  }
  // What is looked for: a name or a line, which does not end within a number; a line's file does not begin within a name.
  const pattern = (find) => new RegExp((/:\d+$/.test(find) ? "(?<![\\w-])" : "") + find.replace(/[.*+?^${}()|[\]\\]/g, "\\$&") + (/\d$/.test(find) ? "(?!\\d)" : ""), "i");
  const boxesOf = (svg) => [...svg.querySelectorAll("a, g")].filter((box) => box.firstElementChild && box.firstElementChild.nodeName === "title");
  const hits = (svg, find) => { const wanted = pattern(find); return boxesOf(svg).filter((box) => wanted.test(box.textContent)); };
  async function picture(one, stage, module, find) {
    const levels = stage.levels || [];
    if (!levels.length) return stage.levels && stage.code ? [make("p", { class: "quiet" }, "No picture of this graph is in the page.")] : [];
    const found = find ? await elsewhere(levels, find) : [];
    const level = (module && levelOf(levels, module)) || found[0] || levels[0];
    const svg = parsed(await text(level[3]));
    if (!svg) return [make("p", { class: "bad" }, "This picture could not be read.")];
    const to = (address, find) => `#/graphs/${one.key}/${stage.key}${address ? `/${encodeURIComponent(address)}` : ""}${findPart(find)}`;
    const crumbs = [];
    for (let each = level; each; each = each[2] === null ? null : levels.find((other) => other[0] === each[2])) crumbs.unshift(each);
    const path = crumbs.length > 1 ? make("p", { class: "setting" }, crumbs.map((each, i) => [i ? " › " : "", each === level ? each[1] : make("a", { href: to(each[0]) }, i ? each[1] : "whole graph")])) : null;
    const said = make("span", { class: "quiet", role: "status" });
    const holder = canvas(svg);
    const mark = async (wanted) => {
      const here = wanted ? hits(svg, wanted) : [];
      boxesOf(svg).forEach((box) => box.classList.toggle("dim", !!wanted && !here.includes(box) && !here.some((hit) => box.contains(hit))));
      here.forEach((box) => box.classList.add("near"));
      boxesOf(svg).filter((box) => !here.includes(box)).forEach((box) => box.classList.remove("near"));
      if (!wanted) { said.replaceChildren(HINT); return here; }
      said.replaceChildren(here.length ? `${here.length} in this picture` : "not in this picture");
      const others = (await elsewhere(levels, wanted)).filter((each) => each !== level);
      if (field.value.trim() === wanted && others.length) said.append("; also in ", ...others.slice(0, 6).flatMap((each, i) => [i ? ", " : "", make("a", { href: to(each[0], wanted) }, each[0] || "the whole graph")]), others.length > 6 ? ` and ${others.length - 6} more` : "");
      return here;
    };
    const field = make("input", { type: "search", value: find || null, placeholder: "find in the picture", "aria-label": "find in the picture", oninput: () => mark(field.value.trim()) });
    const here = await mark(find);
    if (here.length) holder.show(here[0]);
    return [path, make("div", { class: "tools" }, field, said), holder];
  }
  const HINT = "double boxes open; drag to move, Ctrl and wheel to zoom";
  // The levels that have it, by their texts: a picture is not parsed for that.
  const wordsOf = new Map();
  async function elsewhere(levels, find) {
    const read = async ([, , , ref]) => { if (!wordsOf.has(`${ref}`)) wordsOf.set(`${ref}`, (await text(ref)).replace(/<[^>]*>/g, "\n")); return wordsOf.get(`${ref}`); };
    const wanted = pattern(find.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;"));
    const has = await Promise.all(levels.map(async (level) => wanted.test(await read(level))));
    return levels.filter((_, i) => has[i]);
  }
  // A picture that can be moved and zoomed.
  function canvas(svg) {
    const [width, height] = [Number(svg.getAttribute("width")), Number(svg.getAttribute("height"))];
    let x = 0, y = 0, scale = 1, from = null, moved = false;
    const put = () => { svg.style.transform = `translate(${x}px, ${y}px) scale(${scale})`; };
    const zoom = (by, cx, cy) => {
      const next = Math.min(4, Math.max(0.05, scale * by));
      x = cx - ((cx - x) * next) / scale;
      y = cy - ((cy - y) * next) / scale;
      scale = next;
      put();
    };
    const fit = () => {
      scale = Math.min(1, holder.clientWidth / width, Math.max((innerHeight * 0.72) / height, 0.7));
      holder.style.height = `${Math.min(innerHeight * 0.72, height * scale + 12)}px`;
      const box = holder.getBoundingClientRect();
      x = Math.max(0, (box.width - width * scale) / 2);
      y = 0;
      put();
    };
    const showBox = (box) => { // in the middle, where it is out of sight
      const [own, all] = [box.getBoundingClientRect(), holder.getBoundingClientRect()];
      if (own.left >= all.left && own.right <= all.right && own.top >= all.top && own.bottom <= all.bottom) return;
      x += (all.left + all.right - own.left - own.right) / 2;
      y += (all.top + all.bottom - own.top - own.bottom) / 2;
      put();
    };
    const middle = (by) => { const box = holder.getBoundingClientRect(); zoom(by, box.width / 2, box.height / 2); };
    const key = (told, name, act) => make("button", { type: "button", "aria-label": name, title: name, onclick: act }, told);
    const holder = make("div", { class: "canvas", tabindex: 0, role: "group", "aria-label": "picture of the graph",
      onpointerdown: (event) => { if (event.button === 0 && !event.target.closest("button")) { from = [event.clientX - x, event.clientY - y]; moved = false; } },
      onpointermove: (event) => {
        if (!from) return;
        const [dx, dy] = [event.clientX - from[0] - x, event.clientY - from[1] - y];
        if (!moved && Math.abs(dx) + Math.abs(dy) < 4) return;
        if (!moved) { moved = true; holder.setPointerCapture(event.pointerId); holder.classList.add("drag"); }
        x += dx; y += dy; put();
      },
      onpointerup: () => { from = null; holder.classList.remove("drag"); },
      onwheel: (event) => { if (event.ctrlKey || event.metaKey) { const box = holder.getBoundingClientRect(); zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top); event.preventDefault(); } },
      onkeydown: (event) => {
        const step = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
        if (step) { x += step[0]; y += step[1]; put(); event.preventDefault(); }
        else if (event.key === "+" || event.key === "=") middle(1.25);
        else if (event.key === "-") middle(0.8);
        else if (event.key === "0") fit();
      } },
      svg, make("div", { class: "keys" }, key("+", "larger", () => middle(1.25)), key("−", "smaller", () => middle(0.8)), key("fit", "fit", fit)));
    holder.addEventListener("click", (event) => { if (moved) { event.preventDefault(); event.stopPropagation(); } moved = false; }, true);
    new ResizeObserver((_, watch) => { if (holder.clientWidth) { watch.disconnect(); fit(); if (toShow) showBox(toShow); } }).observe(holder); // once it is in the page
    let toShow = null;
    holder.show = (box) => { toShow = box; };
    return holder;
  }

  // -- views and addresses
  const tabular = (name, title) => async () => { const listed = await data(name); const same = listed[0] && listed[0].table === title; return [make("h1", {}, title), ...(same ? [table(listed[0], true), ...blocks(listed.slice(1))] : blocks(listed))]; };
  const ownViews = { source, kernel, graphs };
  // The page of two recordings has views of its own, in a script before this one.
  const VIEWS = typeof otherViews === "function" ? otherViews({ make, draw, link, ticks, data, thing, text, highlightedLines, listing, table, sliced, blocks }) : ownViews;
  const steps = { list: () => [], go: () => {}, now: () => 0, clear: () => {} };
  const reset = () => Object.assign(steps, { list: () => [], go: () => {}, now: () => 0, clear: () => {} });
  let turn = 0, shownAt = "", inFile = "";
  async function route() {
    const mine = ++turn;
    let [, view = "overview", rest = ""] = (location.hash || "#/overview").match(/^#\/([^/]*)\/?(.*)$/) || [];
    const fixed = $(`view-${view}`), drawn = $("drawn");
    if (!fixed && !VIEWS[view]) { view = "overview"; rest = ""; }
    let place = rest;
    try { place = decodeURI(rest); } catch { /* as it stands */ }
    if (view === "source" && here && here.name === split(place)[0] && shownAt.startsWith("source/")) here.show(Number(split(place)[1]) || 0);
    else if (VIEWS[view]) {
      let made;
      const soon = setTimeout(() => {
        if (mine !== turn) return;
        drawn.replaceChildren(make("p", { class: "quiet" }, "reading …"));
        document.querySelectorAll("main > .view").forEach((one) => one.classList.toggle("on", one === drawn));
      }, 80);
      try { reset(); here = null; made = await VIEWS[view](view === "kernel" ? rest : place); } catch (error) {
        if (mine !== turn) return;
        made = [make("p", { class: "bad" }, "This view could not be shown."), make("p", { class: "quiet" }, String(error))];
        console.error(error);
      }
      clearTimeout(soon);
      if (mine !== turn) return; // somebody went on meanwhile
      drawn.replaceChildren(...made.flat(Infinity).filter(Boolean));
    } else { here = null; reset(); if (fixed) await fillTables(fixed); if (mine !== turn) return; }
    document.querySelectorAll("main > .view").forEach((one) => one.classList.remove("on"));
    const target = fixed || (VIEWS[view] ? drawn : $("view-overview"));
    target.classList.add("on");
    const menu = { kernel: "kernels", change: "kernels" }[view] || view;
    document.querySelectorAll(".menu a").forEach((one) => one.dataset.view === menu ? one.setAttribute("aria-current", "page") : one.removeAttribute("aria-current"));
    const head = target.querySelector("h1");
    document.title = `${head && view !== "overview" ? `${head.textContent.trim()} · ` : ""}${title}`;
    const card = fixed && rest ? $(`${view}-${rest}`) : null;
    document.querySelectorAll(".card.on").forEach((one) => one.classList.remove("on"));
    if (card) { card.classList.add("on"); card.scrollIntoView(); }
    else if (`${view}` !== shownAt.split("/")[0] || !/:\d+$/.test(rest) || inFile !== rest.replace(/:\d+$/, "")) scrollTo(0, 0);
    if (mine > 1 && document.activeElement === document.body) $("main").focus({ preventScroll: true }); // what had it is gone
    if (here && here.start) here.start();
    shownAt = `${view}/${rest}`;
    inFile = rest.replace(/:\d+$/, "");
    document.body.dataset.ready = String(mine);
  }

  // -- search and keys
  const box = $("search"), list = $("found");
  let at = 0;
  async function search() {
    const wanted = box.value.trim().toLowerCase();
    const all = (await data("main")).search;
    const hits = wanted ? all.filter((one) => one[0].toLowerCase().includes(wanted) || one[3].toLowerCase().includes(wanted)).slice(0, 40) : [];
    at = 0;
    list.replaceChildren(...hits.map(([name, kind, to, more], i) => make("li", { role: "option", id: `found-${i}`, "aria-selected": String(!i) }, make("a", { href: to, tabindex: -1, onclick: close }, make("b", {}, name), make("i", {}, more ? `${more} ` : "", kind)))));
    list.hidden = !hits.length;
    box.setAttribute("aria-expanded", String(!list.hidden));
    if (hits.length) box.setAttribute("aria-activedescendant", "found-0"); else box.removeAttribute("aria-activedescendant");
  }
  const close = () => { list.hidden = true; box.value = ""; box.blur(); box.setAttribute("aria-expanded", "false"); };
  function point(step) {
    const all = [...list.children];
    if (!all.length) return;
    all[at].setAttribute("aria-selected", "false");
    at = (at + step + all.length) % all.length;
    all[at].setAttribute("aria-selected", "true");
    all[at].scrollIntoView({ block: "nearest" });
    box.setAttribute("aria-activedescendant", `found-${at}`);
  }
  box.addEventListener("input", search);
  box.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") { point(1); event.preventDefault(); }
    else if (event.key === "ArrowUp") { point(-1); event.preventDefault(); }
    else if (event.key === "Enter") { const to = list.children[at] && list.children[at].querySelector("a"); if (to) to.click(); }
    else if (event.key === "Escape") close();
  });
  document.addEventListener("click", (event) => { if (!event.target.closest(".search")) list.hidden = true; });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.key === "/") { box.focus(); event.preventDefault(); }
    else if (event.key === "Escape") steps.clear();
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const all = steps.list(), now = steps.now();
      if (!now || event.target.closest(".panel, .canvas")) return;
      const next = event.key === "ArrowDown" ? all.find((n) => n > now) : all.filter((n) => n < now).pop();
      if (next) { steps.go(next); event.preventDefault(); }
    }
  });

  const title = document.title;
  document.documentElement.classList.add("js");
  addEventListener("hashchange", route);
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
  route();
  if ($("data-strip")) data("strip").then((run) => { const holder = $("strip"); if (holder) holder.replaceChildren(...strip(run)); });
})();
