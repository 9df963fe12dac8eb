(() => {
  const svg = document.currentScript.closest("svg"), find = name => svg.querySelector("." + name);
  const data = /*DATA*/null;
  const number = value => Math.round(value).toLocaleString("en").replace(/,/g, " ");
  const share = (part, all) => all > 0 ? (100 * part / all).toFixed(part / all < .1 ? 2 : 1) + " %" : "0 %";
  // A node is written before what it called: its function, its own figure, and how many it called.
  const kinds = ["program", "library", "other"];
  let next = 0;
  const read = parent => {
    const [index, own, count] = data.nodes[next++], [name, [kind, shade], short] = data.functions[index];
    const node = { name, kind: `${kinds[kind]} shade${shade}`, short, own, total: own, parent, children: [] };
    node.left = count;
    return node;
  };
  const root = read(null);
  for (let open = [root]; open.length;) {
    const node = open[open.length - 1];
    if (node.left-- > 0) {
      const child = read(node);
      node.children.push(child);
      open.push(child);
    } else {
      open.pop();
      if (node.parent) node.parent.total += node.total;
    }
  }
  const words = node => `${node.name}: ${number(node.total)} ${data.unit}, ${share(node.total, root.total)} of all; ` +
    `${share(node.own, root.total)} in it itself`;
  const details = find("details"), found = find("found"), search = find("search"), reset = find("reset");
  let wanted = "";
  const matches = node => wanted !== "" && node.name.toLowerCase().includes(wanted);
  const graph = flameGraph(find("frames"), root, {
    top: data.top,
    width: () => width - 2 * data.margin,
    kind: node => node.kind,
    marked: matches,
    tip: words,
    over: node => { details.textContent = words(node); },
    choose: node => { details.textContent = words(node); },
    drawn: bottom => {
      const height = bottom + data.margin;
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("width", width);
      svg.setAttribute("height", height);
      find("paper").setAttribute("width", width);
      find("paper").setAttribute("height", height);
      find("controls").setAttribute("transform", `translate(${width - data.margin}, 0)`);
      reset.style.display = graph && graph.focus() !== root ? "" : "none";
    },
  });
  const look = text => {
    wanted = text.trim().toLowerCase();
    // A frame counts with all that it called, once.
    let sum = 0;
    for (let open = [root]; open.length;) {
      const node = open.pop();
      if (matches(node)) sum += node.total; else open.push(...node.children);
    }
    found.textContent = wanted === "" ? "" : `${share(sum, root.total)} of all is in matching frames`;
    graph.draw();
  };
  let width = data.width;
  const fit = () => {
    const alone = svg === document.documentElement;
    width = Math.max((alone ? innerWidth : svg.parentElement.clientWidth) || data.width, 480);
    graph.draw();
    // The window's own bar takes a part of its width.
    if (alone && svg.getAttribute("height") > innerHeight) { width -= 18; graph.draw(); }
  };
  search.addEventListener("input", () => look(search.value));
  reset.addEventListener("click", () => graph.reset());
  addEventListener("keydown", event => {
    if (event.key === "Escape") { search.value = ""; look(""); graph.reset(); search.blur(); }
    if (event.key === "/" && event.target !== search) { search.focus(); event.preventDefault(); }
  });
  addEventListener("resize", fit);
  svg.classList.add("live");
  fit();
})();
