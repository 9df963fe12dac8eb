// Lifetimes of allocations: a bar a block, from its allocation to its release, the largest first.

import { Counting } from "./counting.js";
import { CYCLES, momentsOf } from "./moments.js";
import { RowTable, faint } from "./rows.js";
import { bytes, counted, shortPath } from "./words.js";

const SAVED = ["name", "line", "start", "bytes", "thread", "from", "to"];

export class LifetimesPane extends Counting {
  /** In an element; `fetchAnswer(path, signal)` asks the server. */
  constructor(element, fetchAnswer) {
    super(element, fetchAnswer, "lifetimes");
    this.table = new RowTable(element, [
      { key: "name", words: "allocated by", left: true, cell: (row) => this.block(row) },
      { key: "bytes", words: "bytes" },
      { key: "life", words: "lifetime", left: true, value: ({ lived }) => lived, cell: (row) => this.bar(row) },
      { key: "from", words: "from cycle", cell: ({ from }) => this.number(from) },
      { key: "to", words: "to cycle", value: ({ until }) => until, cell: (row) => this.release(row) },
      { key: "thread", words: "thread", cell: ({ thread }) => String(thread) },
    ], ["bytes", true]);
    this.find("save").addEventListener("click", () => this.answer && this.table.save("allocations.csv", SAVED));
  }

  covers({ blocks, bytes: all, more, more_bytes: rest, unreleased, unreleased_bytes: left, known }) {
    const number = blocks.length + more;
    if (number === 0) return "no block of the heap lived here.";
    const words = [`${counted(number, "block")} of ${bytes(all)} lived here.`];
    if (more > 0) words.push(`${counted(more, "smaller one")} of ${bytes(rest)} together ${more === 1 ? "is" : "are"} left out.`);
    if (unreleased > 0) words.push(`Of ${counted(unreleased, "block")} of ${bytes(left)} no release was recorded.`);
    if (!known) words.push("Of the run only the first 1\u202f048\u202f576 blocks are known here.");
    return words.join(" ");
  }

  fill() {
    const given = new URLSearchParams(this.asked);
    Object.assign(this, { first: Number(given.get("from")), end: Number(given.get("to")) });
    const { moments } = this;
    this.table.rename("life", moments.range(this.first, this.end));
    for (const key of ["from", "to"]) this.table.rename(key, moments === CYCLES ? `${key} cycle` : key);
    this.table.show(this.answer.blocks.map((block) => {
      const until = block.to ?? Infinity;
      return { ...block, until, lived: until - block.from };
    }));
  }

  /** The axis of what is shown. */
  get moments() {
    return momentsOf(this.asked);
  }

  number(when) {
    return this.moments.number(when, this.end - this.first);
  }

  /** When it was released; of one that another thread released, whose clock is another, by which thread. */
  release({ to, released_by: thread }) {
    if (to !== null) return this.number(to);
    return thread === null ? "none seen" : `by thread ${thread}`;
  }

  /** A block, which is selected by a click. */
  block(row) {
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = row.name;
    button.title = `${counted(row.bytes, "byte")} at ${row.start}: select it on the map`;
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("chosen", { detail: row })));
    return row.line ? [button, faint(shortPath(row.line))] : [button];
  }

  bar(row) {
    const whole = document.createElement("div"), bar = document.createElement("div");
    whole.className = "life";
    const part = (when) => 100 * Math.min(1, Math.max(0, (when - this.first) / (this.end - this.first)));
    bar.style.left = `${part(row.from)}%`;
    bar.style.width = `max(2px, ${part(row.until) - part(row.from)}%)`;
    // Where it goes on beyond what is shown it has no edge; where nobody knows how long, it is dashed.
    bar.classList.toggle("before", row.from < this.first);
    bar.classList.toggle("after", row.to !== null && row.to > this.end);
    bar.classList.toggle("open", row.to === null);
    whole.append(bar);
    whole.setAttribute("role", "img");
    whole.setAttribute("aria-label", `from ${this.moments.at(row.from, this.end - this.first)} ${row.to === null ? "on" : `to ${this.number(row.to)}`}`);
    return [whole];
  }
}
