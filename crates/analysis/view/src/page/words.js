// Numbers and paths as people read them.

const THIN = "\u202f";

/** Bytes of a cache line. */
export const LINE = 64;

/** 1234567 as 1 234 567. */
export function grouped(number) {
  return String(Math.round(number)).replace(/\B(?=(\d{3})+$)/g, THIN);
}

/** Four significant digits at most, with k, M, G or T. */
export function short(number) {
  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]];
  for (const [size, unit] of units) {
    if (Math.abs(number) >= size) {
      const base = unit === "k" ? 1e3 : size;
      return `${Number((number / base).toPrecision(3))}${THIN}${unit}`;
    }
  }
  return grouped(number);
}

/** A time in nanoseconds, in the unit in which `step`, its distance to the next one, has digits. */
export function seconds(nanoseconds, step) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"]];
  const [size, unit] = units.find(([size]) => step >= size / 10) ?? units[2];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size)));
  return `${(nanoseconds / size).toFixed(Math.min(3, digits))}${THIN}${unit}`;
}

/** A length of time in nanoseconds, with three digits. */
export function duration(nanoseconds) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];
  const [size, unit] = units.find(([size]) => nanoseconds >= size) ?? units[3];
  return `${Number((nanoseconds / size).toPrecision(3))}${THIN}${unit}`;
}

/** Bytes, with a binary unit. */
export function bytes(number) {
  const units = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]];
  for (const [size, unit] of units) {
    if (number >= size) return `${Number((number / size).toPrecision(3))}${THIN}${unit}`;
  }
  return `${grouped(number)}${THIN}B`;
}

/** One thing or several. */
export function counted(number, one, several = `${one}s`) {
  return `${grouped(number)} ${number === 1 ? one : several}`;
}

/** The last folders of a path, as many as fit into so many characters. */
export function shortPath(path, most = 60) {
  if (path.length <= most) return path;
  const slash = path.indexOf("/", path.length - most + 1);
  return slash < 0 ? path : `…${path.slice(slash)}`;
}

/** A part of a whole in per cent. */
export function share(part, whole) {
  return `${Number((100 * part / whole).toPrecision(3))}${THIN}%`;
}
