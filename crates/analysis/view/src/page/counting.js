// Something that the server counts of what is selected: at once where that is soon done, else when it is asked for. It says what it
// covers, and what was counted for another selection is faint.

export class Counting extends EventTarget {
  /** In an element with `.covers` and `.count`; `fetchAnswer(parameters, signal)` asks the server. Those who extend it fill and say what is covered. */
  constructor(element, fetchAnswer) {
    super();
    Object.assign(this, { element, fetchAnswer, answer: null, asking: null, shown: true });
    this.asker = crypto.getRandomValues(new Uint32Array(1))[0];
    this.find = (name) => element.querySelector(`.${name}`);
    this.find("count").addEventListener("click", () => this.ask());
  }

  /** What is to be counted, in parameters and in words; `whole`: accesses of the run. */
  show({ parameters, words, whole, soon }) {
    Object.assign(this, { words, whole, soon });
    if (parameters !== this.asked) {
      this.asking?.abort();
      clearTimeout(this.later);
      Object.assign(this, { asked: parameters, asking: null, later: null, failed: null, stale: true });
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

  async ask() {
    this.asking?.abort();
    this.later = null;
    const asking = this.asking = new AbortController();
    this.tell();
    try {
      const answer = await this.fetchAnswer(`${this.asked}&asker=${this.asker}`, asking.signal);
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
    const words = this.asking ? "counting \u2026" : this.failed ?? (this.stale || !answer ? "not counted yet." : this.covers(answer));
    this.find("covers").textContent = `${this.words}: ${words}`;
    this.element.classList.toggle("stale", Boolean(this.stale));
  }
}
