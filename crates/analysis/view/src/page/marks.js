// Marks on the map: where findings were seen first.

/** Pixels of a mark, across and along. */
const HALF = 5, LONG = 9;

/** A triangle whose tip is at the place; of what no cycle is known, one at the edge that has its address. */
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
    if (mark.from === undefined) {
      context.moveTo(plot.x + LONG, y);
      context.lineTo(plot.x, y - HALF);
      context.lineTo(plot.x, y + HALF);
    } else {
      const x = map.x(mark.from);
      context.moveTo(x, y);
      context.lineTo(x - HALF, y - LONG);
      context.lineTo(x + HALF, y - LONG);
    }
    context.closePath();
    context.fill();
    context.stroke();
  }
}
