// The page of two recordings: what stands for what, and changes of several pairs, each drawn when it is looked at.
const VIEWS = (() => {
  // By its address, or by a name that it has on either side.
  const found = async (view, rest) => {
    const wanted = uncoded(rest), name = wanted.slice(wanted.indexOf("/") + 1);
    const one = (await thing(view, (key) => key === rest)) || (await thing(view, (key) => uncoded(key) === wanted));
    const named = one ? null : (await data("main")).search.find((each) => each[0] === name);
    return one || (named && (await thing(view, (key) => `#/${view}/${key}` === named[2])));
  };
  const drawnAlone = (view, told) => async (rest) => {
    const one = await found(view, rest);
    if (!one) return [make("p", { class: "quiet" }, told)];
    const keys = (await data(view)).flat(), at = keys.indexOf(one.key);
    const step = (by, told) => keys[at + by] ? link(told, `#/${view}/${keys[at + by]}`) : null;
    const shown = make("div", {}, drawn(one.html));
    await fillTables(shown, one.tables);
    return [make("p", { class: "setting steps-by" }, link("Kernels", "#/kernels"), make("span", { class: "chip" }, step(-1, "‹ previous"), " ", step(1, "next ›"))),
      make("h1", { class: view === "kernel" ? "mono" : null }, one.name), shown];
  };
  return lookup({ kernel: drawnAlone("kernel", "No such kernel in these recordings."), change: drawnAlone("change", "No such change between these recordings.") });
})();
