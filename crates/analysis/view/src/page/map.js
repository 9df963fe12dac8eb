// The map: time from left to right, the axis of addresses from top to bottom, a colour a cell. It draws, and turns the mouse into
// windows; what the windows are for is left to app.js.

import { AddressAxis, Clock, hexadecimal, ticks } from "./axis.js";
import { ramp, ramps, rounded, step, style } from "./colors.js";
import { drawLabels, groupsOf, widthOf } from "./labels.js";
import { drawMarks } from "./marks.js";
import { CYCLES } from "./moments.js";
import { bytes, counted, seconds, short } from "./words.js";

/** Room for labels at the left: as much as they need, up to a part of the width. */
const FEWEST_LEFT = 90;
const MOST_LEFT = 0.3;
const BOTTOM = 26;
/** Room for a second line below the picture: times. */
const TIMES = 14;
const TOP = 6;
const RIGHT = 8;
/** Cells of a tile; where the window has more pixels, a cell is several. */
const MOST_CELLS = 1 << 20;
/** What is drawn are a few pixels from memory: a graphics processor has nothing to do but to be waited for. */
const IN_MEMORY = { willReadFrequently: true };
/** A cell with accesses is drawn at least so large, in pixels of the device. */
const MARK_PIXELS = 3;
/** So few accesses are drawn one by one: as long as their bytes, in the colour of their kind. */
const FEW_ACCESSES = 2000;
const KINDS = ["load", "store", "modify"];
/** The colour of a single access in the colours of its thread. */
const SINGLE_STEP = 160;
/** Blocks of fewer pixels are not outlined. */
const FEWEST_PIXELS = 5;
/** Cycles, or nanoseconds. */
const FEWEST_MOMENTS = 16;
const FEWEST_BYTES = 16;

const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** A grid of counts and where it is. */
class Tile {
  constructor(buffer, window, width, height) {
    const head = new DataView(buffer).getUint32(0, true);
    this.facts = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, head)));
    this.counts = new Uint32Array(buffer, 4 + head, width * height);
    // Numbers of the threads that have most of a cell, where they were asked for.
    this.threads = this.facts.threads ? new Uint8Array(buffer, 4 + head + 4 * width * height) : null;
    Object.assign(this, { window, width, height, image: null, marks: this.counts, reach: 0 });
  }

  /** Makes the mark of each cell reach over so many empty ones around it. */
  widen(reach) {
    if (reach === this.reach) return;
    this.reach = reach;
    this.marks = this.counts;
    if (reach === 0) return;
    const { width, height, counts } = this;
    const across = new Int32Array(counts.length).fill(-1);
    // Nearer ones first, and of equals the one before: whatever the mark of a cell is, a click on it means that cell.
    const spread = (from, to, step, lines, line, length) => {
      for (let row = 0; row < lines; row++) {
        for (let at = 0; at < length; at++) {
          const cell = row * line + at * step;
          let found = from(cell);
          for (let away = 1; found < 0 && away <= reach; away++) {
            if (at >= away) found = from(cell - away * step);
            if (found < 0 && at + away < length) found = from(cell + away * step);
          }
          to[cell] = found;
        }
      }
    };
    spread((cell) => (counts[cell] > 0 ? cell : -1), across, 1, height, width, width);
    const owners = new Int32Array(counts.length).fill(-1);
    spread((cell) => across[cell], owners, width, width, 1, height);
    this.owners = owners;
    this.marks = Uint32Array.from(owners, (owner) => (owner < 0 ? 0 : counts[owner]));
  }

  /** The cell whose mark is drawn at a cell. */
  cellAt(column, row) {
    const cell = row * this.width + column;
    const owner = this.reach > 0 ? this.owners[cell] : cell;
    const shown = owner < 0 ? cell : owner;
    return { column: shown % this.width, row: Math.floor(shown / this.width), count: this.counts[shown], cell: shown };
  }

  /** The number of the thread that has most of a cell, which has accesses. */
  threadOf(cell) {
    return this.threads[cell];
  }

  /** A cell itself. */
  exactCellAt(column, row) {
    const cell = row * this.width + column;
    return { column, row, count: this.counts[cell], cell };
  }

  /** Its picture, with the last of the colours for so many accesses. */
  paint({ colors, threadColors, isLinear }, most) {
    const canvas = document.createElement("canvas");
    canvas.width = this.width;
    canvas.height = this.height;
    const image = new ImageData(this.width, this.height);
    const pixels = new Uint32Array(image.data.buffer);
    const known = new Map();
    for (let at = 0; at < pixels.length; at++) {
      const count = this.marks[at];
      if (count === 0) continue;
      let place = known.get(count);
      if (place === undefined) known.set(count, place = step(count, most, isLinear));
      pixels[at] = (this.threads ? threadColors[this.threadOf(this.reach > 0 ? this.owners[at] : at)] : colors)[place];
    }
    canvas.getContext("2d", IN_MEMORY).putImageData(image, 0, 0);
    this.image = canvas;
  }
}

export class MemoryMap extends EventTarget {
  /** On a canvas; `fetchTile(parameters, signal)` gives a tile's bytes, `fetchBlocks` what blocks of the heap there are, `fetchSingles` accesses. */
  constructor(canvas, fetchTile, fetchBlocks, fetchSingles) {
    super();
    Object.assign(this, { canvas, fetchTile, fetchBlocks, fetchSingles, moments: CYCLES, singles: null, singling: false, blocks: [], tile: null, whole: null, asking: null, scale: null, isLinear: false, byThread: false, selection: null, marked: null, access: null, pointer: null, marks: [], pending: 0, changes: 0, drawn: false });
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", () => this.recolor());
    new ResizeObserver(() => this.resized()).observe(canvas);
    this.listen();
    this.takeColors();
  }

  /** Shows a process of the trace: all of it, or a window. */
  show({ process, thread, threads, moments, what, missing, times, hidesTracer, window }) {
    const sameAxis = this.moments === moments;
    const same = sameAxis && this.process === process && this.thread === thread && this.what === what && this.hidesTracer === hidesTracer;
    Object.assign(this, { process, thread, threads, moments, what, missing, hidesTracer });
    this.axis = new AddressAxis(hidesTracer ? process.own_axis ?? process : process);
    this.clock = times?.length > 1 ? new Clock(times) : null;
    const [from, to] = moments === CYCLES ? [process.from, process.to] : process.times;
    this.bounds = { from, to, top: 0, bottom: this.axis.units };
    if (!same) this.tile = this.whole = this.singles = null;
    if (!same) this.blocks = [];
    this.selection = this.selection && sameAxis && process === this.selectedIn ? this.selection : null;
    this.selectedIn = process;
    this.window = this.limited(window ?? this.bounds);
    this.layOut();
    this.changed(0);
  }

  /** Marks places: each has a process, perhaps a thread, its first address as `start`, and its cycle as `from` where that is known. */
  markPlaces(places) {
    this.marks = places;
    this.redraw();
  }

  takeColors() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colors = ramp(this.scheme.matches);
    this.threadColors = ramps(this.scheme.matches);
    this.ink = Object.fromEntries(["text", "faint", "line", "plot", "accent", "warn", ...KINDS].map((name) => [name, color(name)]));
  }

  recolor() {
    this.takeColors();
    this.repaint();
    this.dispatchEvent(new Event("painted"));
  }

  repaint() {
    for (const tile of [this.tile, this.whole]) tile?.paint(this, this.most);
    this.redraw();
  }

  /** Colours are in proportion to counts, or to their logarithms. */
  scaleBy(isLinear) {
    if (this.isLinear === isLinear) return;
    this.isLinear = isLinear;
    if (!this.tile) return;
    this.repaint();
    this.dispatchEvent(new Event("painted"));
  }

  /** Colours say which thread has most accesses, or do not. */
  colorBy(byThread) {
    if (this.byThread === byThread) return;
    this.byThread = byThread;
    this.tile = this.whole = this.singles = null;
    if (this.process) this.changed(0);
  }

  /** The colour of a thread's number, for a legend. */
  threadColor(number) {
    return style(this.threadColors[Math.min(number, this.threadColors.length - 1)][SINGLE_STEP]);
  }

  /** How many accesses have the last of the colours. */
  get most() {
    return rounded(Math.max(1, this.scale ?? this.tile.facts.most));
  }

  /** The colours are those of another map's, too: so many accesses have the last of them. */
  scaleTo(most) {
    const before = this.most;
    this.scale = most;
    if (this.most !== before) this.repaint();
  }

  resized() {
    const { clientWidth, clientHeight } = this.canvas;
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(clientWidth * ratio);
    this.canvas.height = Math.round(clientHeight * ratio);
    this.layOut();
    if (this.process) this.changed(100);
  }

  /** Where the picture is on the canvas. */
  layOut() {
    const { clientWidth, clientHeight } = this.canvas;
    const context = this.canvas.getContext("2d", IN_MEMORY);
    const wanted = widthOf(context, groupsOf(this.axis?.runs ?? [], this.program));
    const left = Math.ceil(clamp(wanted + 12, FEWEST_LEFT, Math.max(FEWEST_LEFT, MOST_LEFT * clientWidth)));
    this.plot = {
      x: left, y: TOP,
      width: Math.max(1, clientWidth - left - RIGHT),
      height: Math.max(1, clientHeight - TOP - BOTTOM - (this.clock ? TIMES : 0)),
    };
  }

  /** A window of a reasonable size within the bounds. */
  limited({ from, to, top, bottom }) {
    const { bounds } = this;
    const range = (low, high, least, first, end) => {
      const size = clamp(high - low, Math.min(least, end - first), end - first);
      const start = clamp((low + high - size) / 2, first, end - size);
      return [start, start + size];
    };
    [from, to] = range(from, to, FEWEST_MOMENTS, bounds.from, bounds.to);
    const run = this.axis.runs[this.axis.runAt(clamp((top + bottom) / 2, 0, bounds.bottom - 1))];
    [top, bottom] = range(top, bottom, FEWEST_BYTES * run.scale, 0, bounds.bottom);
    return { from, to, top, bottom };
  }

  /** Another window; what is drawn follows, after `wait` milliseconds where an older one is being drawn. */
  move(window, wait = 60) {
    this.window = this.limited(window);
    this.changed(wait);
    this.dispatchEvent(new Event("moved"));
  }

  changed(wait) {
    this.outdated = true;
    this.changes += 1;
    this.redraw();
    clearTimeout(this.pending);
    this.pending = setTimeout(() => this.ask(), this.asking ? wait : 0);
  }

  /** What a tile of the window is asked with. */
  request() {
    const exact = this.toWhole(this.window);
    const { from, to, low, high } = exact;
    const cell = Math.max(1, Math.ceil(Math.sqrt(this.plot.width * this.plot.height / MOST_CELLS)));
    const width = clamp(Math.floor(this.plot.width / cell), 1, Math.min(4096, to - from));
    const bytesThere = Math.max(1, Math.round(this.axis.bytes(exact.top, exact.bottom)));
    const height = clamp(Math.floor(this.plot.height / cell), 1, Math.min(4096, bytesThere));
    return { exact, low, high, width, height };
  }

  /** How many empty cells around it the mark of a cell reaches over, so that it can be seen. */
  reach(tile) {
    const ratio = devicePixelRatio || 1;
    const pixels = ratio * Math.min(this.plot.width / tile.width, this.plot.height / tile.height);
    return Math.max(0, Math.ceil((MARK_PIXELS / pixels - 1) / 2));
  }

  async ask() {
    if (!this.plot || !this.process) return;
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    const { changes } = this;
    const { exact, low, high, width, height } = this.request();
    const parameters = new URLSearchParams({
      process: this.process.process, from: exact.from, to: exact.to,
      low: hexadecimal(low), high: hexadecimal(high), width, height, what: this.what,
    });
    if (this.thread !== null) parameters.set("thread", this.thread);
    if (this.hidesTracer) parameters.set("tracer", "hidden");
    if (this.moments !== CYCLES) parameters.set("axis", this.moments.name);
    if (this.byThread) parameters.set("colors", "threads");
    try {
      const tile = new Tile(await this.fetchTile(parameters, asking.signal), exact, width, height);
      if (asking !== this.asking) return;
      this.tile = tile;
      tile.widen(this.reach(tile));
      tile.paint(this, this.most);
      // The window may be another one by now, whose tile is asked for soon.
      this.outdated = changes !== this.changes;
      const { bounds } = this;
      if (exact.from <= bounds.from && exact.to >= bounds.to && exact.top <= 0 && exact.bottom >= bounds.bottom) this.whole = tile;
      this.asking = null;
      const { facts } = tile;
      this.singles = null;
      this.singling = facts.sum > 0 && facts.sum <= FEW_ACCESSES && facts.waiting + facts.spread + facts.estimated === 0;
      if (this.singling) this.single(new URLSearchParams(parameters), tile, asking.signal);
      this.redraw();
      this.dispatchEvent(new Event("painted"));
      this.outline(parameters, exact, asking.signal);
      // The server counts some frames again, more finely: look again soon.
      if (tile.facts.waiting > 0 && !this.outdated) this.pending = setTimeout(() => this.ask(), 300);
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    }
  }

  /** Asks for the accesses of a tile, one by one. */
  async single(parameters, tile, signal) {
    for (const key of ["width", "height", "tracer", "colors"]) parameters.delete(key);
    try {
      const { accesses } = await this.fetchSingles(parameters, signal);
      if (tile !== this.tile) return;
      const { axis } = this;
      this.singles = accesses.filter(([, start]) => axis.has(BigInt(start))).map(([when, start, size, kind, thread]) => {
        const low = BigInt(start);
        return { when, kind, thread, top: axis.place(low), bottom: axis.place(low + BigInt(size)) };
      });
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    }
    if (tile !== this.tile) return;
    this.singling = false;
    this.redraw();
    this.dispatchEvent(new Event("painted"));
  }

  /** Where a single access is drawn. */
  rectangle({ when, top, bottom }) {
    const least = MARK_PIXELS / (devicePixelRatio || 1);
    const [x, y] = [this.x(when), this.y(top)];
    const [width, height] = [this.x(when + 1) - x, this.y(bottom) - y];
    return [x + Math.min(0, (width - least) / 2), y + Math.min(0, (height - least) / 2), Math.max(width, least), Math.max(height, least)];
  }

  drawSingles(context) {
    const numbers = this.tile.facts.threads;
    const number = (thread) => (numbers.includes(thread) ? numbers.indexOf(thread) : this.threadColors.length - 1);
    for (const single of this.singles) {
      context.fillStyle = numbers ? this.threadColor(number(single.thread)) : this.ink[KINDS[single.kind]];
      context.fillRect(...this.rectangle(single));
    }
  }

  /** The single access that is drawn at a point, the last one above others. */
  singleAt(px, py) {
    return this.singles?.findLast((single) => {
      const [x, y, width, height] = this.rectangle(single);
      return px >= x && px < x + width && py >= y && py < y + height;
    });
  }

  /** Asks for the blocks that are large enough to be outlined. */
  async outline(parameters, { from, to, top, bottom }, signal) {
    const largest = Math.max(...[...this.shownRuns()].map((run) => run.scale));
    parameters.set("least", Math.max(1, Math.ceil(FEWEST_PIXELS * (bottom - top) / this.plot.height / largest)));
    for (const key of ["width", "height", "what", "tracer", "colors"]) parameters.delete(key);
    try {
      const { blocks } = await this.fetchBlocks(parameters, signal);
      const end = this.bounds.to;
      this.blocks = blocks.map((block) => {
        const low = BigInt(block.start), high = low + BigInt(block.bytes);
        return { ...block, low, high, from: block.from, to: block.to ?? end, top: this.axis.place(low), bottom: this.axis.place(high) };
      });
      this.redraw();
    } catch (error) {
      if (error.name !== "AbortError") this.dispatchEvent(new CustomEvent("failed", { detail: error }));
    }
  }

  drawBlocks(context) {
    const { plot, ink } = this;
    context.strokeStyle = ink.faint;
    context.lineWidth = 1;
    context.globalAlpha = 0.7;
    context.beginPath();
    for (const block of this.blocks) {
      const x = Math.max(plot.x - 2, this.x(block.from)), right = Math.min(plot.x + plot.width + 2, this.x(block.to));
      const y = Math.max(plot.y - 2, this.y(block.top)), bottom = Math.min(plot.y + plot.height + 2, this.y(block.bottom));
      if (right - x < FEWEST_PIXELS || bottom - y < FEWEST_PIXELS) continue;
      context.rect(Math.round(x) + 0.5, Math.round(y) + 0.5, Math.round(right - x) - 1, Math.round(bottom - y) - 1);
    }
    context.stroke();
    context.globalAlpha = 1;
  }

  /** Whether what is drawn is what the window shows. */
  get settled() {
    return !this.outdated && !this.singling && this.tile !== null && this.tile.facts.waiting === 0;
  }

  x(when) {
    const { from, to } = this.window;
    return this.plot.x + (when - from) / (to - from) * this.plot.width;
  }

  y(place) {
    const { top, bottom } = this.window;
    return this.plot.y + (place - top) / (bottom - top) * this.plot.height;
  }

  when(x) {
    const { from, to } = this.window;
    return from + (x - this.plot.x) / this.plot.width * (to - from);
  }

  place(y) {
    const { top, bottom } = this.window;
    return top + (y - this.plot.y) / this.plot.height * (bottom - top);
  }

  redraw() {
    if (this.drawn) return;
    this.drawn = true;
    requestAnimationFrame(() => {
      this.drawn = false;
      if (this.plot && this.process) this.draw();
    });
  }

  draw() {
    const context = this.canvas.getContext("2d", IN_MEMORY);
    const ratio = devicePixelRatio || 1;
    const { plot, ink } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.canvas.clientWidth, this.canvas.clientHeight);
    context.save();
    context.beginPath();
    context.rect(plot.x, plot.y, plot.width, plot.height);
    context.clip();
    context.fillStyle = ink.plot;
    context.fillRect(plot.x, plot.y, plot.width, plot.height);
    // Until the tile of a new window comes, the last ones are stretched.
    for (const tile of [this.whole, this.tile]) {
      if (!tile) continue;
      const x = this.x(tile.window.from), y = this.y(tile.window.top);
      const width = this.x(tile.window.to) - x, height = this.y(tile.window.bottom) - y;
      context.imageSmoothingEnabled = false;
      context.fillRect(x, y, width, height);
      if (tile !== this.tile || !this.singles) context.drawImage(tile.image, x, y, width, height);
    }
    if (this.singles) this.drawSingles(context);
    this.drawBlocks(context);
    this.drawMissing(context);
    this.drawRuns(context);
    drawMarks(context, this);
    this.drawSelection(context);
    this.drawAccess(context);
    context.restore();
    this.labels = drawLabels(context, this);
    this.drawTime(context);
    context.strokeStyle = ink.line;
    context.lineWidth = 1;
    context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.width + 1, plot.height + 1);
    // The mouse may rest where something else is drawn now.
    if (this.pointer) this.tellPointed();
  }

  drawMissing(context) {
    const { plot, ink } = this;
    for (const stretch of this.missing) {
      if (stretch.process !== this.process.process || (this.thread !== null && stretch.thread !== this.thread)) continue;
      const x = this.x(stretch.from), width = Math.max(3, this.x(stretch.to) - x);
      if (x > plot.x + plot.width || x + width < plot.x) continue;
      context.save();
      context.beginPath();
      context.rect(x, plot.y, width, plot.height);
      context.clip();
      context.strokeStyle = ink.warn;
      context.globalAlpha = 0.6;
      context.beginPath();
      const first = Math.max(x, plot.x) - plot.height, last = Math.min(x + width, plot.x + plot.width);
      for (let at = Math.floor(first / 7) * 7; at < last; at += 7) {
        context.moveTo(at, plot.y + plot.height);
        context.lineTo(at + plot.height, plot.y);
      }
      context.stroke();
      context.restore();
    }
  }

  drawSelection(context) {
    const shown = this.marked ?? this.selection;
    if (!shown) return;
    const { plot, ink } = this;
    const left = clamp(this.x(shown.from), plot.x - 2, plot.x + plot.width), right = clamp(this.x(shown.to), plot.x, plot.x + plot.width + 2);
    const top = clamp(this.y(shown.top), plot.y - 2, plot.y + plot.height), bottom = clamp(this.y(shown.bottom), plot.y, plot.y + plot.height + 2);
    context.strokeStyle = ink.accent;
    context.lineWidth = 2;
    context.strokeRect(left, top, Math.max(2, right - left), Math.max(2, bottom - top));
    context.fillStyle = ink.accent;
    context.globalAlpha = 0.1;
    context.fillRect(left, top, right - left, bottom - top);
    context.globalAlpha = 1;
  }

  /** A ring around one access, and lines that lead to it. */
  drawAccess(context) {
    if (!this.access) return;
    const { plot, ink } = this;
    const x = this.x(this.access.from), right = this.x(this.access.to), y = this.y(this.access.top), bottom = this.y(this.access.bottom);
    const middle = [(x + right) / 2, (y + bottom) / 2];
    context.strokeStyle = ink.accent;
    context.lineWidth = 1;
    context.setLineDash([3, 4]);
    context.beginPath();
    context.moveTo(plot.x, middle[1]);
    context.lineTo(plot.x + plot.width, middle[1]);
    context.moveTo(middle[0], plot.y);
    context.lineTo(middle[0], plot.y + plot.height);
    context.stroke();
    context.setLineDash([]);
    context.lineWidth = 2;
    const [across, down] = [Math.max(4, (right - x) / 2 + 2), Math.max(4, (bottom - y) / 2 + 2)];
    context.strokeRect(middle[0] - across, middle[1] - down, 2 * across, 2 * down);
  }

  /** Marks one access, or none. */
  mark(access) {
    this.access = access;
    this.redraw();
  }

  /** Moves, without zooming, where a part is not in sight. */
  reveal({ from = this.window.from, to = this.window.to, top, bottom }) {
    const { window } = this;
    const moved = (low, high, first, end) => {
      if (low >= first && high <= end) return [first, end];
      const start = (low + high) / 2 - (end - first) / 2;
      return [start, start + (end - first)];
    };
    const [left, right] = moved(from, to, window.from, window.to), [upper, lower] = moved(top, bottom, window.top, window.bottom);
    if (left !== window.from || upper !== window.top) this.move({ from: left, to: right, top: upper, bottom: lower });
  }

  /** Selects a window, or nothing; it ends at whole cycles, or nanoseconds, and bytes. */
  select(window) {
    this.selection = window && this.toWhole(window);
    this.marked = null;
    this.redraw();
    this.dispatchEvent(new Event("selected"));
  }

  /** A window that ends at whole cycles, or nanoseconds, and bytes, with its addresses. */
  toWhole({ from, to, top, bottom }) {
    from = clamp(Math.floor(from), this.bounds.from, this.bounds.to - 1);
    to = clamp(Math.ceil(to), from + 1, this.bounds.to);
    top = clamp(top, 0, this.bounds.bottom - 1);
    const low = this.axis.address(top);
    let high = this.axis.addressAfter(clamp(bottom, 0, this.bounds.bottom));
    if (high <= low) high = low + 1n;
    return { from, to, low, high, top: this.axis.place(low), bottom: this.axis.place(high) };
  }

  /** The name of the program's file. */
  get program() {
    return this.process?.exe?.split("/").pop();
  }

  /** The runs that are seen. */
  * shownRuns() {
    const { runs } = this.axis;
    for (let number = this.axis.runAt(this.window.top); number < runs.length && runs[number].at < this.window.bottom; number++) {
      yield runs[number];
    }
  }

  drawRuns(context) {
    const { plot, ink } = this;
    context.strokeStyle = ink.line;
    context.lineWidth = 1;
    context.beginPath();
    let last = -10;
    for (const run of this.shownRuns()) {
      const y = Math.round(this.y(run.at)) + 0.5;
      if (y < last + 3) continue;
      last = y;
      context.moveTo(plot.x, y);
      context.lineTo(plot.x + plot.width, y);
    }
    context.stroke();
  }

  drawTime(context) {
    const { plot, ink } = this;
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "top";
    context.fillStyle = ink.faint;
    context.strokeStyle = ink.faint;
    const { from, to } = this.window;
    const y = plot.y + plot.height;
    context.textAlign = "right";
    context.fillText(this.moments.label, plot.x - 10, y + 7);
    if (this.clock) context.fillText("about", plot.x - 10, y + 7 + TIMES);
    context.textAlign = "center";
    context.beginPath();
    const all = ticks(from, to, plot.width / 110);
    for (const tick of all) {
      const x = Math.round(this.x(tick)) + 0.5;
      context.moveTo(x, y);
      context.lineTo(x, y + 5);
      const text = this.moments.tick(tick, all.length > 1 ? all[1] - all[0] : to - from, to - from);
      const half = context.measureText(text).width / 2;
      context.fillText(text, clamp(x, plot.x + half, plot.x + plot.width - half), y + 7);
      if (!this.clock) continue;
      const time = seconds(this.clock.at(tick), (this.clock.at(to) - this.clock.at(from)) / 20);
      const wide = context.measureText(time).width / 2;
      context.fillText(time, clamp(x, plot.x + wide, plot.x + plot.width - wide), y + 7 + TIMES);
    }
    context.stroke();
    context.textAlign = "left";
  }

  /** What is at a point of the picture, in words. */
  wordsAt(x, y) {
    const { plot } = this;
    if (x < plot.x || y < plot.y || x >= plot.x + plot.width || y >= plot.y + plot.height) return "";
    const place = this.place(y), when = this.when(x), length = this.window.to - this.window.from;
    const run = this.axis.runs[this.axis.runAt(place)];
    const words = [this.moments.at(when, length), `${hexadecimal(this.axis.address(place))} in ${!run.kind ? run.name : run.name === `[${run.kind}]` ? run.kind : `${run.name} (${run.kind})`}`];
    const isIn = (block) => block.from <= when && when < block.to && block.top <= place && place < block.bottom;
    const block = this.blocks.findLast(isIn);
    if (block) {
      const until = block.to < this.bounds.to ? ` to ${this.moments.number(block.to, length)}` : " on";
      words.push(`block of ${counted(block.bytes, "byte")} at ${block.start}, from ${this.moments.at(block.from, length)}${until}`);
    }
    const cell = this.cellAt(x, y);
    if (cell) words.push(counted(cell.count, "access", "accesses"));
    if (cell?.thread) words.push(`${cell.count > 1 ? "most " : ""}by ${cell.thread}`);
    return words.join(" \u00b7 ");
  }

  /** Tells what is under the mouse. */
  tellPointed() {
    this.dispatchEvent(new CustomEvent("pointed", { detail: this.pointer ? this.wordsAt(...this.pointer) : "" }));
  }

  /** The cell whose mark is drawn at a point of the picture: its count, its time, and the addresses whose accesses it counts. */
  cellAt(x, y) {
    const { plot, tile } = this;
    if (!tile || x < plot.x || y < plot.y || x >= plot.x + plot.width || y >= plot.y + plot.height) return null;
    const { from, to, top, bottom } = tile.window;
    // An access that is drawn as long as its bytes is counted where it begins.
    const single = this.singleAt(x, y);
    const [when, place] = single ? [single.when, single.top] : [this.when(x), this.place(y)];
    const at = [Math.floor((when - from) / (to - from) * tile.width), Math.floor((place - top) / (bottom - top) * tile.height)];
    if (at[0] < 0 || at[1] < 0 || at[0] >= tile.width || at[1] >= tile.height) return null;
    const { column, row, count, cell } = this.singles ? tile.exactCellAt(...at) : tile.cellAt(...at);
    // As the server divides a window: the first of each part.
    const first = (range, parts, part) => Number((BigInt(range) * BigInt(part) + BigInt(parts) - 1n) / BigInt(parts));
    const moments = [column, column + 1].map((part) => from + first(to - from, tile.width, part));
    const places = [row, row + 1].map((part) => top + first(bottom - top, tile.height, part));
    const { threads } = tile.facts;
    const number = threads && count > 0 ? tile.threadOf(cell) : null;
    const thread = number === null ? null : number < threads.length ? `thread ${threads[number]}` : "other threads";
    return { count, thread, from: moments[0], to: moments[1], low: this.axis.addressFrom(places[0]), high: this.axis.addressAfter(places[1]) };
  }

  /** What a cell stands for, in words. */
  get cellWords() {
    const { from, to, top, bottom } = this.tile.window;
    const size = this.axis.bytes(top, bottom) / this.tile.height;
    const many = (number, words) => `${number < 10 ? Number(number.toPrecision(2)) : short(number)} ${words}`;
    return `${this.moments.length((to - from) / this.tile.width)} \u00d7 ${size < 1024 ? many(size, size === 1 ? "byte" : "bytes") : bytes(size)}`;
  }

  /** Zooms about a point: factors below 1 show less. */
  zoom(time, space, x = this.plot.x + this.plot.width / 2, y = this.plot.y + this.plot.height / 2) {
    const { from, to, top, bottom } = this.window;
    const when = clamp(this.when(x), from, to), place = clamp(this.place(y), top, bottom);
    // At the limit it stands still.
    const run = this.axis.runs[this.axis.runAt(clamp((top + bottom) / 2, 0, this.bounds.bottom - 1))];
    time = Math.max(time, Math.min(1, FEWEST_MOMENTS / (to - from)));
    space = Math.max(space, Math.min(1, FEWEST_BYTES * run.scale / (bottom - top)));
    if (time === 1 && space === 1) return;
    this.move({
      from: when - (when - from) * time, to: when + (to - when) * time,
      top: place - (place - top) * space, bottom: place + (bottom - place) * space,
    });
  }

  /** Moves by parts of the window. */
  pan(time, space) {
    const { from, to, top, bottom } = this.window;
    const across = (to - from) * time, down = (bottom - top) * space;
    this.move({ from: from + across, to: to + across, top: top + down, bottom: bottom + down });
  }

  /** The window between two points of the picture. */
  between(drag, x, y) {
    const [left, right] = [drag.x, x].sort((a, b) => a - b), [top, bottom] = [drag.y, y].sort((a, b) => a - b);
    return this.toWhole({ from: this.when(left), to: this.when(right), top: this.place(top), bottom: this.place(bottom) });
  }

  listen() {
    const { canvas } = this;
    const point = (event) => {
      const box = canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      // Some turn the wheel sideways where Shift is held.
      const turned = Math.abs(event.deltaY) >= Math.abs(event.deltaX) ? event.deltaY : event.deltaX;
      const factor = Math.exp(clamp(turned, -200, 200) / 300);
      this.zoom(event.altKey ? 1 : factor, event.shiftKey ? 1 : factor, ...point(event));
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      canvas.setPointerCapture(event.pointerId);
      const [x, y] = point(event);
      this.drag = { x, y, window: this.window, moved: false, selects: event.shiftKey };
      canvas.focus();
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = point(event);
      const { drag } = this;
      if (drag) {
        drag.moved ||= Math.hypot(x - drag.x, y - drag.y) > 3;
        if (drag.moved && !drag.selects) {
          canvas.classList.add("moving");
          const { from, to, top, bottom } = drag.window;
          const across = (drag.x - x) / this.plot.width * (to - from), down = (drag.y - y) / this.plot.height * (bottom - top);
          this.move({ from: from + across, to: to + across, top: top + down, bottom: bottom + down });
        }
        if (drag.moved && drag.selects) {
          this.marked = this.between(drag, x, y);
          this.redraw();
        }
      }
      this.pointer = [x, y];
      this.tellPointed();
    });
    canvas.addEventListener("pointerleave", () => {
      this.pointer = null;
      this.tellPointed();
    });
    const end = (event) => {
      const { drag } = this;
      this.drag = null;
      canvas.classList.remove("moving");
      if (!drag || event.type !== "pointerup") return;
      const [x, y] = point(event);
      if (drag.moved && drag.selects) this.select(this.between(drag, x, y));
      else if (!drag.moved) this.dispatchEvent(new CustomEvent("clicked", { detail: { x, y } }));
    };
    canvas.addEventListener("pointerup", end);
    canvas.addEventListener("pointercancel", end);
  }
}
