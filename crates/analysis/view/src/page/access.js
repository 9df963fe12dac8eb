// One access after the other: the one that was clicked on, and the next and previous ones to the same bytes.

import { hexadecimal } from "./axis.js";
import { CYCLES } from "./moments.js";
import { counted, grouped } from "./words.js";

export class AccessWalk {
  /** On the map that it is given as `map`; what is found is told in `element`; `ask(path, signal)` asks the server. */
  constructor(element, ask) {
    Object.assign(this, { map: null, element, ask, asking: null, found: null });
    this.asker = crypto.getRandomValues(new Uint32Array(1))[0];
    this.words = element.querySelector("p");
    element.querySelector("#next").addEventListener("click", () => this.go("next"));
    element.querySelector("#previous").addEventListener("click", () => this.go("previous"));
  }

  forget() {
    this.asking?.abort();
    this.asking = this.found = null;
    this.element.hidden = true;
    this.map?.mark(null);
  }

  /** The first access of those that the cell at a point of the picture counts. */
  begin(x, y) {
    const { map } = this;
    const cell = map.cellAt(x, y);
    if (!cell) return;
    if (cell.count === 0) {
      this.forget();
      this.element.hidden = false;
      this.words.textContent = "There is no access here.";
      return;
    }
    const { low, high, from, to } = cell;
    this.look({ low, high, from, to, at: from, way: "next", begins: 1, what: map.what }, cell);
  }

  /** The nearest one to the same bytes. */
  go(way) {
    const { found } = this;
    if (!found) return;
    const low = BigInt(found.addr);
    this.look({ low, high: low + BigInt(found.bytes), at: found.at, way, of: found.thread, entry: found.entry });
  }

  async look({ low, high, ...rest }, cell = null) {
    const { map } = this;
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    const parameters = new URLSearchParams({ process: map.process.process, low: hexadecimal(low), high: hexadecimal(high), asker: this.asker, ...rest });
    if (map.thread !== null) parameters.set("thread", map.thread);
    if (map.moments !== CYCLES) parameters.set("axis", map.moments.name);
    this.element.hidden = false;
    this.words.textContent = "Looking for it \u2026";
    try {
      const { found, writer } = await this.ask(`access?${parameters}`, asking.signal);
      if (asking !== this.asking) return;
      this.tell(found, writer, rest.way, cell);
    } catch (error) {
      if (error.name === "AbortError" || asking !== this.asking) return;
      this.words.textContent = error.message;
    }
    this.asking = null;
  }

  /** Whether nothing is looked for. */
  get settled() {
    return this.asking === null;
  }

  tell(found, writer, way, cell) {
    if (!found && cell) {
      const which = cell.count === 1 ? "The access that is counted here is" : `The ${counted(cell.count, "access", "accesses")} that are counted here are`;
      this.words.textContent = `${which} somewhere on this page and near this ${this.map.moments.one}: zoom in to see single ones.`;
      return;
    }
    if (!found) {
      this.words.textContent = `There is no access to these bytes ${way === "next" ? "after that" : "before that"}.`;
      return;
    }
    this.found = found;
    const by = ({ function: name, line }) => (name ? ` by ${name}${line ? ` (${line})` : ""}` : "");
    const several = this.map.thread === null && this.map.threads > 1;
    const words = [
      ...(cell && cell.count > 1 ? [`The first of ${counted(cell.count, "access", "accesses")} here.`] : []),
      `${this.map.moments.access(found, this.map.window.to - this.map.window.from)}${several ? ` of thread ${found.thread}` : ""}: ${found.kind} of ${counted(found.bytes, "byte")}`,
      `at ${found.addr}, ${found.variable}${found.allocated ? ` (allocated at ${found.allocated})` : ""},${by(found)}.`,
      writer ? `Written before that at cycle ${grouped(writer.cycle)}${by(writer)}.` : "Not written before that by a recorded access of this thread.",
    ];
    this.words.textContent = words.join(" ");
    const low = BigInt(found.addr), { map } = this;
    const [top, bottom] = [low, low + BigInt(found.bytes)].map((address) => map.axis.place(address));
    map.mark({ from: found.at, to: found.at + 1, top, bottom });
    map.reveal({ from: found.at, to: found.at + 1, top, bottom });
  }
}
