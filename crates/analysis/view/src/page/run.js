// One run in the page: its map, what is chosen of it, and what is said around the map.

import { hexadecimal } from "./axis.js";
import { MemoryMap } from "./map.js";
import { CYCLES, TIME } from "./moments.js";
import { bytes, counted, grouped, short } from "./words.js";

/** Frames that are read for a table without being asked. */
export const FEW_FRAMES = 40;

export const accesses = (count) => count.loads + count.stores + count.modifies;

export class Run {
  /** The run of that number in a section of the page; `ask(path, signal)` asks the server for the answer as it is. */
  constructor(number, section, trace, ask) {
    Object.assign(this, { number, section, trace, process: null, thread: null, axis: null, what: "all", hidesTracer: true });
    this.find = (name) => section.querySelector(`.${name}`);
    const of = (parameters) => (number > 0 ? `${parameters}&run=${number}` : String(parameters));
    this.map = new MemoryMap(this.find("map"), async (parameters, signal) => (await ask(`tile?${of(parameters)}`, signal)).arrayBuffer(),
      async (parameters, signal) => (await ask(`blocks?${of(parameters)}`, signal)).json(),
      async (parameters, signal) => (await ask(`singles?${of(parameters)}`, signal)).json());
    this.map.addEventListener("pointed", ({ detail }) => { this.find("where").textContent = detail || "\u00a0"; });
    this.map.addEventListener("painted", () => this.painted());
  }

  get threads() {
    return this.trace.threads.filter((thread) => thread.process === this.process.process);
  }

  /** Chooses a process and a thread by their numbers: the first one to see, and all threads, where there are none of these. */
  choose(process, thread, what) {
    const byNumber = (number) => this.trace.processes.find((process) => process.process === number);
    this.process = byNumber(process) ?? byNumber(this.trace.shown_first);
    this.thread = this.threads.some((one) => one.thread === thread) ? thread : null;
    this.what = what;
  }

  /** Whether memtap has memory of its own in a process of the run. */
  get hasTracer() {
    return this.trace.processes.some((process) => process.own_axis);
  }

  /** Shows memtap's own memory, too, or hides it: the window and what is selected stay what they are, as far as there is a place for it. */
  hideTracer(hides) {
    const { map } = this;
    if (this.hidesTracer === hides) return;
    this.hidesTracer = hides;
    if (!this.process) return;
    const { selection, window, bounds } = map, { low, high } = map.toWhole(window);
    const isWhole = window.top <= 0 && window.bottom >= bounds.bottom;
    this.show(null);
    map.move({ ...window, ...(isWhole ? { top: 0, bottom: map.bounds.bottom } : { top: map.axis.place(low), bottom: map.axis.place(high) }) }, 0);
    if (selection) map.select({ ...selection, top: map.axis.place(selection.low), bottom: map.axis.place(selection.high) });
  }

  /** What the axis of time counts: what was chosen, or else time where there are several threads. */
  get moments() {
    const { process, axis, threads } = this;
    return process.times && (axis ?? (threads.length > 1 ? TIME.name : CYCLES.name)) === TIME.name ? TIME : CYCLES;
  }

  /** Another axis of time, on which all of it is shown; the addresses stay. */
  chooseAxis(axis) {
    this.axis = axis;
    const { top, bottom } = this.map.window;
    this.show(null);
    this.map.move({ ...this.map.bounds, top, bottom }, 0);
  }

  show(window) {
    const { process, thread, what, trace, moments } = this;
    const missing = trace.missing.map((stretch) => {
      const [from, to] = moments.stretch(stretch);
      return { ...stretch, from, to };
    });
    // The threads of a process have a clock each: a cycle of several has no time.
    const timed = this.threads.find((one) => one.thread === thread) ?? (this.threads.length === 1 ? this.threads[0] : null);
    this.map.show({ process, thread, threads: this.threads.length, moments, what, missing, times: moments === CYCLES ? timed?.times : null, hidesTracer: this.hidesTracer, window });
    this.tell();
  }

  /** What there is of it, in words. */
  get summary() {
    const { process } = this;
    return [
      counted(accesses(process), "access", "accesses"),
      `${grouped(process.loads)} loads, ${grouped(process.stores)} stores, ${grouped(process.modifies)} modifies`,
      this.trace.coverage,
    ].filter(Boolean).join(" \u00b7 ");
  }

  /** What the map does not show. */
  tell() {
    const { trace, process } = this;
    const lines = [];
    // The vCPUs of a machine have one.
    if (this.threads.length > 1 && this.thread === null && !trace.machine) {
      lines.push(this.moments === CYCLES ? "Each thread has its own clock: the cycles of different threads say nothing about what came first."
        : "Times are about right; calls that allocate or synchronise are in their order.");
    }
    const missing = trace.missing.filter((stretch) => stretch.process === process.process);
    if (missing.length > 0) {
      const events = missing.reduce((sum, stretch) => sum + stretch.count, 0);
      lines.push(`${counted(events, "event is", "events are")} missing of the recording; where, is hatched.`);
    }
    if (!trace.closed) lines.push("The recording was not closed: this is the trace as it was when memtap view began.");
    if (trace.damaged) lines.push(`The trace ${trace.damaged}.`);
    const facts = this.map.tile?.facts;
    if (facts?.waiting > 0) lines.push(`Reading ${counted(facts.waiting, "part")} of the trace again for a finer picture \u2026`);
    else if (facts?.spread > 0) lines.push("Accesses are spread over their page and a stretch of time here: zoom in to see single ones.");
    if (facts?.estimated > 0) lines.push("Counts at the edges of this window are estimated.");
    this.find("detail").textContent = lines.join(" ");
  }

  painted() {
    const { map } = this;
    if (!map.tile) return;
    this.legend();
    this.tell();
    const { facts } = map.tile;
    map.canvas.setAttribute("aria-label",
      `Map of accesses${this.trace.runs > 1 ? ` of ${this.trace.name}` : ""}: ${counted(facts.sum, "access", "accesses")} in ${map.moments.range(map.window.from, map.window.to)}, `
      + `${bytes(map.axis.bytes(map.window.top, map.window.bottom))} of accessed memory.`);
  }

  /** The colours and what they stand for. */
  legend() {
    const { map } = this;
    const isSingle = Boolean(map.singles), { threads } = map.tile.facts;
    this.find("by-kind").hidden = !isSingle || Boolean(threads);
    this.find("ramp").hidden = isSingle || Boolean(threads);
    this.find("scaling").hidden = isSingle;
    this.find("coloring").hidden = this.threads.length < 2;
    const named = (threads ?? []).map((thread) => `thread ${thread}`);
    if (threads && this.threads.length > threads.length) named.push("others");
    this.find("by-thread").replaceChildren(...named.flatMap((name, number) => {
      const chip = document.createElement("i");
      chip.style.background = map.threadColor(name === "others" ? Infinity : number);
      return [chip, ` ${name} `];
    }));
    const canvas = this.find("ramp");
    canvas.width = map.colors.length;
    canvas.height = 1;
    const image = new ImageData(canvas.width, 1);
    new Uint32Array(image.data.buffer).set(map.colors);
    canvas.getContext("2d").putImageData(image, 0, 0);
    const end = map.most;
    const range = map.tile.facts.most === 0 ? "no access here" : end === 1 ? "1 access" : `1 to ${short(end)} accesses`;
    this.find("scale").textContent = isSingle ? counted(map.tile.facts.sum, "access", "accesses") : `${range} in a cell of ${map.cellWords}`;
  }

  /** What is selected, or else shown: as a request has it, in words, and whether it is soon read. */
  get part() {
    const { map, process } = this;
    const { selection } = map;
    const part = selection ?? map.toWhole(map.window);
    const parameters = new URLSearchParams({ process: process.process, from: part.from, to: part.to, low: hexadecimal(part.low), high: hexadecimal(part.high) });
    // All addresses are more than those of the axis where memory is hidden.
    if (part.top <= 0 && part.bottom >= map.bounds.bottom) for (const key of ["low", "high"]) parameters.delete(key);
    if (this.thread !== null) parameters.set("thread", this.thread);
    if (map.moments !== CYCLES) parameters.set("axis", map.moments.name);
    const all = part.from <= map.bounds.from && part.to >= map.bounds.to && part.top <= 0 && part.bottom >= map.bounds.bottom;
    const words = all ? "The whole run" : `${selection ? "Selected" : "Shown"}: ${map.moments.range(part.from, part.to)}, ${hexadecimal(part.low)} to ${hexadecimal(part.high)}`;
    const soon = Boolean(selection) || (map.tile !== null && map.tile.facts.frames <= FEW_FRAMES);
    return { parameters, words, soon, isWhole: all && this.thread === null, whole: accesses(process) };
  }

  /** What of it is kept in the page's address, as words of a fragment whose keys begin with `prefix`. */
  remembered(prefix) {
    const words = [];
    const { map } = this;
    if (this.trace.processes.length > 1) words.push(`process=${this.process.process}`);
    if (this.thread !== null) words.push(`thread=${this.thread}`);
    const { from, to, top, bottom } = map.window, { bounds } = map;
    const { name } = map.moments;
    if (this.axis) words.push(`axis=${this.axis}`);
    if (from > bounds.from || to < bounds.to) words.push(`${name}=${Math.floor(from)}-${Math.ceil(to)}`);
    if (top > 0 || bottom < bounds.bottom) {
      words.push(`addresses=${hexadecimal(map.axis.address(top))}-${hexadecimal(map.axis.addressAfter(bottom))}`);
    }
    const { selection } = map;
    if (selection) {
      words.push(`selected-${name}=${selection.from}-${selection.to}`);
      words.push(`selected-addresses=${hexadecimal(selection.low)}-${hexadecimal(selection.high)}`);
    }
    return words.map((word) => prefix + word);
  }

  /** Takes over what a fragment says. */
  restore(given, prefix, what) {
    const text = (key) => given.get(prefix + key) ?? "";
    const numbers = (key) => {
      const match = /^(\d+)-(\d+)$/.exec(text(key));
      return match && Number(match[2]) > Number(match[1]) ? [Number(match[1]), Number(match[2])] : null;
    };
    const places = (key) => {
      const match = /^(0x[0-9a-f]{1,16})-(0x[0-9a-f]{1,16})$/.exec(text(key));
      return match && BigInt(match[2]) > BigInt(match[1]) ? [BigInt(match[1]), BigInt(match[2])].map((address) => this.map.axis.place(address)) : null;
    };
    const number = (key) => (/^\d+$/.test(text(key)) ? Number(text(key)) : null);
    this.choose(number("process"), number("thread"), what);
    this.axis = null;
    // What was kept says what it counts.
    const kept = [CYCLES, TIME].find(({ name }) => numbers(name) ?? numbers(`selected-${name}`));
    this.axis = [CYCLES, TIME].find(({ name }) => name === text("axis"))?.name ?? (kept && kept !== this.moments ? kept.name : null);
    this.show(null);
    const { map } = this;
    const window = { ...map.bounds };
    const { name } = map.moments;
    [window.from, window.to] = numbers(name) ?? [window.from, window.to];
    [window.top, window.bottom] = places("addresses") ?? [window.top, window.bottom];
    const [moments, selected] = [numbers(`selected-${name}`), places("selected-addresses")];
    map.select(moments && selected ? { from: moments[0], to: moments[1], top: selected[0], bottom: selected[1] } : null);
    map.move(window, 0);
  }
}
