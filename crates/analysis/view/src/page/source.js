// A source file with the accesses of each line, in the selection.

import { counted, grouped } from "./words.js";

/** Lines around those with accesses. */
const AROUND = 8;
const COLUMNS = [["loads", "loads"], ["stores", "stores"], ["modifies", "modifies"], ["line", "line"], ["", "source"]];

const accesses = (row) => row.loads + row.stores + row.modifies;

export class SourcePane {
  /** In an element; `fetchSource(parameters)` gives a file's lines. */
  constructor(element, fetchSource) {
    Object.assign(this, { element, fetchSource, file: null, files: new Map() });
    this.find = (name) => element.querySelector(`.${name}`);
    this.find("close").addEventListener("click", () => this.close());
  }

  close() {
    this.file = null;
    this.element.hidden = true;
  }

  /** Shows the file of `file:line` with the counts of a table by line. */
  async open(name, rows) {
    const [, file, line] = /^(.*):(\d+)$/.exec(name) ?? [];
    if (!file) return;
    this.file = file;
    this.element.hidden = false;
    this.find("named").textContent = file;
    if (!this.files.has(file)) {
      this.tell("Reading \u2026");
      try {
        const { lines } = await this.fetchSource(String(new URLSearchParams({ file })));
        this.files.set(file, lines);
      } catch (error) {
        if (this.file === file) this.tell(error.message);
        return;
      }
    }
    if (this.file === file) this.fill(rows, Number(line));
  }

  tell(words) {
    this.find("covers").textContent = words;
    this.find("rows").replaceChildren();
  }

  /** Another table came. */
  update(by, rows) {
    if (this.file === null) return;
    if (by !== "line") this.close();
    else if (this.files.has(this.file)) this.fill(rows, null);
  }

  fill(rows, wanted) {
    const lines = this.files.get(this.file);
    const counts = new Map();
    let all = 0;
    for (const row of rows) {
      const [, file, line] = /^(.*):(\d+)$/.exec(row.name) ?? [];
      if (file !== this.file) continue;
      counts.set(Number(line), row);
      all += accesses(row);
    }
    this.tell(`${counted(counts.size, "line")} with ${counted(all, "access", "accesses")} in the selection.`);
    const shown = new Set();
    for (const line of [...counts.keys(), wanted ?? 1]) {
      for (let near = line - AROUND; near <= line + AROUND; near++) if (near >= 1 && near <= lines.length) shown.add(near);
    }
    const most = Math.max(1, ...[...counts.values()].map(accesses));
    let before = 0, target = null;
    const all_lines = [...shown].sort((a, b) => a - b).map((number) => {
      const row = counts.get(number), line = document.createElement("tr");
      for (const [key] of COLUMNS) {
        const cell = document.createElement("td");
        const value = key === "line" ? number : key ? row?.[key] : lines[number - 1].replaceAll("\t", "    ");
        cell.textContent = key === "" ? value : value > 0 ? (key === "line" ? value : grouped(value)) : "";
        if (key === "") cell.className = "code left";
        line.append(cell);
      }
      // The more accesses, the more of the accent's colour.
      if (row) line.style.setProperty("--heat", `${Math.round(8 + 32 * Math.log1p(accesses(row)) / Math.log1p(most))}%`);
      if (row) line.className = "hot";
      if (number !== before + 1 && before > 0) line.classList.add("after-gap");
      before = number;
      if (number === wanted) target = line;
      return line;
    });
    this.find("rows").replaceChildren(...all_lines);
    if (target) {
      target.classList.add("wanted");
      target.scrollIntoView({ block: "center" });
    }
  }
}
