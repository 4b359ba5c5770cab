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

// The views of the page of one recording.
const VIEWS = lookup({ source, kernel, graphs });
