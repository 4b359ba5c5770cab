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
  return make("div", {}, untitled ? (block.note ? make("p", { class: "figures" }, block.note) : "") : make("h2", {}, block.table, block.note ? make("span", { class: "quiet" }, block.note) : null), tools,
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
    holder.replaceChildren(...(block.strip ? strip(block.strip) : block.both ? await beside(block.both) : [table(block, true)]));
  }
}

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
