// Types of the whole run: how much each is accessed, and for one of them its fields on the cache lines that they lie on.

import { Counting } from "./counting.js";
import { RowTable } from "./rows.js";
import { accesses as accessesOf } from "./run.js";
import { LINE, bytes, counted, grouped, share } from "./words.js";

const SAVED = ["name", "bytes", "blocks", "accesses", "advice"];
/** Lines that are drawn of a type. */
const MOST_LINES = 16;
const ROW = 22;
/** A field with such a part of the type's accesses is hot. */
const HOT = 0.1;

/** What is drawn on the lines: parts of fields and holes, each on one line. */
function pieces({ fields, holes }) {
  const all = [...fields.map((field) => ({ ...field, accesses: accessesOf(field) })), ...holes.map((hole) => ({ ...hole, isHole: true }))];
  const cut = [];
  for (const one of all) {
    const end = one.offset + one.size;
    for (let from = one.offset; from < end;) {
      const line = Math.floor(from / LINE), to = Math.min(end, (line + 1) * LINE);
      cut.push({ ...one, line, from, to, whole: one });
      from = to;
    }
  }
  return cut.sort((a, b) => a.from - b.from || b.to - a.to);
}

export class TypesPane extends Counting {
  /** In an element; `fetchAnswer(path, signal)` asks the server. */
  constructor(element, fetchAnswer) {
    super(element, fetchAnswer, "findings");
    this.table = new RowTable(element, [
      { key: "name", words: "type", left: true, cell: (row) => this.link(row) },
      { key: "bytes", words: "bytes" },
      { key: "blocks", words: "objects" },
      { key: "accesses", words: "accesses" },
      { key: "advice", words: "advice", left: true, cell: (row) => row.first },
    ], ["accesses", true]);
    this.find("save").addEventListener("click", () => this.answer && this.table.save("types.csv", SAVED));
  }

  /** Of a run, whose number the parameters have. */
  show(part) {
    super.show({ ...part, parameters: `kind=layout${part.parameters}` });
  }

  covers({ rows, notes }) {
    return `${rows.length === 0 ? "no type is known." : `${counted(rows.length, "type")}.`} ${notes.join(" ")}`;
  }

  fill() {
    const rows = this.answer.rows.map((type) => ({
      name: type.type, bytes: type.bytes, blocks: type.objects, accesses: type.accesses,
      advice: type.advice.join("; "), first: type.advice[0]?.replaceAll("`", "") ?? "", type,
    }));
    this.table.show(rows);
    if (rows.length > 0) this.draw(this.table.sorted()[0]?.type ?? rows[0].type); else this.find("lines").replaceChildren();
  }

  link({ name, type }) {
    const button = document.createElement("button");
    Object.assign(button, { className: "link", textContent: name, title: "Show its fields on cache lines" });
    button.addEventListener("click", () => this.draw(type));
    return button;
  }

  /** Draws the fields of a type on its cache lines. */
  draw(type) {
    this.drawn = type;
    const head = document.createElement("p");
    const shown = Math.min(MOST_LINES, Math.ceil(type.bytes / LINE));
    const rest = Math.ceil(type.bytes / LINE) - shown;
    head.textContent = `${type.type}: ${bytes(type.bytes)}, ${counted(type.objects, "object")}, ${counted(type.accesses, "access", "accesses")}. `
      + `Each row is a cache line of ${LINE} bytes, counted from the beginning of the object.${rest > 0 ? ` ${counted(rest, "more line")} are not drawn.` : ""}`;
    const lines = Array.from({ length: shown }, (_, line) => this.line(type, line));
    for (const piece of pieces(type)) if (piece.line < shown) this.place(lines[piece.line], piece, type);
    this.find("lines").replaceChildren(head, ...lines.map(({ element }) => element));
  }

  line(type, line) {
    const element = document.createElement("div");
    element.className = "line";
    const label = element.appendChild(document.createElement("span"));
    const accesses = type.lines.find((one) => one.line === line)?.accesses ?? 0;
    label.textContent = `${line * LINE}`;
    label.title = `Bytes ${line * LINE} to ${(line + 1) * LINE - 1}: ${counted(accesses, "access", "accesses")}`;
    const strip = element.appendChild(document.createElement("div"));
    strip.className = "strip";
    return { element, strip, ends: [] };
  }

  /** Puts a part of a field on its line; what shares bytes with others, in a union, gets a row below them. */
  place({ strip, ends }, { line, from, to, name, isHole, accesses, whole, type: typeName }, type) {
    let row = ends.findIndex((end) => end <= from);
    if (row < 0) row = ends.push(0) - 1;
    ends[row] = to;
    const piece = strip.appendChild(document.createElement("div"));
    const part = type.accesses > 0 ? accesses / type.accesses : 0;
    piece.className = isHole ? "hole" : accesses === 0 ? "unused" : part >= HOT ? "hot" : "used";
    piece.textContent = isHole ? "" : name;
    piece.title = isHole ? `${counted(whole.size, "byte")} at ${whole.offset} that no field has`
      : `${name}${typeName ? `: ${typeName}` : ""}, ${counted(whole.size, "byte")} at ${whole.offset}: ${grouped(whole.loads)} loads, ${grouped(whole.stores)} stores, `
        + `${grouped(whole.modifies)} modifies (${share(accesses, Math.max(1, type.accesses))})`;
    piece.style.left = `${100 * (from - line * LINE) / LINE}%`;
    piece.style.width = `${100 * (to - from) / LINE}%`;
    piece.style.top = `${row * ROW}px`;
    strip.style.height = `${ends.length * ROW}px`;
  }
}
