// The views and what is said of one row. Where the page is stands in its address, as #function/12: a link keeps it, and the
// browser's buttons go back and forth.
const find = document.getElementById("search"), memoryKind = document.getElementById("memory"), shown = document.getElementById("shown");
const withSystem = document.getElementById("system");
const detail = document.getElementById("detail"), tabs = document.getElementById("tabs");
const flame = document.getElementById("flame"), overview = document.getElementById("overview");
const errors = D.head.stale.length + D.head.double_frees.length;
const VIEWS = [["overview", "Overview"], ["variable", "Variables"], ["function", "Functions"],
  // Of a machine nobody knows allocations and lines.
  ...(D.head.machine ? [] : [["site", "Allocations"], ["line", "Lines"]]),
  ...(flame.innerHTML.trim() ? [["flame", "Flame graph"]] : []), ["heat", "Heat map"]];
let view = "overview";

const link = (kind, row, words) => `<a href="#${kind}/${row}">${escape(words)}</a>`;
const thingLink = thing => {
  const site = D.thing_site[thing];
  if (site) return link("site", site - 1, thingName(thing));
  const row = variableOfThing[thing];
  return row === undefined ? escape(thingName(thing)) : link("variable", row, thingName(thing));
};
const goThing = thing => D.thing_site[thing] ? go("site", D.thing_site[thing] - 1) : go("variable", variableOfThing[thing]);
const go = (kind, row) => { location.hash = row === undefined ? kind : kind + "/" + row; };

const countCells = c => `<td class="n">${percent(c[0] + c[1] + c[2], total)}</td>` + c.slice(0, 3).map(n => `<td class="n">${grouped(n)}</td>`).join("");
const COUNT_HEADS = ["share", "loads", "stores", "modifies"].map(t => `<th class="n">${t}</th>`).join("");
const MOST = 100;
const linkTable = (title, head, rows) => rows.length ? `<h3>${title}</h3><table><thead><tr><th>${head}</th>${COUNT_HEADS}</tr></thead><tbody>` +
  rows.slice(0, MOST).map(([name, c]) => `<tr><td class="name mono">${name}</td>${countCells(c)}</tr>`).join("") + "</tbody></table>" +
  (rows.length > MOST ? `<p class="note">and ${grouped(rows.length - MOST)} more</p>` : "") : "";
const countsAt = (counts, row) => [0, 1, 2, 3].map(i => counts[4 * row + i]);
const said = c => `${many(c[0] + c[1] + c[2], "access")}, ${percent(c[0] + c[1] + c[2], total)} of the program's: ${many(c[0], "load")}, ` +
  `${many(c[1], "store")}, ${many(c[2], "modify")}; ${bytesText(c[3])}`;

// Lines of a file with the counts of these pairs beside them.
const sourceOf = (file, pairs, at) => {
  const parts = D.sources[file];
  if (!parts) return "";
  const of = new Map(sums(pairs.filter(pair => D.place_file[D.pair_place[pair]] === file), pair => D.place_line[D.pair_place[pair]]));
  const near = [...of.keys()].filter(Boolean);
  if (at) near.push(at);
  const wanted = line => near.some(other => Math.abs(other - line) <= 3);
  let html = "", last = -1;
  for (const [first, lines] of parts) {
    lines.forEach((words, i) => {
      const line = first + i, c = of.get(line);
      if (!wanted(line)) return;
      if (last >= 0 && line !== last + 1) html += `<div class="cut"><span></span><span></span><span>...</span></div>`;
      last = line;
      html += `<div class="${c ? "hit" : ""}${line === at ? " at" : ""}"><span class="n">${c ? grouped(c[0] + c[1] + c[2]) : ""}</span>` +
        `<span class="n">${lineRowOf(file, line) === undefined ? line : link("line", lineRowOf(file, line), line)}</span><span>${escape(words)}</span></div>`;
    });
  }
  return html ? `<h3>Source <span class="note mono">${escape(text(file))}</span></h3><p class="note">accesses, line, text</p><div class="source">${html}</div>` : "";
};
const lineRowAt = new Map(lineRows.map((row, i) => [row.file + ":" + row.line, i]));
const lineRowOf = (file, line) => lineRowAt.get(file + ":" + line);
const sourcesOf = pairs => sums(pairs, pair => D.place_file[D.pair_place[pair]]).slice(0, 5).map(([file]) => sourceOf(file, pairs)).join("");
const accessors = pairs => linkTable("Accessed by", "function", sums(pairs, pair => D.place_function[D.pair_place[pair]])
  .map(([row, c]) => [link("function", row, functionName(row)), c]));
const accessed = pairs => linkTable("Accesses", "variable or blocks", sums(pairs, pair => D.pair_thing[pair]).map(([thing, c]) => [thingLink(thing), c]));
const linesOf = pairs => linkTable("At these lines", "line", sums(pairs, pair => lineOfPlace[D.pair_place[pair]]).filter(([row]) => row >= 0)
  .map(([row, c]) => [link("line", row, baseName(text(lineRows[row].file)) + ":" + lineRows[row].line), c]));

const DETAILS = {
  variable(row) {
    const thing = D.variable_thing[row], site = D.thing_site[thing], pairs = pairsOfThing[thing];
    const size = D.variable_size[row], module = text(D.variable_module[row]);
    let html = `<h2 class="mono">${escape(variableName(row))}</h2><p>${escape(text(D.variable_region[row]))}${module ? " of " + escape(module) : ""}` +
      `${size ? ", " + grouped(size) + " bytes" : ""}</p><p>${said(countsAt(D.variable_counts, row))}</p>`;
    if (!site) return html + accessors(pairs) + linesOf(pairs) + sourcesOf(pairs);
    return html + `<p>One of ${many(D.site_blocks[site - 1], "block")} that ${D.site_blocks[site - 1] === 1 ? "was" : "were"} allocated by ${link("site", site - 1, siteName(site - 1))}. All of them together:</p>` +
      accessors(pairs) + linesOf(pairs) + sourcesOf(pairs);
  },
  site(row) {
    const thing = thingOfSite[row], pairs = thing === undefined ? [] : pairsOfThing[thing], place = text(D.site_line[row]);
    const blocks = [];
    for (let i = 0; i < D.variable_thing.length && blocks.length <= MOST; i++) if (D.variable_thing[i] === thing)
      blocks.push([link("variable", i, variableName(i)), countsAt(D.variable_counts, i)]);
    return `<h2 class="mono">${escape(siteName(row))}</h2><p>${place ? `<span class="mono">${escape(place)}</span>, ` : ""}${many(D.site_blocks[row], "block")}, ` +
      `${bytesText(D.site_bytes[row])}; never released: ${many(D.site_live_blocks[row], "block")}, ${bytesText(D.site_live_bytes[row])}` +
      `${pairs.length ? `; each byte accessed ${grouped(timesAByte(row))} times` : ""}</p><p>${pairs.length ? said(countsAt(siteCounts, row)) : "No access to any of them was recorded."}</p>` +
      accessors(pairs) + linesOf(pairs) + linkTable("Blocks, the most accessed first", "block", blocks) + sourcesOf(pairs);
  },
  function(row) {
    const pairs = pairsOfPlaces(placesOfFunction[row]);
    return `<h2 class="mono">${escape(functionName(row))}</h2><p>${escape(text(D.function_module[row]))}</p><p>${said(countsAt(functionCounts, row))}</p>` +
      accessed(pairs) + linesOf(pairs) + sourcesOf(pairs);
  },
  line(row) {
    const {file, line, places} = lineRows[row], pairs = pairsOfPlaces(places);
    return `<h2 class="mono">${escape(baseName(text(file)) + ":" + line)}</h2><p class="mono note">${escape(text(file))}</p><p>${said(countsAt(lineCounts, row))}</p>` +
      linkTable("In", "function", sums(pairs, pair => D.place_function[D.pair_place[pair]]).map(([f, c]) => [link("function", f, functionName(f)), c])) +
      accessed(pairs) + (D.sources[file] ? sourceOf(file, pairs, line) : `<p class="note">The source file could not be read when this page was written.</p>`);
  },
};

const topTable = (kind, n) => {
  const table = TABLES[kind], own = [];
  for (let row = 0; row < table.rows; row++) if (!table.system || !table.system(row)) own.push(row);
  const all = own.length ? own : [...Array(table.rows).keys()];
  // Variables come most accessed first.
  const rows = (kind === "variable" ? all : all.sort((a, b) => accessesAt(table.counts, b) - accessesAt(table.counts, a) || a - b)).slice(0, n);
  return `<table><thead><tr><th>${table.columns[0].title}</th>${COUNT_HEADS}</tr></thead><tbody>` + rows.map(row =>
    `<tr><td class="name mono">${link(kind, row, table.columns[0].value(row))}</td>${countCells(countsAt(table.counts, row))}</tr>`).join("") + "</tbody></table>" +
    (table.rows > n ? `<p><a href="#${kind}">all ${grouped(table.rows)}</a></p>` : "");
};
const findings = () => {
  const said = D.head.stale.slice(0, 500).map(f => `<li class="finding">${many(f.count[0] + f.count[1] + f.count[2], "access")} to <code>${escape(f.block)}</code> by ` +
    `<code>${escape(f.code)}</code>${f.line ? ` (${escape(f.line)})` : ""}${f.released ? `, released by <code>${escape(f.released)}</code>` : ""}</li>`);
  said.push(...D.head.double_frees.slice(0, 500).map(f => `<li class="finding"><code>${escape(f.block)}</code> was freed again by <code>${escape(f.call)}</code>` +
    `${f.released ? `, after <code>${escape(f.released)}</code>` : ""}</li>`));
  return said.length ? `<ul id="stale">${said.join("")}</ul>` : `<p id="stale">None was seen.</p>`;
};
const drawOverview = () => {
  const gaps = Object.entries(D.head.gaps);
  overview.innerHTML = `<div class="cards"><div class="card"><h2>Totals</h2><table id="totals"><tbody>` +
    D.head.totals.map(([what, n]) => `<tr><td>${escape(what)}</td><td class="n">${grouped(n)}</td></tr>`).join("") +
    `<tr><td>events known to be missing</td><td class="n${D.head.missing ? " finding" : ""}">${grouped(D.head.missing)}</td></tr></tbody></table>` +
    (gaps.length ? `<p class="finding">Missing: ${gaps.map(([why, n]) => escape(why) + ": " + grouped(n)).join("; ")}</p>` : "") + "</div>" +
    (D.head.machine ? "" : `<div class="card"><h2>Use after free</h2>${findings()}<p class="note">Accesses to memory after its release, and blocks that were freed twice.</p></div>`) +
    `<div class="card"><h2>Most accessed variables${D.head.machine ? "" : " and blocks"}</h2>${topTable("variable", 10)}</div>` +
    `<div class="card"><h2>Functions with most accesses</h2>${topTable("function", 10)}</div>` +
    (D.head.machine ? "" : `<div class="card"><h2>Allocations with most accesses</h2>${D.site_kind.length ? topTable("site", 10) : "<p>None was recorded.</p>"}</div>`) +
    `<div class="card"><h2>Threads</h2><table><thead><tr><th>thread</th>${COUNT_HEADS}</tr></thead><tbody>` +
    D.head.threads.map(([who, c]) => `<tr><td class="name">${escape(who)}</td>${countCells(c)}</tr>`).join("") + "</tbody></table></div>" +
    `<div class="card"><h2>How to read this</h2><p>An access is a <b>load</b> (it reads), a <b>store</b> (it writes) or a <b>modify</b> (one instruction that ` +
    `reads and writes back). ` + (D.head.machine ?
    `A share is the part of all the machine's accesses. Functions and variables are those of the guest's kernel, and of the programs whose files were ` +
    `given (--guest-program); what has no name stands in brackets. Every name leads to who accesses it. The heat map is of physical memory.` :
    `A share is the part of all the program's accesses. A block's name says how it was allocated, as which one of the process, and where: ` +
    `<code>&lt;malloc0014@make+23&gt;</code> is the 14th block, by malloc, called 23 bytes into <code>make</code>; <code>&lt;freed:0014@...&gt;</code> is the ` +
    `same block after its release. Every name leads to who accesses it and at which lines. What every program has - the C library, the dynamic linker, and memtap's own - is left away in the tables unless you ask for it; totals and shares have it.`) + `</p></div></div>`;
};

const route = () => {
  const [kind, row] = decodeURIComponent(location.hash.slice(1)).split("/");
  const known = VIEWS.some(([id]) => id === kind);
  const one = row !== undefined && DETAILS[kind] && Number(row) < TABLES[kind].rows ? Number(row) : null;
  // A link from one view to a row of another leaves the view as it is.
  if (one !== null && TABLES[kind].system && TABLES[kind].system(one)) withSystem.checked = true;
  if (known && (one === null || view === "overview" || view === "flame")) setView(kind);
  if (!location.hash) setView("overview");
  detail.hidden = one === null;
  if (one !== null) {
    detail.innerHTML = `<button class="close" title="close (Esc)">close</button>` + DETAILS[kind](one);
    detail.scrollTop = 0;
    detail.dataset.of = kind + "/" + one;
  }
  if (view === "heat") heat.layout();
};
const setView = to => {
  view = to;
  for (const tab of tabs.children) {
    tab.setAttribute("aria-selected", tab.dataset.view === to);
    tab.tabIndex = tab.dataset.view === to ? 0 : -1;
  }
  const table = TABLES[to];
  overview.hidden = to !== "overview";
  flame.hidden = to !== "flame";
  document.getElementById("heat").hidden = to !== "heat";
  document.getElementById("grid").hidden = !table;
  document.getElementById("system-label").hidden = !table || !table.system || D.head.machine;
  document.getElementById("memory-label").hidden = to !== "variable";
  shown.textContent = "";
  grid.chosen = -1;
  if (table) grid.show(to);
  if (to === "heat") heat.layout();
};

for (const [id, title] of VIEWS) {
  const tab = document.createElement("button");
  tab.setAttribute("role", "tab");
  tab.dataset.view = id;
  tab.textContent = title;
  if (id === "overview" && errors) tab.innerHTML += ` <span class="bad">(${many(errors, "memory error")})</span>`;
  tab.addEventListener("click", () => { setView(id); location.hash = id; detail.hidden = true; });
  tabs.append(tab);
}
for (const region of [...new Set(D.variable_region)]) memoryKind.add(new Option(text(region), region));
memoryKind.addEventListener("change", () => grid.fill());
withSystem.addEventListener("change", () => grid.fill());
let waiting = 0;
find.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (!TABLES[view]) setView("variable"); grid.chosen = -1; grid.fill(); }, TABLES.variable.rows > 1e5 ? 250 : 0);
});
find.addEventListener("keydown", event => {
  if (event.key !== "Enter" && event.key !== "ArrowDown") return;
  grid.body.focus();
  grid.choose(0, event.key === "Enter");
  event.preventDefault();
});
const closeDetail = () => { if (!detail.hidden) { detail.hidden = true; history.replaceState(null, "", "#" + view); if (TABLES[view]) grid.body.focus(); } };
detail.addEventListener("click", event => { if (event.target.matches(".close")) closeDetail(); });
document.addEventListener("keydown", event => {
  const typing = /INPUT|SELECT|TEXTAREA/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (typing && find.value) { find.value = ""; find.dispatchEvent(new Event("input")); }
    else closeDetail();
  } else if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "/") { find.focus(); find.select(); }
  else if (event.key === "ArrowRight" || event.key === "ArrowLeft") {
    const at = VIEWS.findIndex(([id]) => id === view) + (event.key === "ArrowRight" ? 1 : -1);
    if (!VIEWS[at]) return;
    tabs.children[at].click();
    tabs.children[at].focus();
  } else if (event.key === "ArrowDown" && TABLES[view] && document.activeElement !== grid.body) { grid.body.focus(); grid.choose(grid.chosen + 1, false); }
  else return;
  event.preventDefault();
});
window.addEventListener("hashchange", route);
document.getElementById("coverage").textContent = D.head.coverage || "";
document.getElementById("lacks").textContent = D.head.lacks || "";
drawOverview();
setView("overview");
route();
