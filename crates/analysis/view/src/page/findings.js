// Findings of the whole run: memory errors, data races, shared cache lines. They are looked for when somebody asks.

import { Counting } from "./counting.js";
import { RowTable, faint } from "./rows.js";
import { LINE, counted, shortPath } from "./words.js";

const SAVED = ["name", "what", "where", "times"];

const line = (place) => (place?.file && place.line ? `${place.file}:${place.line}` : null);
/** The innermost place whose source is the user's. */
const placed = (place) => line(place?.own) ?? line(place);
const functionOf = (place) => place?.own?.function ?? place?.function ?? "";

/** Where a finding was seen first: at that cycle, or at any. */
function seen(first, bytes) {
  if (!first) return null;
  const { process, thread, cycle, addr: start } = first;
  return { process, thread, cycle, start, bytes: Math.max(1, bytes) };
}

/** A finding of each kind as a row. */
const ROWS = {
  errors: (error) => {
    const place = error.access ?? error.allocated;
    return { at: seen(error.first_seen, error.access ? error.bytes : 1), name: error.field ?? error.name, kind: error.kind.replaceAll("_", " "), what: error.what, where: placed(place), code: functionOf(place), times: error.times };
  },
  race: ({ variable, field, len, first, second, times, first_seen: at }) => ({
    at: seen(at, len), name: field ?? variable, kind: "race", what: `${first.kind} by thread ${first.thread} and ${second.kind} by thread ${second.thread} in ${second.function}${line(second) ? ` (${shortPath(line(second))})` : ""}`,
    where: line(first), code: first.function, times,
  }),
  lines: ({ process, address, lines, names, sharing, changes, parts }) => ({
    at: { process, thread: null, start: `0x${address.toString(16)}`, bytes: lines * LINE }, name: names.join(", "), kind: `${sharing} sharing`, what: parts.length > 0 ? `threads ${[...new Set(parts.map((part) => part.thread))].join(", ")}` : "",
    where: line(parts[0]), code: parts[0]?.function ?? "", times: changes,
  }),
};
const HEADINGS = { errors: "times", race: "times", lines: "changes of owner" };

export class FindingsPane extends Counting {
  /** In an element; `fetchAnswer(path, signal)` asks the server. */
  constructor(element, fetchAnswer) {
    super(element, fetchAnswer, "findings");
    this.table = new RowTable(element, [
      { key: "name", words: "name", left: true, cell: (row) => this.named(row) },
      { key: "kind", words: "kind", left: true },
      { key: "what", words: "what", left: true },
      { key: "where", words: "where", left: true, cell: (row) => this.place(row) },
      { key: "times", words: "times" },
    ], ["times", true]);
    this.find("kinds").addEventListener("change", () => this.choose());
    this.find("save").addEventListener("click", () => this.answer && this.table.save(`${this.answer.kind}.csv`, SAVED));
  }

  /** Of a run, whose number the parameters have. */
  show(part) {
    this.part = part;
    super.show({ ...part, parameters: `kind=${this.find("kinds").value}${part.parameters}` });
  }

  /** Where they are on the map, while they are looked at. */
  get marks() {
    return this.isSeen && this.answer && !this.stale ? this.table.all.map(({ at }) => at).filter(Boolean) : [];
  }

  choose() {
    this.show(this.part);
    this.ask();
  }

  covers({ rows, notes }) {
    return `${rows.length === 0 ? "nothing was found." : `${counted(rows.length, "finding")}.`} ${notes.join(" ")}`;
  }

  fill() {
    this.table.rename("times", HEADINGS[this.answer.kind]);
    const { kind, rows, times } = this.answer;
    this.table.show(rows.map(ROWS[kind]).map((row, number) => ({ ...row, at: row.at && { ...row.at, time: times[number] } })));
  }

  /** Its name; a click selects it on the map. */
  named({ name, at }) {
    if (!at) return [name];
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = name || at.start;
    button.title = `Select it on the map: ${counted(at.bytes, "byte")} at ${at.start}`;
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("chosen", { detail: { name: name || at.start, ...at } })));
    return [button];
  }

  /** Where it is in the source, which a click opens. */
  place({ where, code }) {
    if (!where) return [code];
    const button = document.createElement("button");
    button.className = "link";
    button.textContent = shortPath(where);
    button.title = `Show the source: ${where}`;
    button.addEventListener("click", () => this.dispatchEvent(new CustomEvent("lined", { detail: where })));
    return [button, faint(code)];
  }
}
