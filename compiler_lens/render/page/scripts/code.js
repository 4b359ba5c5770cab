// -- code, highlighted as it is shown
const PYTHON = /(#[^\n]*)|('''[\s\S]*?(?:'''|$)|"""[\s\S]*?(?:"""|$)|[rbfu]{0,2}"(?:[^"\\\n]|\\.)*"?|[rbfu]{0,2}'(?:[^'\\\n]|\\.)*'?)|\b(False|None|True|and|as|assert|async|await|break|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|nonlocal|not|or|pass|raise|return|try|while|with|yield)\b|\b(\d[\w.]*)\b|([A-Za-z_]\w*)(?=\()/g;
const CPP = /(\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|#\s*(?:include|pragma|define|ifdef|ifndef|endif|if|else)[^\n]*)|("(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)|\b(auto|bool|break|case|char|const|constexpr|continue|default|do|double|else|extern|float|for|if|inline|int|int64_t|int32_t|long|namespace|return|short|signed|sizeof|static|static_cast|struct|switch|template|typename|unsigned|using|void|while)\b|\b(\d[\w.]*)\b|([A-Za-z_]\w*)(?=\()/g;
const SYNTAX = lookup({ python: PYTHON, cpp: CPP });
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
