// -- source
const inSight = (row) => { const box = row && row.getBoundingClientRect(); return !!box && box.top > 0 && box.bottom < innerHeight; };
const MARKS = lookup({ "+": "g", "-": "w", "~": "w", x: "b", "!": "b", "|": "w", g: "u" });
const CHUNK = 100, HEIGHT_OF_ROW = 19.4, IDS = 2;
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
  const one = (await thing("kernel", (key) => key === rest)) || (await thing("kernel", (key) => uncoded(key) === uncoded(rest)));
  if (!one) return [make("p", {}, "No such kernel in this recording.")];
  const shown = make("div", {}, drawn(one.html));
  const inGraph = await kernelInGraph(one.key, one.name, one.backward);
  if (inGraph) shown.firstElementChild.append(" · ", link("in the graph", inGraph));
  await fillTables(shown, one.tables);
  return [make("p", { class: "setting" }, make("a", { href: "#/kernels" }, "Kernels")), make("h1", { class: "mono" }, one.name), shown];
}
