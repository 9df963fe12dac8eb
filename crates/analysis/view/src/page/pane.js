// The table of what is selected: rows from the server, sorted and searched here.

import { bytes, counted, grouped } from "./words.js";

const COLUMNS = [
  ["name", "name", true], ["share", "share", false], ["loads", "loads", false], ["stores", "stores", false],
  ["modifies", "modifies", false], ["bytes", "bytes accessed", false], ["size", "size", false], ["things", "count", false],
  ["region", "memory", true],
];
const NAMES = {
  variable: "variable or block", field: "variable and field", function: "function", line: "line", thread: "thread", page: "page", region: "region",
};
/** Rows in the page at most: what is searched for is found in all of them. */
const MOST_SHOWN = 300;

const accesses = (count) => count.loads + count.stores + count.modifies;

export class TablePane extends EventTarget {
  /** In an element; `fetchTable(parameters, signal)` gives its rows. */
  constructor(element, fetchTable) {
    super();
    Object.assign(this, { element, fetchTable, answer: null, sort: ["share", true], asking: null, ran: null });
    this.asker = crypto.getRandomValues(new Uint32Array(1))[0];
    this.find = (name) => element.querySelector(`.${name}`);
    this.find("search").addEventListener("input", () => this.fill());
    this.find("save").addEventListener("click", () => this.save());
    this.find("count").addEventListener("click", () => this.ask());
    const head = this.find("head");
    for (const [key, words, left] of COLUMNS) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.dataset.key = key;
      if (left) cell.classList.add("left");
      const button = document.createElement("button");
      button.textContent = words;
      button.addEventListener("click", () => {
        this.sort = [key, this.sort[0] === key ? !this.sort[1] : !left];
        this.fill();
      });
      cell.append(button);
      head.append(cell);
    }
  }

  /** What is to be counted: at once where that is soon done. */
  show({ parameters, by, words, whole, soon }) {
    const asked = `${parameters}&by=${by}`;
    Object.assign(this, { by, words, whole });
    if (asked !== this.asked) {
      this.asking?.abort();
      clearTimeout(this.later);
      Object.assign(this, { asked, asking: null, later: null, failed: null, stale: true });
    }
    this.tell();
    if (soon && this.stale && !this.asking && !this.failed) this.later ??= setTimeout(() => this.ask(), 250);
  }

  async ask() {
    this.asking?.abort();
    this.later = null;
    const asking = this.asking = new AbortController();
    const asked = this.asked;
    this.tell();
    try {
      const answer = await this.fetchTable(`${asked}&asker=${this.asker}`, asking.signal);
      if (asking !== this.asking) return;
      this.answer = answer;
      this.stale = false;
      this.failed = null;
    } catch (error) {
      if (error.name === "AbortError" || asking !== this.asking) return;
      this.failed = error.message;
    }
    this.asking = null;
    this.fill();
    if (this.answer && !this.failed) this.dispatchEvent(new Event("filled"));
  }

  /** Whether the rows are those of what is selected. */
  get settled() {
    return this.asking === null && !this.stale;
  }

  /** What the rows cover. */
  tell() {
    const { answer } = this;
    let words = `${this.words}: `;
    this.find("count").hidden = !this.stale || this.asking !== null;
    if (this.asking) words += "counting \u2026";
    else if (this.failed) words += this.failed;
    else if (this.stale || !answer) words += "not counted yet.";
    else {
      const all = accesses(answer.total), rest = accesses(answer.more_total);
      const part = this.whole > 0 ? ` (${Number((100 * all / this.whole).toPrecision(3))}\u202f% of the run\u2019s)` : "";
      words += `${counted(all, "access", "accesses")}${part}, ${bytes(answer.total.bytes)} accessed. `;
      words += all === 0 ? "" : rest === 0 ? "The rows have all of them."
        : `The rows have ${Number((100 * (all - rest) / all).toPrecision(3))}\u202f% of them; ${counted(answer.more, "row")} with fewer accesses ${answer.more === 1 ? "is" : "are"} left out.`;
    }
    this.find("covers").textContent = words;
    this.element.classList.toggle("stale", Boolean(this.stale));
  }

  sorted() {
    const [key, down] = this.sort;
    const value = (row) => (key === "share" ? accesses(row) : row[key]);
    const wanted = this.find("search").value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.answer.rows.filter((row) => {
      const text = `${row.name} ${row.line ?? ""} ${row.module}`.toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
    const sign = down ? -1 : 1;
    return rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return (x < y ? -sign : x > y ? sign : 0) || (a.name < b.name ? -1 : 1);
    });
  }

  fill() {
    this.tell();
    if (!this.answer) return;
    const [key, down] = this.sort;
    for (const cell of this.find("head").children) {
      cell.setAttribute("aria-sort", cell.dataset.key === key ? (down ? "descending" : "ascending") : "none");
      if (cell.dataset.key === "name") cell.firstChild.textContent = NAMES[this.answer.by] ?? "name";
    }
    const rows = this.sorted();
    const all = accesses(this.answer.total);
    this.find("rows").replaceChildren(...rows.slice(0, MOST_SHOWN).map((row) => {
      const line = document.createElement("tr");
      const texts = {
        ...row,
        name: row.name,
        share: all > 0 ? `${(100 * accesses(row) / all).toFixed(1)}\u202f%` : "",
        size: row.size > 0 ? grouped(row.size) : "",
        things: row.things > 1 ? grouped(row.things) : "",
      };
      for (const [column, , left] of COLUMNS) {
        const cell = document.createElement(column === "name" ? "th" : "td");
        if (column === "name") cell.scope = "row";
        if (left) cell.classList.add("left");
        const text = texts[column];
        cell.textContent = typeof text === "number" ? (text > 0 ? grouped(text) : "") : text;
        if (column === "name" && this.answer.by === "line" && /:\d+$/.test(text)) cell.replaceChildren(this.lineButton(text));
        if (column === "name" && (row.line || row.module) && row.line !== row.name) {
          const where = document.createElement("span");
          where.className = "faint";
          where.textContent = ` ${row.line ?? row.module}`;
          cell.append(where);
        }
        line.append(cell);
      }
      return line;
    }));
    const hidden = rows.length - MOST_SHOWN;
    this.find("rest").textContent = rows.length === 0 && this.find("search").value ? "No row has that."
      : hidden > 0 ? `${counted(hidden, "more row")}: search, or save as CSV.` : "";
  }

  /** The name of a line, which opens its file. */
  lineButton(name) {
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = name;
    button.title = "Show the source with the counts of its lines";
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("lined", { detail: name })));
    return button;
  }

  /** All rows as a file of comma-separated values. */
  save() {
    if (!this.answer) return;
    const keys = ["name", "region", "loads", "stores", "modifies", "bytes", "size", "things", "line", "module", "owner"];
    const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
    const lines = [keys.join(","), ...this.sorted().map((row) => keys.map((key) => quoted(String(row[key] ?? ""))).join(","))];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    link.download = `by-${this.answer.by}.csv`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}
