// Two runs side by side: what grew, what shrank, what is new and what is gone, aligned by name.

import { Counting } from "./counting.js";
import { RowTable, faint } from "./rows.js";
import { counted, grouped, share } from "./words.js";

const NAMES = { variable: "variable or block", field: "field", type: "type", function: "function", stack: "stack" };
const KINDS = {
  all: () => true,
  grew: (row) => row.before > 0 && row.change > 0,
  shrank: (row) => row.after > 0 && row.change < 0,
  new: (row) => row.before === 0,
  gone: (row) => row.after === 0,
};
const SAVED = ["name", "module", "change", "before", "after", "kind"];

const accesses = (count) => count.loads + count.stores + count.modifies;
const signed = (change) => (change === 0 ? "0" : `${change > 0 ? "+" : "\u2212"}${grouped(Math.abs(change))}`);

/** How one number became another, in words that need no colour. */
function growth(before, after) {
  if (before === 0) return after === 0 ? "" : "new";
  if (after === 0) return "gone";
  const part = 100 * (after - before) / before;
  if (part !== 0 && Math.abs(part) < 0.05) return `${part > 0 ? "+" : "\u2212"}${Math.abs(part).toPrecision(1)}\u202f%`;
  return `${part > 0 ? "+" : part < 0 ? "\u2212" : ""}${Math.abs(part) < 1000 ? Math.abs(part).toFixed(1) : grouped(Math.abs(part))}\u202f%`;
}

export class ComparePane extends Counting {
  /** In an element; `fetchAnswer(path, signal)` asks the server. */
  constructor(element, fetchAnswer) {
    super(element, fetchAnswer, "compare");
    this.table = new RowTable(element, [
      { key: "name", words: "name", left: true, cell: ({ name, module }) => [name, ...(module ? [faint(module)] : [])] },
      { key: "change", words: "change", value: ({ change }) => Math.abs(change), cell: ({ change }) => signed(change) },
      { key: "growth", words: "of before", value: ({ before, after }) => after / before, cell: ({ before, after }) => growth(before, after) },
      { key: "before", words: "before" }, { key: "after", words: "after" },
    ], ["change", true]);
    this.find("kind").addEventListener("change", () => this.answer && this.fill());
    this.find("save").addEventListener("click", () => this.answer && this.table.save(`change-by-${this.answer.by}.csv`, SAVED));
  }

  covers({ total, same, more }) {
    const [before, after] = [accesses(total.before), accesses(total.after)];
    const differing = total.rows - same.rows;
    const all = `${counted(before, "access", "accesses")} before, ${grouped(after)} after (${growth(before, after) || "none"}).`;
    if (differing === 0) return `${all} Both access the same things equally often: ${counted(same.rows, "row")}.`;
    const left = more.rows === 0 ? "all of them are here"
      : `${grouped(more.rows)} that changed less, with ${share(accesses(more.after) + accesses(more.before), before + after)} of the accesses, are left out`;
    return `${all} ${counted(differing, "row differs", "rows differ")}, ${left}; ${counted(same.rows, "row is", "rows are")} the same, with ${counted(accesses(same.after), "access", "accesses")} each time.`;
  }

  fill() {
    this.table.rename("name", NAMES[this.answer.by] ?? "name");
    const rows = this.answer.rows.map(({ name, module, before, after }) => {
      const row = { name, module, before: accesses(before), after: accesses(after) };
      row.change = row.after - row.before;
      row.kind = ["new", "gone", "grew", "shrank"].find((kind) => KINDS[kind](row)) ?? "other";
      return row;
    });
    this.table.show(rows.filter(KINDS[this.find("kind").value]));
  }
}
