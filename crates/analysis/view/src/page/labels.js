// Labels of the map: what the memory beside them is. Neighbours of one name have one label together. Where there is no room for all, the
// program's own memory comes first, then what is tallest.

import { hexadecimal } from "./axis.js";

export const LABEL = "12px system-ui, sans-serif";
const ADDRESS = "11px ui-monospace, monospace";
/** Heights of a label and of an address below it. */
const LINE = 14;
const ADDRESS_LINE = 13;
/** Memory that is less tall has its label beside its beginning. */
const TALL = 11;
/** So far from its memory may a label of the program's own be. */
const NEAR = 3 * LINE;

/** Runs that have one label: neighbours of one name. `program` is the name of the program's file. */
export function groupsOf(runs, program) {
  const groups = [];
  for (const run of runs) {
    const last = groups.at(-1);
    // Where the name says of what kind it is, nothing is added.
    const kinds = run.kind && run.name !== `[${run.kind}]` ? [run.kind] : [];
    if (last?.name === run.name) {
      last.end = run.at + run.units;
      last.kinds.push(...kinds.filter((kind) => !last.kinds.includes(kind)));
      continue;
    }
    const isOwn = run.name === program || ["heap", "stack"].includes(run.kind);
    groups.push({ name: run.name, kinds, isOwn, at: run.at, end: run.at + run.units });
  }
  return groups;
}

/** The width that the labels of these groups want. */
export function widthOf(context, groups) {
  context.font = LABEL;
  return Math.max(0, ...groups.map(({ name, kinds }) => context.measureText([name, kinds.join(", ")].join(" ")).width));
}

/** A text that fits into a width: what is too much is left out of its middle. */
function shortened(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let kept = text.length - 1;
  const cut = () => `${text.slice(0, Math.floor(kept / 2))}\u2026${text.slice(text.length - Math.ceil(kept / 2))}`;
  while (kept > 2 && context.measureText(cut()).width > width) kept -= 1;
  return cut();
}

/**
 * Chooses labels and where they stand between two heights: groups from `top` to `bottom`, to which `y` is added. Nothing overlaps.
 */
export function placed(groups, first, last) {
  const inOrder = [...groups].sort((a, b) => b.isOwn - a.isOwn || (b.bottom - b.top) - (a.bottom - a.top) || a.top - b.top);
  const chosen = [];
  for (const group of inOrder) {
    const { top, bottom, isOwn } = group;
    const isTall = bottom - top >= TALL;
    const lowest = Math.min(last - LINE + 2, isTall ? bottom - LINE + 2 : isOwn ? top + NEAR : top + 1);
    const highest = Math.max(first, isTall ? top : top - (isOwn ? NEAR : LINE / 2));
    const isFree = (y) => y >= highest && y <= lowest && chosen.every((other) => y >= other.y + LINE || y + LINE <= other.y);
    const near = (y) => Math.abs(y - top);
    // Beside its beginning, or as near to that as there is room: at an end, or beside another label.
    const y = [top, lowest, ...chosen.flatMap((other) => [other.y - LINE, other.y + LINE])].filter(isFree).sort((a, b) => near(a) - near(b))[0];
    if (y !== undefined) chosen.push({ ...group, y });
  }
  return chosen.sort((a, b) => a.y - b.y);
}

/** Draws the labels of a map at the left of its picture, and returns them. */
export function drawLabels(context, map) {
  const { plot, ink, axis } = map;
  const floor = plot.y + plot.height;
  const shown = groupsOf(map.shownRuns(), map.program).map((group) => (
    { ...group, top: Math.max(plot.y, map.y(group.at)), bottom: Math.min(floor, map.y(group.end)) }));
  const labels = placed(shown, plot.y, floor);
  context.save();
  context.beginPath();
  context.rect(0, 0, plot.x - 6, floor + 2);
  context.clip();
  context.textBaseline = "top";
  labels.forEach(({ name, kinds, at, y, top, bottom }, number) => {
    context.fillStyle = ink.text;
    context.font = LABEL;
    // A long name is cut in the middle; what it ends with tells more than what kind of memory it is.
    const cut = shortened(context, name, plot.x - 10);
    context.fillText(cut, 2, y);
    const width = context.measureText(`${cut} `).width;
    context.fillStyle = ink.faint;
    const kind = kinds.join(", ");
    if (kind && width + context.measureText(kind).width < plot.x - 8) context.fillText(kind, 2 + width, y);
    const below = y + LINE, next = labels[number + 1]?.y ?? floor;
    if (Math.min(bottom, next) - below <= ADDRESS_LINE) return;
    context.font = ADDRESS;
    context.fillText(hexadecimal(axis.address(Math.max(at, map.place(top)))), 2, below);
  });
  context.restore();
  drawLeaders(context, map, labels);
  return labels;
}

/** Lines from labels that do not stand beside their memory to it. */
function drawLeaders(context, { plot, ink }, labels) {
  context.strokeStyle = ink.faint;
  context.lineWidth = 1;
  context.beginPath();
  for (const { y, top, bottom } of labels) {
    const from = y + LINE / 2 - 1, to = (top + Math.min(bottom, top + TALL)) / 2;
    if (Math.abs(from - to) < LINE / 2 || bottom - top >= TALL) continue;
    context.moveTo(plot.x - 6, from);
    context.lineTo(plot.x - 1, to);
  }
  context.stroke();
}
