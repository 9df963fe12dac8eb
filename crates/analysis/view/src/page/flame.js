// The flame graph of what is selected: callers above what they called, as wide as their accesses.

import { counted, grouped } from "./words.js";

const ROW = 19;
/** Deeper calls are reached by a click. */
const MOST_ROWS = 40;

export class FlamePane {
  /** In an element; `fetchFlame(parameters, signal)` gives its frames. */
  constructor(element, fetchFlame) {
    Object.assign(this, { element, fetchFlame, answer: null, asking: null, whole: null });
    this.asker = crypto.getRandomValues(new Uint32Array(1))[0];
    this.find = (name) => element.querySelector(`.${name}`);
    this.find("draw").addEventListener("click", () => this.ask());
    element.addEventListener("toggle", () => this.perhaps());
  }

  /** What is to be drawn: at once where that is soon done. */
  show({ parameters, soon }) {
    this.soon = soon;
    if (parameters !== this.asked) {
      this.asking?.abort();
      Object.assign(this, { asked: parameters, asking: null, failed: null, stale: true });
    }
    this.tell();
    this.perhaps();
  }

  perhaps() {
    if (!this.element.open || !this.soon || !this.stale || this.asking || this.failed) return;
    clearTimeout(this.later);
    this.later = setTimeout(() => this.stale && !this.asking && this.ask(), 250);
  }

  async ask() {
    this.asking?.abort();
    const asking = this.asking = new AbortController();
    this.tell();
    try {
      const answer = await this.fetchFlame(`${this.asked}&asker=${this.asker}`, asking.signal);
      if (asking !== this.asking) return;
      Object.assign(this, { answer, stale: false, whole: null });
    } catch (error) {
      if (error.name === "AbortError" || asking !== this.asking) return;
      this.failed = error.message;
    }
    this.asking = null;
    this.tell();
    if (!this.failed) this.draw(null);
  }

  /** Whether the picture is that of what is selected. */
  get settled() {
    return this.asking === null && !this.stale;
  }

  tell() {
    const { answer } = this;
    this.find("draw").hidden = !this.stale || this.asking !== null;
    this.find("covers").textContent = this.asking ? "Counting \u2026" : this.failed ?? (this.stale || !answer ? "Not counted yet: all of the trace is read for it."
      : `${counted(answer.total, "access", "accesses")}. Each frame is a function, as wide as the accesses in it and in what it called; a click zooms.`);
    this.find("frames").classList.toggle("stale", Boolean(this.stale));
  }

  /** Draws all frames, or those above and below one. */
  draw(whole) {
    this.whole = whole;
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
      const share = `${Number((100 * frame.total / this.answer.total).toPrecision(3))}\u202f%`;
      button.textContent = frame.name;
      button.title = `${frame.name}: ${counted(frame.total, "access", "accesses")} (${share}), ${grouped(frame.own)} in itself`;
      button.setAttribute("aria-label", button.title);
      button.style.left = `${100 * (from - first) / total}%`;
      button.style.width = `${100 * (to - from) / total}%`;
      button.style.top = `${row * ROW}px`;
      button.addEventListener("click", () => this.draw(frame.depth === 0 || frame === this.whole ? null : frame));
      shown.push(button);
    }
    const frames = this.find("frames");
    frames.style.height = `${rows * ROW}px`;
    frames.replaceChildren(...shown);
  }
}
