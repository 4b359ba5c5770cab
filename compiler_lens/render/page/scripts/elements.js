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

const uncoded = (told) => { try { return decodeURIComponent(told); } catch { return told; } };
// Looked up by what stands in an address or in a recording: without what every object has, `constructor` and the like.
const lookup = (given) => Object.assign(Object.create(null), given);

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
