// The heat map: a cell a page of 4 KiB, its colour by the logarithm of its accesses. Only what is in sight is drawn.
const heat = {
  box: document.getElementById("heat-rows"), canvas: document.getElementById("cells"), tip: document.getElementById("tip"),
  kind: document.getElementById("heat-kind"), cell: 12, parts: [], at: null,
  dark: matchMedia("(prefers-color-scheme: dark)"),

  value(row) {
    const c = D.page_counts, i = 4 * row;
    return this.kind.value === "loads" ? c[i] + c[i + 2] : this.kind.value === "stores" ? c[i + 1] + c[i + 2] : c[i] + c[i + 1] + c[i + 2];
  },

  // From pale yellow to dark red, in the dark the other way round.
  colour(accesses, most) {
    const stops = [[255, 237, 160], [254, 190, 90], [244, 109, 67], [200, 30, 40], [103, 0, 31]];
    let scale = most <= 1 ? 1 : Math.log(accesses) / Math.log(most);
    const place = scale * 4, i = Math.min(3, Math.floor(place)), part = place - i;
    let rgb = stops[i].map((from, c) => Math.round(from + (stops[i + 1][c] - from) * part));
    if (this.dark.matches) {
      const night = [[70, 20, 90], [140, 30, 100], [205, 65, 75], [245, 135, 45], [250, 235, 130]];
      rgb = night[i].map((from, c) => Math.round(from + (night[i + 1][c] - from) * part));
    }
    return `rgb(${rgb})`;
  },

  // Where each part is, for the width that there is.
  layout() {
    if (!this.rowOf) {
      this.rowOf = new Map();
      D.page_process.forEach((process, row) => this.rowOf.set(process * 2 ** 40 + D.page_number[row], row));
    }
    const pages = D.parts.reduce((sum, part) => sum + (part.pages || 0), 0);
    this.cell = pages <= 20000 ? 14 : pages <= 100000 ? 10 : 6;
    this.width = this.box.clientWidth - 32;
    this.columns = Math.max(8, Math.floor(this.width / this.cell));
    // A power of two: the same columns are the same bits of the address.
    this.columns = 2 ** Math.floor(Math.log2(this.columns));
    let y = 8;
    this.parts = D.parts.map(part => {
      const rows = part.pages ? Math.ceil(part.pages / this.columns) : 0;
      const placed = {...part, y, rows};
      y += part.pages ? 22 + rows * this.cell + 8 : 24;
      return placed;
    });
    document.getElementById("heat-space").style.height = y + 8 + "px";
    this.most = 0;
    for (let row = 0; row < D.page_process.length; row++) this.most = Math.max(this.most, this.value(row));
    const steps = [];
    for (let step = 1; step < this.most; step *= 10) steps.push(step);
    if (this.most) steps.push(this.most);
    document.getElementById("legend").innerHTML = "accesses to a page: " + steps.map(step =>
      `<span><i style="background:${this.colour(step, this.most)}"></i>${grouped(step)}</span>`).join("") +
      `<span><i></i>none</span><span><i style="background:#999"></i>not traced</span>`;
    this.draw();
  },

  draw() {
    const ratio = devicePixelRatio || 1, width = this.box.clientWidth, height = this.box.clientHeight;
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.canvas.style.width = width + "px";
    this.canvas.style.height = height + "px";
    const g = this.canvas.getContext("2d"), top = this.box.scrollTop, style = getComputedStyle(document.body);
    g.scale(ratio, ratio);
    g.font = "12px system-ui, sans-serif";
    const colour = name => style.getPropertyValue(name).trim();
    const [ink, edge, soft, mark] = ["--text", "--line", "--soft", "--link"].map(colour);
    const wide = this.columns * this.cell;
    for (const part of this.parts) {
      const y = part.y - top;
      if (y > height || y + 30 + part.rows * this.cell < 0) continue;
      if (!part.pages) {
        g.fillStyle = part.traced ? soft : "#9996";
        g.fillRect(16, y, wide, 18);
        g.fillStyle = ink;
        g.fillText(part.label, 22, y + 13, wide - 12);
        continue;
      }
      g.fillStyle = ink;
      g.fillText(part.label, 16, y + 13, wide);
      const from = Math.max(0, Math.floor((-y - 22) / this.cell)), to = Math.min(part.rows, Math.ceil((height - y - 22) / this.cell));
      for (let line = from; line < to; line++) {
        const cells = Math.min(this.columns, part.pages - line * this.columns), at = y + 20 + line * this.cell;
        g.fillStyle = part.traced ? soft : "#9996";
        g.fillRect(16, at, cells * this.cell - 1, this.cell - 1);
        for (let i = 0; i < cells; i++) {
          const row = this.rowOf.get(part.process * 2 ** 40 + part.page + line * this.columns + i);
          const value = row === undefined ? 0 : this.value(row);
          if (!value) continue;
          g.fillStyle = this.colour(value, this.most);
          g.fillRect(16 + i * this.cell, at, this.cell - 1, this.cell - 1);
        }
      }
    }
    if (this.at) {
      const {part, index} = this.at, x = 16 + index % this.columns * this.cell;
      g.strokeStyle = mark;
      g.lineWidth = 2;
      g.strokeRect(x - 1, part.y - top + 20 + Math.floor(index / this.columns) * this.cell - 1, this.cell + 1, this.cell + 1);
    }
  },

  hit(x, y) {
    const box = this.canvas.getBoundingClientRect();
    const down = y - box.top + this.box.scrollTop, column = Math.floor((x - box.left - 16) / this.cell);
    const part = this.parts.find(p => p.pages && down >= p.y + 20 && down < p.y + 20 + p.rows * this.cell);
    if (!part || column < 0 || column >= this.columns) return null;
    const index = Math.floor((down - part.y - 20) / this.cell) * this.columns + column;
    return index < part.pages ? {part, index} : null;
  },

  point(at) {
    this.at = at;
    this.draw();
    this.tip.hidden = !at;
    if (!at) return;
    const {part, index} = at, page = part.page + index, row = this.rowOf.get(part.process * 2 ** 40 + page);
    const address = "0x" + (BigInt(page) * 4096n).toString(16), end = "0x" + (BigInt(page) * 4096n + 4095n).toString(16);
    let html = `<b class="mono">${address} - ${end}</b><br><span class="note">${escape(part.label)}</span><br>`;
    if (row === undefined) html += part.traced ? "no access" : "not traced";
    else {
      const c = D.page_counts, i = 4 * row;
      html += `${many(c[i], "load")}, ${many(c[i + 1], "store")}, ${many(c[i + 2], "modify")}`;
      for (const [thing, accesses] of this.named(row)) html += `<br>${percent(accesses, accessesAt(c, row))} <span class="mono">${escape(thingName(thing))}</span>`;
    }
    this.tip.innerHTML = html;
    const box = this.canvas.getBoundingClientRect();
    const x = box.left + 16 + index % this.columns * this.cell, y = box.top + part.y + 20 + Math.floor(index / this.columns) * this.cell - this.box.scrollTop;
    const own = this.tip.getBoundingClientRect();
    this.tip.style.left = Math.max(4, Math.min(x + this.cell + 6, innerWidth - own.width - 8)) + "px";
    this.tip.style.top = (y + this.cell + 6 + own.height > innerHeight ? Math.max(4, y - own.height - 6) : y + this.cell + 6) + "px";
  },

  named(row) {
    const names = [];
    for (let i = 6 * row; i < 6 * row + 6; i += 2) if (D.page_names[i]) names.push([D.page_names[i] - 1, D.page_names[i + 1]]);
    return names;
  },

  // By keyboard from page to page, past those without an access.
  step(by, pages) {
    const all = this.parts.filter(part => part.pages);
    if (!all.length) return;
    let at = this.at || {part: all[0], index: -1};
    for (;;) {
      let index = at.index + (pages ? by * this.columns : by), i = all.indexOf(at.part);
      if (index < 0) { if (--i < 0) return; index = all[i].pages - 1; }
      else if (index >= at.part.pages) { if (++i >= all.length) return; index = 0; }
      at = {part: all[i], index};
      if (this.rowOf.has(at.part.process * 2 ** 40 + at.part.page + at.index)) break;
    }
    const y = at.part.y + 20 + Math.floor(at.index / this.columns) * this.cell;
    if (y < this.box.scrollTop + 20 || y + this.cell > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = y - this.box.clientHeight / 2;
    this.point(at);
  },

  open() {
    const row = this.at && this.rowOf.get(this.at.part.process * 2 ** 40 + this.at.part.page + this.at.index);
    const named = row === undefined || row === null ? [] : this.named(row);
    if (named.length) goThing(named[0][0]);
  },
};
heat.box.addEventListener("scroll", () => { heat.tip.hidden = true; heat.draw(); });
heat.box.addEventListener("mousemove", event => heat.point(heat.hit(event.clientX, event.clientY)));
heat.box.addEventListener("mouseleave", () => heat.point(null));
heat.box.addEventListener("click", () => heat.open());
heat.box.addEventListener("keydown", event => {
  const step = {ArrowRight: [1, false], ArrowLeft: [-1, false], ArrowDown: [1, true], ArrowUp: [-1, true]}[event.key];
  if (step) heat.step(...step);
  else if (event.key === "Enter") heat.open();
  else return;
  event.preventDefault();
  event.stopPropagation();
});
heat.kind.addEventListener("change", () => heat.layout());
heat.dark.addEventListener("change", () => heat.layout());
new ResizeObserver(() => { if (heat.box.clientWidth) heat.layout(); }).observe(heat.box);
