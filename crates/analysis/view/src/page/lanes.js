// Lanes of threads: what each does over the time that is selected. What a row means is told by where it is, not by its colour.

import { step, style } from "./colors.js";
import { Counting } from "./counting.js";
import { CYCLES, momentsOf } from "./moments.js";
import { RowTable } from "./rows.js";
import { counted, grouped } from "./words.js";

/** Columns of time. */
const WIDTH = 800;
const HEIGHT = 43;
/** Where the rows of a lane begin, and how tall they are. */
const ROWS = { accesses: [0, 15], allocations: [17, 5], releases: [23, 5], syncs: [29, 6], locked: [37, 5] };
const SAVED = ["name", "accesses", "allocated", "released", "synchronised", "locked", "missing"];

const sum = (counts) => counts.reduce((sum, count) => sum + count, 0);
const events = (pairs) => sum(pairs.map(([, count]) => count));

export class LanesPane extends Counting {
  /** In an element; `fetchAnswer(path, signal)` asks the server. */
  constructor(element, fetchAnswer) {
    super(element, fetchAnswer, "lanes");
    this.table = new RowTable(element, [
      { key: "name", words: "thread", left: true, cell: (row) => this.thread(row) },
      { key: "lane", words: "over time", left: true, value: ({ first }) => first, cell: (row) => this.lane(row) },
      { key: "accesses", words: "accesses" }, { key: "allocated", words: "allocations" }, { key: "released", words: "releases" },
      { key: "synchronised", words: "synchronisation" },
      { key: "locked", words: CYCLES.lock, cell: ({ locked }) => (locked === "" ? "" : this.moments === CYCLES ? grouped(locked) : this.moments.held(locked)) }, { key: "missing", words: "missing events" },
    ], ["name", false]);
    this.find("save").addEventListener("click", () => this.answer && this.table.save("threads.csv", SAVED));
  }

  /** As others are shown, of a run. */
  show(part) {
    const { colors, ink, isLinear } = part.run.map;
    const recolored = this.colors !== colors || this.isLinear !== isLinear;
    Object.assign(this, { run: part.run, colors, ink, isLinear });
    super.show({ ...part, parameters: `${part.parameters}&width=${WIDTH}` });
    if (recolored && this.answer && !this.stale) this.fill();
  }

  covers({ lanes, more, estimated }) {
    const words = [`${counted(lanes.length, "thread")}, ${counted(sum(lanes.map((lane) => sum(lane.accesses))), "access", "accesses")}.`];
    if (more > 0) words.push(`${counted(more, "thread")} with fewer accesses ${more === 1 ? "is" : "are"} left out.`);
    if (estimated > 0) words.push("Counts at the edges are estimated.");
    if (lanes.length > 1 && this.moments === CYCLES) words.push("Each thread has its own clock.");
    return words.join(" ");
  }

  fill() {
    const { from, to } = this.asked ? this.span : { from: 0, to: 1 };
    const { moments } = this;
    this.table.rename("lane", moments.range(from, to));
    this.table.rename("locked", moments.lock);
    this.most = Math.max(1, ...this.answer.lanes.flatMap((lane) => lane.accesses));
    this.table.show(this.answer.lanes.map((lane) => {
      const missing = this.run.map.missing.filter((gap) => gap.thread === lane.thread && gap.from < to && gap.to > from);
      const first = lane.accesses.findIndex((count) => count > 0);
      return {
        ...lane, first, gaps: missing, name: `thread ${String(lane.thread)}`, accesses: sum(lane.accesses), columns: lane.accesses,
        allocated: events(lane.allocations), released: events(lane.releases), synchronised: events(lane.syncs), locked: lane.locked?.held ?? "", held: lane.locked, missing: sum(missing.map((gap) => gap.count)),
      };
    }));
  }

  /** The axis of what is shown. */
  get moments() {
    return momentsOf(this.asked);
  }

  get span() {
    const given = new URLSearchParams(this.asked);
    return { from: Number(given.get("from")), to: Number(given.get("to")) };
  }

  /** A thread, which is chosen by a click. */
  thread(row) {
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = `${row.name} (tid ${row.tid})`;
    button.title = "Show this thread alone";
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("threaded", { detail: row.thread })));
    return [button];
  }

  lane(row) {
    const canvas = document.createElement("canvas");
    canvas.className = "lane";
    canvas.width = WIDTH;
    canvas.height = HEIGHT;
    const { moments } = this, { from, to } = this.span;
    const at = (column) => moments.number(from + (to - from) * column / row.columns.length, to - from);
    const last = row.columns.findLastIndex((count) => count > 0);
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", row.first < 0 ? `${row.name}: no access here`
      : `${row.name}: accesses from about ${moments === CYCLES ? "cycle " : ""}${at(row.first)} to ${at(last + 1)}, ${counted(row.allocated, "allocation")}, ${counted(row.released, "release")}, ${counted(row.synchronised, "synchronisation")}, ${row.held ? `${moments.held(row.locked)} with a lock held, ` : ""}${counted(row.missing, "missing event")}`);
    const context = canvas.getContext("2d");
    const { ink } = this;
    context.fillStyle = ink.plot;
    context.fillRect(0, 0, WIDTH, HEIGHT);
    const [top, height] = ROWS.accesses;
    const scale = WIDTH / row.columns.length;
    row.columns.forEach((count, column) => {
      if (count === 0) return;
      context.fillStyle = style(this.colors[step(count, this.most, this.isLinear)]);
      context.fillRect(column * scale, top, Math.ceil(scale), height);
    });
    context.fillStyle = ink.text;
    for (const kind of ["allocations", "releases", "syncs"]) {
      const [above, tall] = ROWS[kind];
      const most = Math.max(1, ...row[kind].map(([, count]) => count));
      for (const [column, count] of row[kind]) {
        context.globalAlpha = 0.4 + 0.6 * Math.log1p(count) / Math.log1p(most);
        context.fillRect(column * scale, above, Math.max(2, scale), tall);
      }
    }
    this.drawLocked(context, row.held, to - from);
    context.globalAlpha = 1;
    context.strokeStyle = ink.warn;
    for (const gap of row.gaps) {
      const x = (Math.max(gap.from, from) - from) / (to - from) * WIDTH;
      const width = Math.max(4, (Math.min(gap.to, to) - Math.max(gap.from, from)) / (to - from) * WIDTH);
      context.save();
      context.beginPath();
      context.rect(x, 0, width, HEIGHT);
      context.clip();
      context.beginPath();
      for (let at = x - HEIGHT; at < x + width; at += 5) {
        context.moveTo(at, HEIGHT);
        context.lineTo(at + HEIGHT, 0);
      }
      context.stroke();
      context.restore();
    }
    return [canvas];
  }

  /** When it holds a lock: stronger where it does for more of a column's time. */
  drawLocked(context, held, length) {
    if (!held) return;
    const [above, tall] = ROWS.locked;
    const scale = WIDTH / held.columns;
    context.fillStyle = this.ink.accent;
    for (const [column, count] of held.counts) {
      context.globalAlpha = 0.3 + 0.7 * Math.min(1, count * held.columns / length);
      context.fillRect(column * scale, above, Math.max(1, scale), tall);
    }
  }
}
