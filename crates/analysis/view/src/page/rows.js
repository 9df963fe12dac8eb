// Rows that are sorted by a click on a heading, searched, and saved as comma-separated values: what all tables of the page have in common.

import { counted, grouped } from "./words.js";

/** Rows in the page at most: what is searched for is found in all of them. */
const MOST_SHOWN = 300;

/** A value as a file of comma-separated values has it. */
const quoted = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);

export class RowTable {
  /**
   * In an element with `.head`, `.rows`, `.rest`, and perhaps `.search`. A column has a key, the words of its heading, `left` where it is text, and
   * where the row's value of that key is not what is sorted by and shown: `value(row)`, `cell(row)` (a text or nodes).
   */
  constructor(element, columns, sort) {
    Object.assign(this, { columns, sort, all: [] });
    this.find = (name) => element.querySelector(`.${name}`);
    this.find("search")?.addEventListener("input", () => this.fill());
    for (const { key, words, left } of columns) {
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
      this.find("head").append(cell);
    }
  }

  /** Another heading for a column. */
  rename(key, words) {
    this.find("head").querySelector(`[data-key="${key}"]`).firstChild.textContent = words;
  }

  show(rows) {
    this.all = rows;
    this.fill();
  }

  /** What is searched for. */
  get wanted() {
    return this.find("search")?.value.trim() ?? "";
  }

  sorted() {
    const [key, down] = this.sort;
    const column = this.columns.find((column) => column.key === key);
    const value = column.value ?? ((row) => row[key]);
    const wanted = this.wanted.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.all.filter((row) => {
      const text = `${row.name} ${row.line ?? ""} ${row.module ?? ""}`.toLowerCase();
      return wanted.every((word) => text.includes(word));
    });
    const sign = down ? -1 : 1;
    return rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      return (x < y ? -sign : x > y ? sign : 0) || (a.name < b.name ? -1 : 1);
    });
  }

  fill() {
    const [key, down] = this.sort;
    for (const cell of this.find("head").children) {
      cell.setAttribute("aria-sort", cell.dataset.key === key ? (down ? "descending" : "ascending") : "none");
    }
    const rows = this.sorted();
    this.find("rows").replaceChildren(...rows.slice(0, MOST_SHOWN).map((row) => this.line(row)));
    const hidden = rows.length - MOST_SHOWN;
    this.find("rest").textContent = rows.length === 0 && this.wanted ? "No row has that."
      : hidden > 0 ? `${counted(hidden, "more row")}: search, or save as CSV.` : "";
  }

  line(row) {
    const line = document.createElement("tr");
    for (const { key, left, cell: content } of this.columns) {
      const cell = document.createElement(key === "name" ? "th" : "td");
      if (key === "name") cell.scope = "row";
      if (left) cell.classList.add("left");
      const shown = content ? content(row) : row[key];
      cell.append(...[typeof shown === "number" ? (shown > 0 ? grouped(shown) : "") : shown ?? ""].flat());
      line.append(cell);
    }
    return line;
  }

  /** All rows that the search leaves, as a file with these keys. */
  save(name, keys) {
    const lines = [keys.join(","), ...this.sorted().map((row) => keys.map((key) => quoted(String(row[key] ?? ""))).join(","))];
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}

/** A text that is less important than what stands before it. */
export function faint(text) {
  const span = document.createElement("span");
  span.className = "faint";
  span.textContent = ` ${text}`;
  return span;
}
