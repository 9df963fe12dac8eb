// The page: what is chosen, the address that keeps it, and the keys. The map draws itself (map.js).

import { hexadecimal } from "./axis.js";
import { AccessWalk } from "./access.js";
import { FlamePane } from "./flame.js";
import { MemoryMap } from "./map.js";
import { rounded } from "./colors.js";
import { TablePane } from "./pane.js";
import { PlaceSearch } from "./search.js";
import { SourcePane } from "./source.js";
import { bytes, counted, grouped, short } from "./words.js";

const element = (id) => document.getElementById(id);

/** Asks the server; an answer that is no success is an error with its one line. */
async function ask(path, signal) {
  const answer = await fetch(path, { signal });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer;
}

const map = new MemoryMap(element("map"), async (parameters, signal) => (await ask(`tile?${parameters}`, signal)).arrayBuffer(),
  async (parameters, signal) => (await ask(`blocks?${parameters}`, signal)).json());
const pane = new TablePane(element("pane"), async (parameters, signal) => (await ask(`table?${parameters}`, signal)).json());
const asked = async (path, signal) => (await ask(path, signal)).json();
const flame = new FlamePane(element("flame"), (parameters, signal) => asked(`flame?${parameters}`, signal));
const source = new SourcePane(element("source"), (parameters) => asked(`source?${parameters}`));
const walk = new AccessWalk(map, element("access"), asked);
const search = new PlaceSearch(map, element("found"), asked);
let trace;
const chosen = { process: null, thread: null, what: "all", by: "variable" };

function notice(words) {
  element("notice").hidden = !words;
  element("notice").textContent = words ?? "";
}

/** What the part of the address after # says. */
function fragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  const numbers = (key) => {
    const match = /^(\d+)-(\d+)$/.exec(given.get(key) ?? "");
    return match && Number(match[2]) > Number(match[1]) ? [Number(match[1]), Number(match[2])] : null;
  };
  const addresses = (key) => {
    const match = /^(0x[0-9a-f]{1,16})-(0x[0-9a-f]{1,16})$/.exec(given.get(key) ?? "");
    return match && BigInt(match[2]) > BigInt(match[1]) ? [BigInt(match[1]), BigInt(match[2])] : null;
  };
  const number = (key) => (/^\d+$/.test(given.get(key) ?? "") ? Number(given.get(key)) : null);
  return { by: given.get("by"), selection: [numbers("selected-cycles"), addresses("selected-addresses")], process: number("process"), thread: number("thread"), what: given.get("what"), cycles: numbers("cycles"), addresses: addresses("addresses") };
}

/** Writes what is chosen into the address, so that it can be kept and sent. */
function remember() {
  const words = [];
  if (trace.processes.length > 1) words.push(`process=${chosen.process.process}`);
  if (chosen.thread !== null) words.push(`thread=${chosen.thread}`);
  if (chosen.what !== "all") words.push(`what=${chosen.what}`);
  const { from, to, top, bottom } = map.window, { bounds } = map;
  if (from > bounds.from || to < bounds.to) words.push(`cycles=${Math.floor(from)}-${Math.ceil(to)}`);
  if (top > 0 || bottom < bounds.bottom) {
    words.push(`addresses=${hexadecimal(map.axis.address(top))}-${hexadecimal(map.axis.addressAfter(bottom))}`);
  }
  const { selection } = map;
  if (selection) {
    words.push(`selected-cycles=${selection.from}-${selection.to}`);
    words.push(`selected-addresses=${hexadecimal(selection.low)}-${hexadecimal(selection.high)}`);
  }
  if (chosen.by !== "variable") words.push(`by=${chosen.by}`);
  history.replaceState(null, "", words.length > 0 ? `#${words.join("&")}` : location.pathname);
}

let remembering;
function rememberSoon() {
  clearTimeout(remembering);
  remembering = setTimeout(remember, 150);
}

function show(window) {
  const { process, thread, what } = chosen;
  walk.forget();
  map.show({ process, thread, threads: threadsShown().length, what, missing: trace.missing, window });
  describe();
}

/** Takes over what the address says. */
function restore() {
  const said = fragment();
  const byNumber = (number) => trace.processes.find((process) => process.process === number);
  chosen.process = byNumber(said.process) ?? byNumber(trace.shown_first);
  const threads = threadsShown();
  chosen.thread = threads.some((thread) => thread.thread === said.thread) ? said.thread : null;
  chosen.what = ["loads", "stores"].includes(said.what) ? said.what : "all";
  chosen.by = [...element("by").options].some((option) => option.value === said.by) ? said.by : "variable";
  element("by").value = chosen.by;
  fill();
  show(null);
  const window = { ...map.bounds };
  if (said.cycles) [window.from, window.to] = said.cycles;
  const places = (addresses) => addresses.map((address) => map.axis.place(address));
  if (said.addresses) [window.top, window.bottom] = places(said.addresses);
  const [cycles, addresses] = said.selection;
  if (cycles && addresses) {
    const [top, bottom] = places(addresses);
    map.select({ from: cycles[0], to: cycles[1], top, bottom });
  } else map.select(null);
  map.move(window, 0);
}

function threadsShown() {
  return trace.threads.filter((thread) => thread.process === chosen.process.process);
}

function options(select, all) {
  select.replaceChildren(...all.map(([value, text]) => {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = text;
    return option;
  }));
}

const accesses = (process) => process.loads + process.stores + process.modifies;

/** The controls. */
function fill() {
  const words = (text) => (text.length > 60 ? `${text.slice(0, 59)}\u2026` : text);
  options(element("process"), trace.processes.map((process) => [
    process.process, `${words(process.args || process.exe || `process ${process.process}`)} (${short(accesses(process))})`,
  ]));
  element("process").value = chosen.process.process;
  element("processes").hidden = trace.processes.length < 2;
  const threads = threadsShown();
  options(element("thread"), [
    ["", `all ${threads.length}`],
    ...threads.map((thread) => [thread.thread, `${thread.thread} (${short(thread.accesses)} accesses)`]),
  ]);
  element("thread").value = chosen.thread ?? "";
  element("threads").hidden = threads.length < 2;
  for (const radio of document.querySelectorAll("input[name=what]")) radio.checked = radio.value === chosen.what;
}

/** The lines in words about what is seen. */
function describe() {
  const { process } = chosen;
  const parts = [
    counted(accesses(process), "access", "accesses"),
    `${grouped(process.loads)} loads, ${grouped(process.stores)} stores, ${grouped(process.modifies)} modifies`,
    trace.coverage,
  ];
  element("summary").textContent = parts.filter(Boolean).join(" \u00b7 ");
  const threads = threadsShown();
  const lines = [];
  if (threads.length > 1 && chosen.thread === null) {
    lines.push("Each thread has its own clock: the cycles of different threads say nothing about what came first.");
  }
  const missing = trace.missing.filter((stretch) => stretch.process === process.process);
  if (missing.length > 0) {
    const events = missing.reduce((sum, stretch) => sum + stretch.count, 0);
    lines.push(`${counted(events, "event is", "events are")} missing of the recording; where, is hatched.`);
  }
  if (!trace.closed) lines.push("The recording was not closed: this is the trace as it was when memtap view began.");
  if (trace.damaged) lines.push(`The trace ${trace.damaged}.`);
  element("detail").dataset.always = lines.join(" ");
  tell();
}

/** What the tile that is drawn does not show. */
function tell() {
  const lines = [element("detail").dataset.always];
  const facts = map.tile?.facts;
  if (facts?.waiting > 0) lines.push(`Reading ${counted(facts.waiting, "part")} of the trace again for a finer picture \u2026`);
  else if (facts?.spread > 0) lines.push("Accesses are spread over their page and a stretch of time here: zoom in to see single ones.");
  if (facts?.estimated > 0) lines.push("Counts at the edges of this window are estimated.");
  element("detail").textContent = lines.filter(Boolean).join(" ");
}

/** The colours and what they stand for. */
function legend() {
  const { most } = map.tile.facts;
  const canvas = element("ramp");
  canvas.width = map.colors.length;
  canvas.height = 1;
  const image = new ImageData(canvas.width, 1);
  new Uint32Array(image.data.buffer).set(map.colors);
  canvas.getContext("2d").putImageData(image, 0, 0);
  const end = rounded(Math.max(1, most));
  const range = most === 0 ? "no access here" : end === 1 ? "1 access" : `1 to ${short(end)} accesses`;
  element("scale").textContent = `${range} in a cell of ${map.cellWords} (logarithmic)`;
}

/** Frames that are read for a table without being asked. */
const FEW_FRAMES = 40;

/** The table of what is selected, or shown. */
function tabulate() {
  const { selection } = map;
  const part = selection ?? map.toWhole(map.window);
  const { process } = chosen;
  const parameters = new URLSearchParams({ process: process.process, from: part.from, to: part.to, low: hexadecimal(part.low), high: hexadecimal(part.high) });
  if (chosen.thread !== null) parameters.set("thread", chosen.thread);
  const all = part.from <= map.bounds.from && part.to >= map.bounds.to && part.top <= 0 && part.bottom >= map.bounds.bottom;
  const where = all ? "The whole run" : `${selection ? "Selected" : "Shown"}: cycles ${grouped(part.from)} to ${grouped(part.to)}, ${hexadecimal(part.low)} to ${hexadecimal(part.high)}`;
  const soon = Boolean(selection) || (map.tile !== null && map.tile.facts.frames <= FEW_FRAMES);
  pane.show({ parameters: String(parameters), by: chosen.by, words: where, whole: accesses(process), soon });
  flame.show({ parameters: String(parameters), soon: trace.parts <= FEW_FRAMES });
  element("unselect").disabled = element("closer").disabled = !selection;
}

map.addEventListener("pointed", ({ detail }) => { element("where").textContent = detail || "\u00a0"; });
map.addEventListener("clicked", ({ detail }) => walk.begin(detail.x, detail.y));
map.addEventListener("moved", rememberSoon);
map.addEventListener("selected", () => {
  tabulate();
  rememberSoon();
});
map.addEventListener("painted", () => {
  if (!map.tile) return;
  legend();
  tell();
  tabulate();
  const { facts } = map.tile;
  map.canvas.setAttribute("aria-label",
    `Map of accesses: ${counted(facts.sum, "access", "accesses")} in cycles ${grouped(map.window.from)} to ${grouped(map.window.to)}, `
    + `${bytes(map.axis.bytes(map.window.top, map.window.bottom))} of accessed memory.`);
});
map.addEventListener("failed", ({ detail }) => notice(detail instanceof TypeError ? "memtap view has ended: start it again." : detail.message));

pane.addEventListener("lined", ({ detail }) => source.open(detail, pane.answer.rows));
pane.addEventListener("filled", () => source.update(pane.answer.by, pane.answer.rows));
element("process").addEventListener("change", ({ target }) => {
  chosen.process = trace.processes.find((process) => String(process.process) === target.value);
  chosen.thread = null;
  fill();
  show(null);
  rememberSoon();
});
element("thread").addEventListener("change", ({ target }) => {
  chosen.thread = target.value === "" ? null : Number(target.value);
  show(map.window);
  tabulate();
  rememberSoon();
});
for (const radio of document.querySelectorAll("input[name=what]")) {
  radio.addEventListener("change", () => {
    chosen.what = radio.value;
    show(map.window);
    rememberSoon();
  });
}
element("in").addEventListener("click", () => map.zoom(0.5, 0.5));
element("out").addEventListener("click", () => map.zoom(2, 2));
element("whole").addEventListener("click", () => map.move(map.bounds));
element("select").addEventListener("click", () => map.select(map.window));
element("unselect").addEventListener("click", () => map.select(null));
element("closer").addEventListener("click", () => map.selection && map.move(map.selection));
element("by").addEventListener("change", ({ target }) => {
  chosen.by = target.value;
  tabulate();
  rememberSoon();
});

const keys = {
  a: () => map.pan(-0.2, 0), d: () => map.pan(0.2, 0), w: () => map.pan(0, -0.2), s: () => map.pan(0, 0.2),
  ArrowLeft: () => map.pan(-0.1, 0), ArrowRight: () => map.pan(0.1, 0), ArrowUp: () => map.pan(0, -0.1), ArrowDown: () => map.pan(0, 0.1),
  "+": () => map.zoom(0.7, 0.7), "=": () => map.zoom(0.7, 0.7), "-": () => map.zoom(1 / 0.7, 1 / 0.7),
  e: () => map.zoom(0.7, 1), q: () => map.zoom(1 / 0.7, 1), r: () => map.zoom(1, 0.7), f: () => map.zoom(1, 1 / 0.7),
  0: () => map.move(map.bounds),
  x: () => map.select(map.window), Escape: () => map.select(null), z: () => map.selection && map.move(map.selection),
  n: () => walk.go("next"), p: () => walk.go("previous"),
  "/": () => pane.find("search").focus(),
};
pane.find("search").addEventListener("keydown", ({ key, target }) => key === "Enter" && search.look(target.value));
pane.find("search").addEventListener("input", () => search.clear());
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && event.target.type === "search") {
    map.canvas.focus();
    return;
  }
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) && event.target.type !== "radio") return;
  const arrow = event.key.startsWith("Arrow");
  // A choice moves by arrows itself.
  if (arrow && event.target !== map.canvas) return;
  const act = keys[event.key];
  if (!act || !trace) return;
  event.preventDefault();
  act();
});
addEventListener("hashchange", restore);

/** The file may be replaced or go on growing. */
async function watch() {
  try {
    const state = await (await ask("state")).json();
    if (state.changed) notice("The trace has changed since memtap view began: start it again to see the new one.");
  } catch (error) {
    notice(error instanceof TypeError ? "memtap view has ended: start it again." : error.message);
  }
}

async function begin() {
  try {
    trace = await (await ask("trace")).json();
  } catch (error) {
    notice(error.message);
    return;
  }
  document.title = `${trace.name} \u2013 memtap view`;
  element("name").textContent = trace.name;
  restore();
  await watch();
  setInterval(watch, 5000);
}

// What tests look at.
globalThis.memtapView = { map, pane, flame, source, walk, chosen };
begin();
