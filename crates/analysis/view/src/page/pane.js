// The table of what is selected: rows from the server, sorted and searched here.

import { Counting } from "./counting.js";
import { RowTable, faint } from "./rows.js";
import { bytes, counted, grouped, share, shortPath } from "./words.js";

const NAMES = {
  variable: "variable or block", field: "variable and field", type: "type", function: "function", line: "line", process: "process", thread: "thread", page: "page", region: "region",
};
/** Whose rows are folded into one, as few look for them. */
const FOLDED = { linker: "[dynamic loader]", memtap: "[memtap]" };
const SAVED = ["name", "region", "loads", "stores", "modifies", "bytes", "size", "things", "line", "module", "owner"];

const accesses = (count) => count.loads + count.stores + count.modifies;

/** Whether the name of a block ends with the line that allocated it. */
const isCalledByLine = ({ name, line }) => line && name.endsWith(` at ${line.slice(line.lastIndexOf("/") + 1)}`);

/** The name of a row: of a long one what the server made of it, and all of it where the mouse is. */
function named({ name, short, line }) {
  if (!short && !line) return name;
  const span = document.createElement("span");
  span.textContent = short ?? name;
  span.title = [name, line].filter(Boolean).join("\n");
  return span;
}

export class TablePane extends Counting {
  /** In an element; `fetchAnswer(path, signal)` asks the server. */
  constructor(element, fetchAnswer) {
    super(element, fetchAnswer, "table");
    this.unfolded = new Set();
    this.table = new RowTable(element, [
      { key: "name", words: "name", left: true, cell: (row) => this.name(row) },
      { key: "share", words: "share", value: accesses, cell: (row) => this.share(row) },
      { key: "loads", words: "loads" }, { key: "stores", words: "stores" }, { key: "modifies", words: "modifies" },
      { key: "bytes", words: "bytes accessed" }, { key: "size", words: "size" },
      { key: "things", words: "count", cell: ({ things }) => (things > 1 ? things : "") },
      { key: "region", words: "memory", left: true },
    ], ["share", true]);
    this.find("save").addEventListener("click", () => this.answer && this.save());
    // What is searched for may be in a row that is folded.
    this.find("search").addEventListener("input", () => this.answer && this.fill());
  }

  /** Every row that the search leaves, none folded. */
  save() {
    const shown = this.table.all;
    this.table.all = this.answer.rows;
    this.table.save(`by-${this.answer.by}.csv`, SAVED);
    this.table.all = shown;
  }

  /** What the rows cover. */
  covers({ total, more, more_total: rest, note }) {
    const all = accesses(total), left = accesses(rest);
    const part = this.whole > 0 ? ` (${share(all, this.whole)} of the run\u2019s)` : "";
    const rows = all === 0 ? "" : left === 0 ? "The rows have all of them."
      : `The rows have ${share(all - left, all)} of them; ${counted(more, "row")} with fewer accesses ${more === 1 ? "is" : "are"} left out.`;
    return `${counted(all, "access", "accesses")}${part}, ${bytes(total.bytes)} accessed. ${rows} ${note ?? ""}`.trimEnd();
  }

  fill() {
    this.table.rename("name", NAMES[this.answer.by] ?? "name");
    this.table.show(this.folded(this.answer.rows));
  }

  /** Rows of the dynamic loader and of memtap itself as one each, unless they are searched or unfolded. */
  folded(rows) {
    const isFolded = ({ owner }) => owner in FOLDED && !this.unfolded.has(owner) && !this.table.wanted;
    const sums = Object.entries(FOLDED).flatMap(([owner, name]) => {
      const of = rows.filter((row) => row.owner === owner && isFolded(row));
      if (of.length < 2) return of;
      const sum = (key) => of.reduce((sum, row) => sum + row[key], 0);
      return [{ name, folded: of.length, owner, loads: sum("loads"), stores: sum("stores"), modifies: sum("modifies"), bytes: sum("bytes"), size: sum("size"), things: 1, region: "" }];
    });
    return [...rows.filter((row) => !isFolded(row)), ...sums];
  }

  share(row) {
    const all = accesses(this.answer.total);
    return all > 0 ? `${(100 * accesses(row) / all).toFixed(1)}\u202f%` : "";
  }

  name(row) {
    if (row.folded) return [row.name, " ", this.unfoldButton(row)];
    const isLine = this.answer.by === "line" && /:\d+$/.test(row.name);
    const where = (row.line || row.module) && row.line !== row.name && !isCalledByLine(row) ? [faint(row.line ?? row.module)] : [];
    return [isLine ? this.lineButton(row.name) : named(row), ...where];
  }

  /** Shows the rows that one stands for. */
  unfoldButton({ folded, owner }) {
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = `show its ${counted(folded, "row")}`;
    button.addEventListener("click", () => {
      this.unfolded.add(owner);
      this.fill();
    });
    return button;
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
