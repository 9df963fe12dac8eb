// The calls of a flame graph as a tree of rows: from callers to what they called, or from functions to who called them.

import { faint } from "./rows.js";
import { counted, grouped, share } from "./words.js";

/** Rows below one row, at most. */
const MOST_ROWS = 100;
/** What has such a part of its caller's accesses is unfolded at first, down to so many rows below each other. */
const UNFOLDED = 0.5;
const DEEPEST_UNFOLDED = 12;

/** A row: a function with what it has, and how to find the rows below it. */
const row = (name, total, own, below) => ({ name, total, own, below });
const byTotal = (a, b) => b.total - a.total || (a.name < b.name ? -1 : 1);

/** The frames as a tree: each knows its caller and what it called. */
function linked(frames) {
  const path = [];
  for (const frame of frames) {
    const node = { ...frame, caller: frame.depth > 0 ? path[frame.depth - 1] : null, called: [] };
    node.caller?.called.push(node);
    path[frame.depth] = node;
    path.length = frame.depth + 1;
  }
  return path[0];
}

function* within(node) {
  const open = [node];
  while (open.length > 0) {
    const next = open.pop();
    yield next;
    open.push(...next.called);
  }
}

/** Callers first. */
function topDown(node) {
  return row(node.name, node.total, node.own, () => node.called.map(topDown).sort(byTotal));
}

/** Rows of nodes by name; each node counts as much as was its share of the row below which they stand. */
function grouping(parts) {
  const groups = new Map();
  for (const part of parts) {
    const group = groups.get(part.node.name) ?? groups.set(part.node.name, []).get(part.node.name);
    group.push(part);
  }
  return [...groups].map(([name, parts]) => {
    const total = parts.reduce((sum, { weight }) => sum + weight, 0);
    // The root is not a function, and calls nobody.
    const callers = () => parts.filter(({ node }) => node.caller?.caller).map(({ node, weight }) => ({ node: node.caller, weight }));
    return row(name, total, null, () => grouping(callers()));
  }).sort(byTotal);
}

/** Functions by what they access themselves, and below each who called it. */
function bottomUp(root) {
  const parts = [...within(root)].filter((node) => node.caller && node.own > 0).map((node) => ({ node, weight: node.own }));
  return grouping(parts);
}

export class CallRows {
  /** In the body of a table. */
  constructor(body) {
    this.body = body;
  }

  /** Shows frames of a flame graph: `shape` is `down` or `up`. */
  show({ frames, total }, shape) {
    this.total = total;
    const root = frames.length > 0 ? linked(frames) : null;
    const rows = !root ? [] : shape === "down" ? topDown(root).below() : bottomUp(root);
    this.body.replaceChildren();
    this.add(rows, 0, total, null);
  }

  /** Adds rows behind a line, or at the end. */
  add(rows, depth, whole, behind) {
    for (const entry of rows.slice(0, MOST_ROWS)) {
      const { line, unfold } = this.line(entry, depth);
      behind = this.put(line, behind);
      if (unfold && entry.total >= UNFOLDED * whole && depth < DEEPEST_UNFOLDED) behind = unfold();
    }
    if (rows.length > MOST_ROWS) {
      const line = document.createElement("tr");
      const cell = line.appendChild(document.createElement("th"));
      Object.assign(cell, { className: "left faint", colSpan: 3, textContent: counted(rows.length - MOST_ROWS, "more row") });
      cell.style.paddingLeft = `${depth + 2}em`;
      line.dataset.depth = depth;
      behind = this.put(line, behind);
    }
    return behind;
  }

  /** Puts a line behind another one, or at the end, and gives it back. */
  put(line, behind) {
    if (behind) behind.after(line); else this.body.append(line);
    return line;
  }

  /** A line, and what unfolds it and says which line is then the last one below it. */
  line(entry, depth) {
    const line = document.createElement("tr");
    line.dataset.depth = depth;
    const name = line.appendChild(document.createElement("th"));
    name.scope = "row";
    name.className = "left";
    name.style.paddingLeft = `${depth + 0.5}em`;
    for (const number of [entry.total, entry.own]) {
      const cell = line.appendChild(document.createElement("td"));
      if (number) cell.append(grouped(number), faint(share(number, this.total)));
    }
    const rows = entry.below();
    if (rows.length === 0) {
      name.append("\u2003 ", entry.name);
      return { line, unfold: null };
    }
    const button = name.appendChild(document.createElement("button"));
    button.className = "fold";
    name.append(" ", entry.name);
    const turn = (isOpen) => {
      button.textContent = isOpen ? "\u25be" : "\u25b8";
      button.setAttribute("aria-expanded", isOpen);
      button.setAttribute("aria-label", `${isOpen ? "Fold" : "Unfold"} ${entry.name}`);
    };
    turn(false);
    const unfold = () => {
      turn(true);
      return this.add(rows, depth + 1, entry.total, line);
    };
    button.addEventListener("click", () => {
      if (button.getAttribute("aria-expanded") === "false") {
        unfold();
        return;
      }
      turn(false);
      while (line.nextElementSibling && Number(line.nextElementSibling.dataset.depth) > depth) line.nextElementSibling.remove();
    });
    return { line, unfold };
  }
}
