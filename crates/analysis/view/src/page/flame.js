// Who called whom in what is selected: a flame graph, callers above what they called, as wide as their accesses; or the same as rows.

import { CallRows } from "./calls.js";
import { Counting } from "./counting.js";
import { counted, grouped, share } from "./words.js";

const ROW = 19;
/** Deeper calls are reached by a click. */
const MOST_ROWS = 40;

export class FlamePane extends Counting {
  /** In an element; `fetchAnswer(path, signal)` asks the server. */
  constructor(element, fetchAnswer) {
    super(element, fetchAnswer, "flame");
    this.zoomed = null;
    this.calls = new CallRows(this.find("rows"));
    this.find("shape").addEventListener("change", () => {
      this.tell();
      if (this.answer) this.fill();
    });
  }

  /** `graph`; `down` for callers first, `up` for who called a function. */
  get shape() {
    return this.find("shape").value;
  }

  covers({ total }) {
    const words = {
      graph: "Each frame is a function, as wide as the accesses in it and in what it called; a click zooms.",
      down: "Below each function, what it called.",
      up: "Functions by their own accesses; below each, who called it, with the accesses made for that caller.",
    };
    return `${counted(total, "access", "accesses")}. ${words[this.shape]} Calls with less than a 4,000th of them are left out.`;
  }

  fill() {
    const isGraph = this.shape === "graph";
    this.find("frames").hidden = !isGraph;
    this.find("calls").hidden = isGraph;
    this.find("own").textContent = this.shape === "down" ? "its own" : "";
    if (isGraph) this.draw(null); else this.calls.show(this.answer, this.shape);
  }

  /** Draws all frames, or those above and below one. */
  draw(whole) {
    this.zoomed = whole;
    const first = whole?.at ?? 0, total = whole?.total ?? this.answer.total;
    const base = Math.max(0, (whole?.depth ?? 0) - 3);
    let rows = 0;
    const shown = [];
    for (const frame of this.answer.frames) {
      const from = Math.max(frame.at, first), to = Math.min(frame.at + frame.total, first + total);
      const row = frame.depth - base;
      if (row < 0 || row >= MOST_ROWS || (to - from) / total < 0.002) continue;
      rows = Math.max(rows, row + 1);
      const button = document.createElement("button");
      button.className = frame.kind;
      button.textContent = frame.name;
      button.title = `${frame.name}: ${counted(frame.total, "access", "accesses")} (${share(frame.total, this.answer.total)}), ${grouped(frame.own)} in itself`;
      button.setAttribute("aria-label", button.title);
      button.style.left = `${100 * (from - first) / total}%`;
      button.style.width = `${100 * (to - from) / total}%`;
      button.style.top = `${row * ROW}px`;
      button.addEventListener("click", () => this.draw(frame.depth === 0 || frame === this.zoomed ? null : frame));
      shown.push(button);
    }
    const frames = this.find("frames");
    frames.style.height = `${rows * ROW}px`;
    frames.replaceChildren(...shown);
  }
}
