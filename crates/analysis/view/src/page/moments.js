// The axis of time: each thread's own cycles, or the time of day, which is one for all threads. How its values are said.

import { counted, duration, grouped, seconds, short } from "./words.js";

/** Cycles: a clock of each thread. */
export const CYCLES = {
  name: "cycles",
  one: "cycle",
  label: "cycle",
  /** A moment, of a range so long. */
  at: (when) => `cycle ${grouped(Math.floor(when))}`,
  access: ({ cycle }) => `Cycle ${grouped(cycle)}`,
  number: (when) => grouped(when),
  tick: (tick, _step, length) => (length > 2e6 && tick % 1e4 === 0 ? short(tick) : grouped(tick)),
  range: (from, to) => `cycles ${grouped(from)} to ${grouped(to)}`,
  length: (size) => (size < 10 ? `${Number(size.toPrecision(2))} ${size === 1 ? "cycle" : "cycles"}` : `${short(size)} cycles`),
  held: (size) => counted(size, "cycle"),
  lock: "cycles locked",
  /** A stretch of a thread that the trace tells of. */
  stretch: ({ from, to }) => [from, to],
  /** Where a finding was seen first. */
  first: ({ cycle }) => cycle,
};

/** Time: nanoseconds since the first access. What is said of it is "about", since a trace has times for parts alone. */
export const TIME = {
  name: "time",
  one: "time",
  label: "about",
  at: (when, length) => `about ${seconds(when, length / 1000)}`,
  access: ({ cycle, at }, length) => `At about ${seconds(at, length / 1000)}, cycle ${grouped(cycle)}`,
  number: (when, length) => seconds(when, length / 1000),
  tick: (tick, step) => seconds(tick, step),
  range: (from, to) => `about ${seconds(from, (to - from) / 100)} to ${seconds(to, (to - from) / 100)}`,
  length: duration,
  held: duration,
  lock: "time locked",
  stretch: ({ times }) => times,
  first: ({ time }) => time,
};

/** The axis that a request is about. */
export const momentsOf = (parameters) => (new URLSearchParams(parameters).get("axis") === TIME.name ? TIME : CYCLES);
