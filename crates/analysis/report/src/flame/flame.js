"use strict";
// Draws a tree of {name, short, total, own, children, parent} as a flame graph, the root first, and draws it anew whenever a frame is chosen. A
// frame is as wide as its share; frames that would be narrower than half a pixel are not drawn.
const flameGraph = (group, root, options) => {
  const height = 18, letter = 6.7, space = "http://www.w3.org/2000/svg";
  let focus = root, deepest = 0;
  const add = (parent, name, attributes, text) => {
    const element = document.createElementNS(space, name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text !== undefined) element.textContent = text;
    return parent.appendChild(element);
  };
  const frame = (node, x, width, level) => {
    const y = options.top + level * height;
    const classes = ["frame", options.kind(node), level < above() ? "above" : "", options.marked(node) ? "marked" : ""];
    const box = add(group, "g", { class: classes.filter(Boolean).join(" ") });
    add(box, "title", {}, options.tip(node));
    add(box, "rect", { x: x.toFixed(2), y, width: Math.max(width - .4, .3).toFixed(2), height: height - 1, rx: 1.5 });
    const letters = Math.floor((width - 6) / letter);
    const text = node.short || node.name;
    if (letters > 2)
      add(box, "text", { x: (x + 3).toFixed(2), y: y + 12.5 }, text.length <= letters ? text : text.slice(0, letters - 1) + "…");
    box.addEventListener("click", () => { focus = node; options.choose(node); draw(); });
    box.addEventListener("mouseenter", () => options.over(node));
    deepest = Math.max(deepest, level + 1);
  };
  const above = () => { let count = 0; for (let n = focus.parent; n; n = n.parent) count++; return count; };
  const draw = () => {
    group.textContent = "";
    deepest = 0;
    const width = options.width(), line = [];
    for (let n = focus.parent; n; n = n.parent) line.unshift(n);
    line.forEach((node, level) => frame(node, 0, width, level));
    const stack = [[focus, 0, width, line.length]];
    while (stack.length) {
      const [node, x, wide, level] = stack.pop();
      frame(node, x, wide, level);
      let at = x;
      for (const child of node.children) {
        const part = node.total > 0 ? wide * child.total / node.total : 0;
        if (part >= .5) stack.push([child, at, part, level + 1]);
        at += part;
      }
    }
    options.drawn(options.top + deepest * height);
  };
  return { draw, reset: () => { focus = root; draw(); }, focus: () => focus };
};
