// -- views and addresses
let here = null; // the file that is shown, and how another line of it is chosen
const split = (rest) => rest.match(/^(.*?)(?::(\d+))?$/s).slice(1);
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
  const menu = lookup({ kernel: "kernels", change: "kernels" })[view] || view;
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

const title = document.title;
document.documentElement.classList.add("js");
addEventListener("hashchange", route);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus(); });
route();
