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
