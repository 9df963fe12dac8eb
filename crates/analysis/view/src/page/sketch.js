// A rough picture of what is read so far, while the index is built.

import { ramp, step } from "./colors.js";
import { hexadecimal } from "./axis.js";
import { counted } from "./words.js";

const LEFT = 130;
const EDGE = 6;
/** Labels are so far from each other at least. */
const LABEL = 16;

/** Draws what the server knows on a canvas, and says in words how much that is. */
export function drawSketch(canvas, { columns, rows, accesses }) {
  const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(`--${name}`).trim();
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const context = canvas.getContext("2d");
  context.scale(ratio, ratio);
  const plot = { x: LEFT, y: EDGE, width: width - LEFT - EDGE, height: height - 2 * EDGE };
  context.fillStyle = color("plot");
  context.fillRect(plot.x, plot.y, plot.width, plot.height);
  context.strokeStyle = color("line");
  context.strokeRect(plot.x - 0.5, plot.y - 0.5, plot.width + 1, plot.height + 1);

  const image = new ImageData(columns, rows.length);
  const pixels = new Uint32Array(image.data.buffer);
  const colors = ramp(isDark);
  const most = rows.reduce((most, { counts }) => counts.reduce((a, b) => Math.max(a, b), most), 1);
  rows.forEach(({ counts }, row) => counts.forEach((count, column) => {
    if (count > 0) pixels[row * columns + column] = colors[step(count, most, false)];
  }));
  const small = document.createElement("canvas");
  Object.assign(small, { width: columns, height: rows.length });
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, plot.x, plot.y, plot.width, plot.height);

  context.font = "11px ui-monospace, monospace";
  context.textBaseline = "top";
  context.fillStyle = color("faint");
  let free = 0;
  rows.forEach(({ address }, row) => {
    const y = plot.y + row * plot.height / rows.length;
    if (y < free) return;
    context.fillText(hexadecimal(BigInt(address)), 2, y);
    free = y + LABEL;
  });
  return counted(accesses, "access", "accesses");
}
