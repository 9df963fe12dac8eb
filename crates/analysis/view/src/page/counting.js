// Something that the server counts of what is selected: at once where that is soon done, else when it is asked for. It says how far it
// is and what it covers, and what was counted for another selection is faint.

import { grouped } from "./words.js";

/** Milliseconds between two looks at how far it is. */
const LOOK = 400;

export class Counting extends EventTarget {
  /** In an element with `.covers` and `.count`; `fetchAnswer(path, signal)` asks the server for `request`. Those who extend it fill and say what is covered. */
  constructor(element, fetchAnswer, request) {
    super();
    Object.assign(this, { element, fetchAnswer, request, answer: null, asking: null, shown: true });
    this.asker = crypto.getRandomValues(new Uint32Array(1))[0];
    this.find = (name) => element.querySelector(`.${name}`);
    this.find("count").addEventListener("click", () => this.ask());
    const cancel = document.createElement("button");
    Object.assign(cancel, { className: "cancel", textContent: "Cancel", hidden: true });
    cancel.addEventListener("click", () => this.cancel());
    this.find("count").after(cancel);
    // Only of those that are opened by a click.
    element.addEventListener("toggle", () => this.perhaps());
  }

  /** What is to be counted, in parameters and in words; `whole`: accesses of the run, and whether all of it is counted. */
  show({ parameters, words, whole, isWhole, soon }) {
    Object.assign(this, { words, whole, isWhole, soon });
    if (parameters !== this.asked) {
      if (this.asking) this.end();
      clearTimeout(this.later);
      Object.assign(this, { asked: parameters, later: null, failed: null, stale: true });
    }
    this.tell();
    this.perhaps();
  }

  perhaps() {
    if (this.soon && this.stale && !this.asking && !this.failed && this.isSeen) this.later ??= setTimeout(() => this.ask(), 250);
  }

  /** Whether somebody looks at it. */
  get isSeen() {
    return this.element.tagName !== "DETAILS" || this.element.open;
  }

  /** Ends what is being counted, also on the server. */
  end() {
    this.asking.abort();
    this.asking = null;
    this.fetchAnswer(`cancel?asker=${this.asker}`).catch(() => {});
  }

  cancel() {
    if (!this.asking) return;
    this.end();
    this.failed = "cancelled.";
    this.tell();
  }

  /** Looks how far it is, as long as that is asked for. */
  async look(asking) {
    for (;;) {
      await new Promise((done) => setTimeout(done, LOOK));
      if (asking !== this.asking) return;
      try {
        const { counted: far } = await this.fetchAnswer(`progress?asker=${this.asker}`, asking.signal);
        if (asking !== this.asking) return;
        this.far = far;
        this.tell();
      } catch {
        return;
      }
    }
  }

  /** How far it is, in words. */
  get progress() {
    if (!this.far) return "counting \u2026";
    const part = this.isWhole && this.whole > 0 ? `${Math.min(99, Math.floor(100 * this.far / this.whole))}\u202f% of ${grouped(this.whole)}` : `${grouped(this.far)}`;
    return `counting \u2026 ${part} accesses`;
  }

  async ask() {
    this.asking?.abort();
    this.later = null;
    const asking = this.asking = new AbortController();
    Object.assign(this, { far: null, failed: null });
    this.tell();
    this.look(asking);
    try {
      const answer = await this.fetchAnswer(`${this.request}?${this.asked}&asker=${this.asker}`, asking.signal);
      if (asking !== this.asking) return;
      Object.assign(this, { answer, stale: false, failed: null });
    } catch (error) {
      if (error.name === "AbortError" || asking !== this.asking) return;
      this.failed = error.message;
    }
    this.asking = null;
    this.tell();
    if (!this.answer || this.failed) return;
    this.fill();
    this.dispatchEvent(new Event("filled"));
  }

  /** Whether what is shown is that of what is selected. */
  get settled() {
    return this.asking === null && !this.stale;
  }

  tell() {
    const { answer } = this;
    this.find("count").hidden = !this.stale || this.asking !== null;
    this.find("cancel").hidden = this.asking === null;
    const words = this.asking ? this.progress : this.failed ?? (this.stale || !answer ? "not counted yet." : this.covers(answer));
    this.find("covers").textContent = `${this.words}: ${words}`;
    this.element.classList.toggle("stale", Boolean(this.stale));
  }
}
