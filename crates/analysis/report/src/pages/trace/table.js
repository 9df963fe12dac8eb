// A table of which only the rows in sight are elements: it sorts, finds and scrolls a million rows. Browsers have no element of any
// height, so far down a pixel of the scroll bar stands for more than one of the rows.
const ROW = 26, TALLEST = 8e6;
const grid = {
  kind: null, order: new Uint32Array(0), sorts: {}, chosen: -1,
  body: document.getElementById("rows"), head: document.getElementById("head"), space: document.getElementById("space"),

  show(kind) {
    this.kind = kind;
    this.place();
    this.fill();
  },

  // The columns that there is room for.
  place() {
    this.head.replaceChildren();
    this.wide = this.body.clientWidth;
    const table = TABLES[this.kind];
    this.columns = table.columns.filter(c => !(c.least > this.wide));
    const template = this.columns.map(c => c.width).join(" ");
    this.head.style.gridTemplateColumns = this.template = template;
    this.columns.forEach(column => {
      const cell = document.createElement("div");
      cell.setAttribute("role", "columnheader");
      cell.innerHTML = `<button class="${column.number || column.share ? "n" : ""}" title="${escape((column.help || "") + " (sort)")}">${escape(column.title)}<span></span></button>`;
      cell.firstChild.addEventListener("click", () => this.sortBy(table.columns.indexOf(column)));
      this.head.append(cell);
    });
    this.mark();
  },

  // The rows that are wanted, in their order. The figures come most accessed first.
  fill() {
    const table = TABLES[this.kind], words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const memory = this.kind === "variable" && memoryKind.value !== "" ? Number(memoryKind.value) : -1;
    const hidden = table.system && !withSystem.checked && !D.head.machine;
    const nameOf = table.columns[0].value, source = this.kind === "line" ? table.columns[1].value : null;
    let rows = new Uint32Array(table.rows), n = 0;
    for (let row = 0; row < table.rows; row++) {
      if (hidden && table.system(row)) continue;
      if (memory >= 0 && table.memory(row) !== memory) continue;
      if (words.length) {
        const own = (nameOf(row) + (source ? " " + source(row) : "")).toLowerCase();
        if (!words.every(word => own.includes(word))) continue;
      }
      rows[n++] = row;
    }
    rows = rows.subarray(0, n);
    const sort = this.sort();
    const column = table.columns[sort.column], way = sort.down ? -1 : 1;
    if (column.share && sort.down && this.kind === "variable") {
      // They come so.
    } else if (column.number || column.share) {
      const keys = new Float64Array(table.rows);
      for (const row of rows) keys[row] = column.value(row);
      rows.sort((a, b) => way * (keys[a] - keys[b]) || a - b);
    } else {
      const keys = new Map();
      for (const row of rows) keys.set(row, column.value(row));
      const compare = new Intl.Collator("en", {numeric: true}).compare;
      rows = Uint32Array.from([...rows].sort((a, b) => way * compare(keys.get(a), keys.get(b)) || a - b));
    }
    this.order = rows;
    this.mark();
    let sum = 0;
    for (const row of rows) sum += accessesAt(table.counts, row);
    shown.textContent = `${grouped(n)} of ${grouped(table.rows)} rows, ${percent(sum, total) || "0"} of all accesses`;
    this.body.setAttribute("aria-rowcount", n);
    this.height = Math.min(n * ROW, TALLEST);
    this.space.style.height = this.height + "px";
    this.chosen = Math.min(this.chosen, n - 1);
    this.body.scrollTop = 0;
    this.draw();
  },

  sort() {
    return this.sorts[this.kind] || {column: TABLES[this.kind].columns.findIndex(c => c.share), down: true};
  },

  mark() {
    const sort = this.sort(), sorted = TABLES[this.kind].columns[sort.column];
    [...this.head.children].forEach((cell, i) => {
      const mine = this.columns[i] === sorted;
      cell.setAttribute("aria-sort", mine ? (sort.down ? "descending" : "ascending") : "none");
      cell.querySelector("span").textContent = mine ? (sort.down ? " \u25be" : " \u25b4") : "";
    });
  },

  sortBy(i) {
    const column = TABLES[this.kind].columns[i], last = this.sort();
    const down = last.column === i ? !last.down : Boolean(column.number || column.share);
    this.sorts[this.kind] = {column: i, down};
    this.chosen = -1;
    this.fill();
  },

  // The first row in sight, with its part above the sight.
  first() {
    const most = Math.max(0, this.order.length * ROW - this.body.clientHeight);
    const scroll = this.height - this.body.clientHeight;
    return scroll <= 0 ? 0 : Math.min(most, this.body.scrollTop / scroll * most) / ROW;
  },

  draw() {
    if (!this.kind) return;
    if (this.body.clientWidth !== this.wide) this.place();
    const first = this.first(), from = Math.floor(first);
    const many = Math.ceil(this.body.clientHeight / ROW) + 1, top = this.body.scrollTop - (first - from) * ROW;
    const drawn = [];
    for (let i = from; i < Math.min(this.order.length, from + many); i++) {
      const row = this.order[i], element = document.createElement("div");
      element.className = "row" + (i % 2 ? " odd" : "") + (i === this.chosen ? " chosen" : "");
      element.setAttribute("role", "row");
      element.setAttribute("aria-rowindex", i + 1);
      element.dataset.at = i;
      element.style.top = top + (i - from) * ROW + "px";
      element.style.gridTemplateColumns = this.template;
      element.innerHTML = this.columns.map(column => {
        const value = column.value(row);
        if (column.share) return `<div class="share" role="gridcell"><i style="width:${total ? 100 * value / total : 0}%"></i><b>${percent(value, total)}</b></div>`;
        if (column.number) return `<div class="n" role="gridcell">${grouped(value)}</div>`;
        return `<div class="${column.name || column.code ? "mono" : ""}" role="gridcell" title="${escape(value)}">${escape(value)}</div>`;
      }).join("");
      drawn.push(element);
    }
    this.body.replaceChildren(this.space, ...drawn);
  },

  choose(i, open) {
    this.chosen = Math.max(0, Math.min(this.order.length - 1, i));
    const first = this.first(), seen = this.body.clientHeight / ROW;
    if (this.chosen < first || this.chosen > first + seen - 1) {
      const most = Math.max(1, this.order.length * ROW - this.body.clientHeight);
      const to = this.chosen < first ? this.chosen * ROW : (this.chosen + 1) * ROW - this.body.clientHeight;
      this.body.scrollTop = to / most * (this.height - this.body.clientHeight);
    }
    this.draw();
    if (open && this.order.length) go(this.kind, this.order[this.chosen]);
  },

  key(event) {
    const page = Math.max(1, Math.floor(this.body.clientHeight / ROW) - 1);
    const to = {ArrowDown: this.chosen + 1, ArrowUp: this.chosen - 1, PageDown: this.chosen + page, PageUp: this.chosen - page,
      Home: 0, End: this.order.length - 1}[event.key];
    if (to !== undefined) this.choose(to, !detail.hidden);
    else if (event.key === "Enter" && this.chosen >= 0) this.choose(this.chosen, true);
    else return;
    event.preventDefault();
  },
};
grid.body.addEventListener("scroll", () => grid.draw());
grid.body.addEventListener("keydown", event => grid.key(event));
grid.body.addEventListener("click", event => {
  const row = event.target.closest(".row");
  if (row) grid.choose(Number(row.dataset.at), true);
});
new ResizeObserver(() => grid.draw()).observe(grid.body);
