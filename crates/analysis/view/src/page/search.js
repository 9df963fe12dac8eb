// From a name or an address to a place on the map, which is then selected; from a function to its row in the table.

import { counted } from "./words.js";

export class PlaceSearch extends EventTarget {
  /** On the map that it is given as `map`; what is found is told in `element`; `ask(path, signal)` asks the server. */
  constructor(element, ask) {
    super();
    Object.assign(this, { map: null, element, ask, asking: null });
  }

  clear() {
    this.asking?.abort();
    this.element.hidden = true;
    this.element.replaceChildren();
  }

  async look(name) {
    this.clear();
    if (!name.trim()) return;
    const asking = this.asking = new AbortController();
    try {
      const parameters = new URLSearchParams({ process: this.map.process.process, name });
      const { found, more, function: code } = await this.ask(`place?${parameters}`, asking.signal);
      if (code !== undefined) {
        this.say(`${code} is a function: the table has its accesses.`);
        this.dispatchEvent(new Event("coded"));
      } else if (found.length === 1) this.choose(found[0]);
      else this.offer(found, more);
    } catch (error) {
      if (error.name !== "AbortError") this.say(error.message);
    }
  }

  say(words) {
    this.element.hidden = false;
    this.element.textContent = words;
  }

  /** Several have that name, or a part of it. */
  offer(found, more) {
    this.say(`${counted(found.length + more, "place")}:`);
    for (const place of found) {
      const button = document.createElement("button");
      button.textContent = place.name;
      button.title = `${counted(place.bytes, "byte")} at ${place.start}`;
      button.addEventListener("click", () => this.choose(place));
      this.element.append(button);
    }
    this.element.querySelector("button").focus();
  }

  /** Selects a place with the time that it is given, else all. */
  choose({ name, start, bytes, from, to }) {
    const { map } = this;
    const low = BigInt(start);
    const [top, bottom] = [low, low + BigInt(bytes)].map((address) => map.axis.place(address));
    map.select({ from: from ?? map.bounds.from, to: to ?? map.bounds.to, top, bottom });
    map.reveal(map.selection);
    this.say(`${name}: ${counted(bytes, "byte")} at ${start}, selected; z zooms to it.`);
    map.canvas.focus();
  }
}
