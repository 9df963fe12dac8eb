// Marks on the map: where findings were seen first.

/** Pixels of a mark, across and along. */
const HALF = 5, LONG = 9;

/** A triangle whose tip is at the place; of what no moment is known, one at the edge that has its address. */
export function drawMarks(context, map) {
  const { plot, ink, axis, process, thread, marks } = map;
  context.fillStyle = ink.warn;
  context.strokeStyle = ink.plot;
  context.lineWidth = 1;
  for (const mark of marks) {
    const start = BigInt(mark.start);
    if (mark.process !== process.process || !axis.has(start)) continue;
    if (thread !== null && mark.thread !== null && mark.thread !== thread) continue;
    const y = map.y(axis.place(start));
    context.beginPath();
    const when = map.moments.first(mark) ?? null;
    if (when === null) {
      context.moveTo(plot.x + LONG, y);
      context.lineTo(plot.x, y - HALF);
      context.lineTo(plot.x, y + HALF);
    } else {
      const x = map.x(when);
      context.moveTo(x, y);
      context.lineTo(x - HALF, y - LONG);
      context.lineTo(x + HALF, y - LONG);
    }
    context.closePath();
    context.fill();
    context.stroke();
  }
}
