// The page: what is chosen, the address that keeps it, and the keys. A run and its map are in run.js; of two runs the panes below
// are about the active one, which is the one that was touched last.

import { AccessWalk } from "./access.js";
import { ComparePane } from "./compare.js";
import { FindingsPane } from "./findings.js";
import { FlamePane } from "./flame.js";
import { LanesPane } from "./lanes.js";
import { LifetimesPane } from "./lifetimes.js";
import { TablePane } from "./pane.js";
import { FEW_FRAMES, Run, accesses } from "./run.js";
import { PlaceSearch } from "./search.js";
import { drawSketch } from "./sketch.js";
import { SourcePane } from "./source.js";
import { TypesPane } from "./types.js";
import { counted } from "./words.js";

const element = (id) => document.getElementById(id);

/** Asks the server; an answer that is no success is an error with its one line. */
async function ask(path, signal) {
  const answer = await fetch(path, { signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer;
}
const asked = async (path, signal) => (await ask(path, signal)).json();
/** The same, of the active run. */
const askedOfRun = (path, signal) => asked(active.number > 0 ? `${path}&run=${active.number}` : path, signal);

const runs = [];
let active;
const chosen = { what: "all", by: "variable", compareBy: "variable", scale: "log", colors: "counts", tracer: "hidden" };
const pane = new TablePane(element("pane"), asked);
const findings = new FindingsPane(element("findings"), asked);
const flame = new FlamePane(element("flame"), asked);
const lanes = new LanesPane(element("lanes"), asked);
const lifetimes = new LifetimesPane(element("lifetimes"), asked);
const types = new TypesPane(element("types"), asked);
/** Those that are opened by a click. */
const folded = { lanes, lifetimes, flame, findings, types };
const compare = new ComparePane(element("compare"), asked);
const source = new SourcePane(element("source"), (parameters) => askedOfRun(`source?${parameters}`));
const walk = new AccessWalk(element("access"), askedOfRun);
const search = new PlaceSearch(element("found"), askedOfRun);

function notice(words) {
  element("notice").hidden = !words;
  element("notice").textContent = words ?? "";
}

/** A notice with a button. */
function offer(words, what, act) {
  const button = document.createElement("button");
  button.textContent = what;
  button.addEventListener("click", act);
  notice(`${words} `);
  element("notice").append(button);
}

/** Writes what is chosen into the address, so that it can be kept and sent. */
function remember() {
  const words = runs.flatMap((run) => run.remembered(run.number > 0 ? "after-" : ""));
  if (chosen.what !== "all") words.push(`what=${chosen.what}`);
  if (chosen.by !== "variable") words.push(`by=${chosen.by}`);
  if (chosen.compareBy !== "variable") words.push(`compare-by=${chosen.compareBy}`);
  if (chosen.scale !== "log") words.push(`scale=${chosen.scale}`);
  if (chosen.colors !== "counts") words.push(`colors=${chosen.colors}`);
  if (chosen.tracer !== "hidden") words.push(`tracer=${chosen.tracer}`);
  if (active.number > 0) words.push("active=after");
  const open = Object.keys(folded).filter((name) => folded[name].element.open);
  if (open.length > 0) words.push(`open=${open.join(",")}`);
  history.replaceState(null, "", words.length > 0 ? `#${words.join("&")}` : location.pathname);
}

let remembering;
function rememberSoon() {
  clearTimeout(remembering);
  remembering = setTimeout(remember, 150);
}

const has = (select, value) => [...select.options].some((option) => option.value === value);

/** Takes over what the address says. */
function restore() {
  const given = new URLSearchParams(location.hash.slice(1));
  const known = (select, key) => (has(select, given.get(key)) ? given.get(key) : "variable");
  chosen.what = ["loads", "stores"].includes(given.get("what")) ? given.get("what") : "all";
  element("by").value = chosen.by = known(element("by"), "by");
  element("compare-by").value = chosen.compareBy = known(element("compare-by"), "compare-by");
  scaleBy(given.get("scale") === "linear" ? "linear" : "log");
  colorBy(given.get("colors") === "threads" ? "threads" : "counts");
  showTracer(given.get("tracer") === "shown");
  const open = (given.get("open") ?? "").split(",");
  for (const name of Object.keys(folded)) folded[name].element.open = open.includes(name);
  walk.forget();
  for (const run of runs) run.restore(given, run.number > 0 ? "after-" : "", chosen.what);
  activate(runs[given.get("active") === "after" ? runs.length - 1 : 0]);
}

/** The panes are about this run from now on. */
function activate(run) {
  const other = active !== run;
  active = run;
  for (const one of runs) one.section.classList.toggle("active", one === run && runs.length > 1);
  run.find("chosen").checked = true;
  if (other) {
    walk.forget();
    search.clear();
    source.close();
    walk.map = search.map = run.map;
  }
  fill();
  tabulate();
}

function options(select, all) {
  select.replaceChildren(...all.map(([value, text]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    return option;
  }));
}

/** The controls. */
function fill() {
  const words = (text) => (text.length > 60 ? `${text.slice(0, 59)}\u2026` : text);
  const { processes } = active.trace;
  element("processes").hidden = processes.length < 2;
  element("tracers").hidden = !runs.some((run) => run.hasTracer);
  options(element("process"), processes.map((process) => {
    const called = process.args || process.exe || "";
    return [process.process, words(`${process.process}: ${called} (${counted(accesses(process), "access", "accesses")})`)];
  }));
  element("process").value = active.process.process;
  const { threads } = active;
  element("threads").hidden = threads.length < 2;
  options(element("thread"), [["", `all ${threads.length}`], ...threads.map((thread) =>
    [thread.thread, `${thread.thread} (tid ${thread.tid}, ${counted(thread.accesses, "access", "accesses")})`])]);
  element("thread").value = active.thread ?? "";
  element("axes").hidden = !active.process.times;
  element("axis").value = active.moments.name;
  for (const radio of document.querySelectorAll("input[name=what]")) radio.checked = radio.value === chosen.what;
  for (const run of runs) run.find("summary").textContent = run.summary;
  element("summary").textContent = runs.length > 1 ? "" : active.summary;
}

/** What the panes below are about. */
function tabulate() {
  if (!active) return;
  const { parameters, words, soon, whole, isWhole } = active.part;
  if (active.number > 0) parameters.set("run", active.number);
  const where = runs.length > 1 ? `${active.trace.name}, ${words[0].toLowerCase()}${words.slice(1)}` : words;
  // The table of the whole run is what people look for first, however long it takes: it says how far it is.
  pane.show({ parameters: `${parameters}&by=${chosen.by}`, words: where, whole, isWhole, soon: soon || isWhole });
  flame.show({ parameters: String(parameters), words: where, whole, soon: active.trace.parts <= FEW_FRAMES });
  const ofRun = { parameters: active.number > 0 ? `&run=${active.number}` : "", words: runs.length > 1 ? active.trace.name : "The whole run", whole, soon: active.trace.parts <= FEW_FRAMES };
  findings.show(ofRun);
  types.show(ofRun);
  // The index and the blocks are in memory.
  lanes.show({ parameters: `${parameters}&what=${chosen.what}`, words: where, whole, soon: true, run: active });
  lifetimes.show({ parameters: String(parameters), words: where, whole, soon: true });
  element("unselect").disabled = element("closer").disabled = !active.map.selection;
  if (runs.length < 2) return;
  const [before, after] = runs.map((run) => run.part);
  const all = new URLSearchParams([...before.parameters, ...[...after.parameters].filter(([key]) => key !== "run").map(([key, value]) => [`after-${key}`, value])]);
  all.delete("run");
  const both = before.words === after.words ? `Both runs, ${before.words[0].toLowerCase()}${before.words.slice(1)}` : `Before: ${before.words}. After: ${after.words}`;
  compare.show({ parameters: `${all}&by=${chosen.compareBy}`, words: both, whole: before.whole, soon: before.soon && after.soon });
}

/** The maps have the same colours for the same numbers. */
function scale() {
  const most = Math.max(...runs.map((run) => run.map.tile?.facts.most ?? 0));
  for (const run of runs) {
    if (!run.map.tile || runs.length < 2) continue;
    run.map.scaleTo(most);
    run.legend();
  }
}

/** The colours of all maps follow counts so. */
function scaleBy(scale) {
  chosen.scale = scale;
  for (const run of runs) {
    run.map.scaleBy(scale === "linear");
    run.find("scaling").value = scale;
  }
}

/** The colours of all maps are those of counts, or of threads. */
function colorBy(colors) {
  chosen.colors = colors;
  for (const run of runs) {
    run.map.colorBy(colors === "threads");
    run.find("coloring").value = colors;
  }
}

/** All maps show memtap's own memory, or none does. */
function showTracer(shows) {
  chosen.tracer = shows ? "shown" : "hidden";
  element("tracer").checked = shows;
  for (const run of runs) run.hideTracer(!shows);
}

/** A run and what is heard of it. */
function add(run) {
  const { map } = run;
  runs.push(run);
  map.addEventListener("clicked", ({ detail }) => walk.begin(detail.x, detail.y));
  map.addEventListener("moved", rememberSoon);
  map.addEventListener("selected", () => {
    tabulate();
    rememberSoon();
  });
  map.addEventListener("painted", () => {
    scale();
    tabulate();
  });
  map.addEventListener("failed", ({ detail }) => notice(detail instanceof TypeError ? "memtap view has ended: start it again." : detail.message));
  const touched = () => {
    if (active === run || !active) return;
    activate(run);
    rememberSoon();
  };
  map.canvas.addEventListener("pointerdown", touched, { capture: true });
  map.canvas.addEventListener("focus", touched);
  run.find("chosen").addEventListener("change", touched);
  run.find("coloring").addEventListener("change", ({ target }) => {
    colorBy(target.value);
    rememberSoon();
  });
  run.find("scaling").addEventListener("change", ({ target }) => {
    scaleBy(target.value);
    rememberSoon();
  });
}

/** Shows the table by something else. */
function tabulateBy(by) {
  element("by").value = chosen.by = by;
  tabulate();
  rememberSoon();
}

pane.addEventListener("lined", ({ detail }) => source.open(detail, pane.answer.rows));
/** A line whose source is opened as soon as the table has lines. */
let wanted = null;
pane.addEventListener("filled", () => {
  source.update(pane.answer.by, pane.answer.rows);
  if (wanted === null || pane.answer.by !== "line") return;
  source.open(wanted, pane.answer.rows);
  wanted = null;
});
findings.addEventListener("lined", ({ detail }) => {
  if (pane.answer?.by === "line" && pane.settled) {
    source.open(detail, pane.answer.rows);
    return;
  }
  wanted = detail;
  tabulateBy("line");
});
element("process").addEventListener("change", ({ target }) => {
  walk.forget();
  active.choose(Number(target.value), null, chosen.what);
  fill();
  active.show(null);
  rememberSoon();
});
function chooseThread(thread) {
  walk.forget();
  active.thread = thread;
  element("thread").value = thread ?? "";
  active.show(active.map.window);
  tabulate();
  rememberSoon();
}
element("thread").addEventListener("change", ({ target }) => chooseThread(target.value === "" ? null : Number(target.value)));
element("axis").addEventListener("change", ({ target }) => {
  walk.forget();
  active.chooseAxis(target.value);
  tabulate();
  rememberSoon();
});
lanes.addEventListener("threaded", ({ detail }) => chooseThread(active.thread === detail ? null : detail));
lifetimes.addEventListener("chosen", ({ detail }) => search.choose(detail));
/** Findings that are looked at are marked on the map. */
const markFindings = () => active?.map.markPlaces(findings.marks);
findings.addEventListener("filled", markFindings);
findings.element.addEventListener("toggle", markFindings);
findings.addEventListener("chosen", ({ detail }) => {
  const shown = active.map.process.process;
  const when = active.map.moments.first(detail) ?? null;
  if (detail.process === shown) search.choose({ ...detail, ...(when === null ? {} : { from: when, to: when + 1 }) }); else search.say(`${detail.name} is in process ${detail.process}; the map shows process ${shown}.`);
});
for (const { element: pane } of Object.values(folded)) pane.addEventListener("toggle", rememberSoon);
for (const radio of document.querySelectorAll("input[name=what]")) {
  radio.addEventListener("change", () => {
    chosen.what = radio.value;
    walk.forget();
    for (const run of runs) {
      run.what = chosen.what;
      run.show(run.map.window);
    }
    rememberSoon();
  });
}
element("tracer").addEventListener("change", ({ target }) => {
  showTracer(target.checked);
  tabulate();
  rememberSoon();
});
const showSelected = () => active.map.selection && active.map.move(active.map.selection);
element("in").addEventListener("click", () => active.map.zoom(0.5, 0.5));
element("out").addEventListener("click", () => active.map.zoom(2, 2));
element("whole").addEventListener("click", () => active.map.move(active.map.bounds));
element("select").addEventListener("click", () => active.map.select(active.map.window));
element("unselect").addEventListener("click", () => active.map.select(null));
element("closer").addEventListener("click", showSelected);
for (const [id, key] of [["by", "by"], ["compare-by", "compareBy"]]) {
  element(id).addEventListener("change", ({ target }) => {
    chosen[key] = target.value;
    tabulate();
    rememberSoon();
  });
}

const keys = {
  a: (map) => map.pan(-0.2, 0), d: (map) => map.pan(0.2, 0), w: (map) => map.pan(0, -0.2), s: (map) => map.pan(0, 0.2),
  ArrowLeft: (map) => map.pan(-0.1, 0), ArrowRight: (map) => map.pan(0.1, 0), ArrowUp: (map) => map.pan(0, -0.1), ArrowDown: (map) => map.pan(0, 0.1),
  "+": (map) => map.zoom(0.7, 0.7), "=": (map) => map.zoom(0.7, 0.7), "-": (map) => map.zoom(1 / 0.7, 1 / 0.7),
  e: (map) => map.zoom(0.7, 1), q: (map) => map.zoom(1 / 0.7, 1), r: (map) => map.zoom(1, 0.7), f: (map) => map.zoom(1, 1 / 0.7),
  0: (map) => map.move(map.bounds),
  x: (map) => map.select(map.window), Escape: (map) => map.select(null), z: showSelected,
  n: () => walk.go("next"), p: () => walk.go("previous"),
  o: () => runs[(active.number + 1) % runs.length].map.canvas.focus(),
  "/": () => pane.find("search").focus(),
};
pane.find("search").addEventListener("keydown", ({ key, target }) => key === "Enter" && search.look(target.value));
pane.find("search").addEventListener("input", () => search.clear());
search.addEventListener("coded", () => tabulateBy("function"));
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target.type === "search") {
    active.map.canvas.focus();
    return;
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && !["radio", "checkbox"].includes(event.target.type)) return;
  const arrow = event.key.startsWith("Arrow");
  // A choice moves by arrows itself.
  if (arrow && !event.target.classList.contains("map")) return;
  const act = keys[event.key];
  if (!act || !active) return;
  event.preventDefault();
  act(active.map);
});
addEventListener("hashchange", restore);

/** Reads the trace as it is now, and begins again with it. */
async function reopen() {
  watching = false;
  notice("Reading the trace as it is now \u2026");
  let reading = true;
  const looking = setInterval(async () => {
    const { done, all } = await asked("opening").catch(() => ({ all: 0 }));
    // An answer that comes late is about nothing any more.
    if (all > 0 && reading) notice(`Reading the trace as it is now: ${Math.floor(100 * done / all)}\u202f%`);
  }, LOOK);
  try {
    await asked("reopen");
    location.reload();
  } catch (error) {
    reading = false;
    offer(`The trace can't be read as it is now: ${error.message}.`, "Try again", reopen);
  } finally {
    clearInterval(looking);
  }
}

/** Whether the trace is looked at from time to time: until there is something to say. */
let watching = true;

/** The file may be replaced or go on growing. */
async function watch() {
  if (!watching) return;
  try {
    for (const { number, trace } of runs) {
      const { changed, generation } = await asked(`state?run=${number}`);
      if (!watching) return;
      if (generation !== trace.generation) {
        watching = false;
        offer("The trace was read again by another page.", "Show it", () => location.reload());
      } else if (changed) {
        watching = false;
        const name = runs.length > 1 ? trace.name : "The trace";
        if (trace.closed) offer(`${name} has been replaced since it was opened.`, "Show the new one", reopen);
        else offer(`${name} has grown since it was opened.`, "Show what came since", reopen);
      }
    }
  } catch (error) {
    notice(error instanceof TypeError ? "memtap view has ended: start it again." : error.message);
  }
}

/** A place for a second run, as that of the first. */
function another(section) {
  const copy = section.cloneNode(true);
  copy.removeAttribute("id");
  for (const part of copy.querySelectorAll("[id]")) part.removeAttribute("id");
  copy.querySelector(".where").id = "where-after";
  copy.querySelector(".map").setAttribute("aria-describedby", "where-after");
  section.after(copy);
  return copy;
}

/** What there is of a machine: its heap and its calls are its programs' own, and nobody knows of lines. */
function showMachine() {
  for (const { element: pane } of [lifetimes, flame, findings, types]) {
    pane.open = false;
    pane.hidden = true;
  }
  options(element("by"), ["variable", "function", "process"].map((by) => [by, by]));
}

/** The line for those who are here for the first time, until it is closed. A cookie, as storage would be another one for each port. */
function hint() {
  const closed = "memtap-view-hint=closed";
  element("hint").hidden = document.cookie.split("; ").includes(closed);
  element("hint").querySelector(".close").addEventListener("click", () => {
    document.cookie = `${closed}; path=/; max-age=31536000; samesite=strict`;
    element("hint").hidden = true;
  });
}

/** Milliseconds between two looks at how far the trace is opened. */
const LOOK = 400;

/** Waits until the trace is opened; says how far it is, and draws what is read. */
async function opened() {
  for (;;) {
    const { opened, done, all, sketch } = await asked("opening");
    if (opened) return;
    const far = `Building the page index: ${all > 0 ? Math.floor(100 * done / all) : 0}\u202f%`;
    const known = sketch?.rows.length > 0 ? drawSketch(document.querySelector(".run .map"), sketch) : null;
    element("summary").textContent = known ? `${far}, ${known} so far. Names follow when it is complete.` : `${far} \u2026`;
    await new Promise((again) => setTimeout(again, LOOK));
  }
}

async function begin() {
  hint();
  const traces = [];
  try {
    await opened();
    traces.push(await asked("trace"));
    if (traces[0].runs > 1) traces.push(await asked("trace?run=1"));
  } catch (error) {
    notice(error.message);
    return;
  }
  const names = traces.map((trace) => trace.name);
  document.title = `${names.join(" and ")} \u2013 memtap view`;
  element("name").textContent = names.join(" and ");
  const first = element("run"), two = traces.length > 1;
  const sections = two ? [first, another(first)] : [first];
  element("runs").classList.toggle("two", two);
  element("compare").hidden = !two;
  for (const one of document.querySelectorAll(".of-two")) one.hidden = !two;
  sections.forEach((section, number) => {
    const run = new Run(number, section, traces[number], ask);
    run.find("named").textContent = two ? `${["Before", "After"][number]}: ${names[number]}` : names[number];
    add(run);
  });
  if (traces[0].machine) showMachine();
  restore();
  // What tests look at.
  globalThis.memtapView = { get map() { return active.map; }, get runs() { return runs; }, pane, flame, findings, types, compare, lanes, lifetimes, source, walk, chosen };
  await watch();
  setInterval(watch, 5000);
}

begin();
