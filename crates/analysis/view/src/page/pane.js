// The table of what is selected: rows from the server, sorted and searched here.

import { Counting } from "./counting.js";
import { RowTable, faint } from "./rows.js";
import { bytes, counted, grouped, share, shortPath } from "./words.js";

const NAMES = {
  variable: "variable or block", field: "variable and field", type: "type", function: "function", line: "line", process: "process", thread: "thread", page: "page", region: "region",
};
const SAVED = ["name", "region", "loads", "stores", "modifies", "bytes", "size", "things", "line", "module", "owner"];

const accesses = (count) => count.loads + count.stores + count.modifies;

export class TablePane extends Counting {
  /** In an element; `fetchTable(parameters, signal)` gives its rows. */
  constructor(element, fetchTable) {
    super(element, fetchTable);
    this.table = new RowTable(element, [
      { key: "name", words: "name", left: true, cell: (row) => this.name(row) },
      { key: "share", words: "share", value: accesses, cell: (row) => this.share(row) },
      { key: "loads", words: "loads" }, { key: "stores", words: "stores" }, { key: "modifies", words: "modifies" },
      { key: "bytes", words: "bytes accessed" }, { key: "size", words: "size" },
      { key: "things", words: "count", cell: ({ things }) => (things > 1 ? things : "") },
      { key: "region", words: "memory", left: true },
    ], ["share", true]);
    this.find("save").addEventListener("click", () => this.answer && this.table.save(`by-${this.answer.by}.csv`, SAVED));
  }

  /** What the rows cover. */
  covers({ total, more, more_total: rest }) {
    const all = accesses(total), left = accesses(rest);
    const part = this.whole > 0 ? ` (${share(all, this.whole)} of the run\u2019s)` : "";
    const rows = all === 0 ? "" : left === 0 ? "The rows have all of them."
      : `The rows have ${share(all - left, all)} of them; ${counted(more, "row")} with fewer accesses ${more === 1 ? "is" : "are"} left out.`;
    return `${counted(all, "access", "accesses")}${part}, ${bytes(total.bytes)} accessed. ${rows}`;
  }

  fill() {
    this.table.rename("name", NAMES[this.answer.by] ?? "name");
    this.table.show(this.answer.rows);
  }

  share(row) {
    const all = accesses(this.answer.total);
    return all > 0 ? `${(100 * accesses(row) / all).toFixed(1)}\u202f%` : "";
  }

  name(row) {
    const isLine = this.answer.by === "line" && /:\d+$/.test(row.name);
    const where = (row.line || row.module) && row.line !== row.name ? [faint(row.line ?? row.module)] : [];
    return [isLine ? this.lineButton(row.name) : row.name, ...where];
  }

  /** The name of a line, which opens its file. */
  lineButton(name) {
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = shortPath(name);
    button.title = `Show the source with the counts of its lines: ${name}`;
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("lined", { detail: name })));
    return button;
  }
}
