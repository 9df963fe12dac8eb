// The axis of addresses: runs of addresses that were accessed, one after the other, without what is between them.
// Places on it are numbers; addresses have 64 bits and are BigInt.

export class AddressAxis {
  constructor({ units, runs }) {
    this.units = units;
    this.runs = runs.map((run) => ({ ...run, start: BigInt(run.start), scale: run.units / run.bytes }));
  }

  /** The number of the run that a place is in. */
  runAt(place) {
    let low = 0, high = this.runs.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.runs[middle].at <= place) low = middle; else high = middle - 1;
    }
    return low;
  }

  /** The address of the byte at a place. */
  address(place) {
    const run = this.runs[this.runAt(place)];
    const offset = Math.min(run.bytes, Math.max(0, Math.floor((place - run.at) / run.scale)));
    return run.start + BigInt(offset);
  }

  /** The first address that is wholly after a place. */
  addressAfter(place) {
    const number = Math.max(0, this.runAt(place));
    const run = this.runs[place === this.runs[number].at && number > 0 ? number - 1 : number];
    const offset = Math.min(run.bytes, Math.max(0, Math.ceil((place - run.at) / run.scale)));
    return run.start + BigInt(offset);
  }

  /** The first address whose place is not before one. */
  addressFrom(place) {
    const run = this.runs[this.runAt(place)];
    return run.start + BigInt(Math.min(run.bytes, Math.max(0, Math.ceil((place - run.at) / run.scale))));
  }

  /** The place of an address; of one between runs that of the next one. */
  place(address) {
    let low = 0, high = this.runs.length - 1;
    if (address < this.runs[0].start) return 0;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.runs[middle].start <= address) low = middle; else high = middle - 1;
    }
    const run = this.runs[low];
    const offset = address - run.start;
    return run.at + (offset > BigInt(run.bytes) ? run.bytes : Number(offset)) * run.scale;
  }

  /** Whether an address is in a run. */
  has(address) {
    const run = this.runs.findLast(({ start }) => start <= address);
    return run !== undefined && address - run.start < BigInt(run.bytes);
  }

  /** Bytes between two places. */
  bytes(from, to) {
    let sum = 0;
    for (let number = this.runAt(from); number < this.runs.length && this.runs[number].at < to; number++) {
      const run = this.runs[number];
      sum += (Math.min(to, run.at + run.units) - Math.max(from, run.at)) / run.scale;
    }
    return sum;
  }
}

/** When cycles of a thread were: points between which cycles and time go evenly. */
export class Clock {
  /** Of cycles with their times in nanoseconds, both in order; nothing is known beyond the first and the last. */
  constructor(points) {
    this.points = points;
  }

  /** The time of a cycle. */
  at(cycle) {
    const { points } = this;
    let low = 0, high = points.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (points[middle][0] <= cycle) low = middle; else high = middle - 1;
    }
    const [from, time] = points[low], [to, end] = points[low + 1] ?? points[low];
    return to > from ? time + (end - time) * Math.max(0, cycle - from) / (to - from) : time;
  }
}

/** As memtap writes addresses. */
export function hexadecimal(address) {
  return `0x${address.toString(16)}`;
}

/** Round numbers of a range, about `many`. */
export function ticks(from, to, many) {
  const rough = Math.max(1, (to - from) / Math.max(1, many));
  const size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((digit) => digit * size).find((step) => step >= rough) ?? 10 * size;
  const all = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to; tick += step) all.push(tick);
  return all;
}
