// Colours of counts: from blue to yellow, always brighter or always darker, so that they are told apart without seeing hues.

/** A colour of the OKLCH space (lightness, chroma, hue in degrees) as red, green and blue from 0 to 255. */
function rgb(lightness, chroma, hue) {
  const angle = hue * Math.PI / 180;
  const a = chroma * Math.cos(angle), b = chroma * Math.sin(angle);
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s,
  ];
  return linear.map((value) => {
    const clipped = Math.min(1, Math.max(0, value));
    const encoded = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
    return Math.round(255 * encoded);
  });
}

const STEPS = 256;

/** The colours from few to many, as bytes for an image: red, green, blue, opaque. */
export function ramp(dark) {
  const colors = new Uint32Array(STEPS);
  const bytes = new Uint8ClampedArray(colors.buffer);
  for (let step = 0; step < STEPS; step++) {
    const part = step / (STEPS - 1);
    // On a dark page many is bright, on a light one many is dark. A single access has a contrast of 3:1 to the ground.
    const [lightness, hue] = dark ? [0.52 + 0.43 * part, 262 - 162 * part] : [0.65 - 0.43 * part, 100 + 165 * part];
    bytes.set([...rgb(lightness, 0.06 + 0.08 * Math.abs(2 * part - 1), hue), 255], 4 * step);
  }
  return colors;
}

/** Hues of threads, in degrees: those with most accesses have one each, all others are grey. */
const HUES = [255, 35, 145, 320, 80, 195, 290];

/** The colours of each thread from few to many, and of all others. */
export function ramps(dark) {
  return [...HUES, null].map((hue) => {
    const colors = new Uint32Array(STEPS);
    const bytes = new Uint8ClampedArray(colors.buffer);
    for (let step = 0; step < STEPS; step++) {
      const part = step / (STEPS - 1);
      const lightness = dark ? 0.56 + 0.32 * part : 0.64 - 0.26 * part;
      bytes.set([...rgb(lightness, hue === null ? 0 : 0.13, hue ?? 0), 255], 4 * step);
    }
    return colors;
  });
}

/** A colour of an image as style sheets have it. */
export function style(color) {
  return `rgb(${color & 255} ${color >> 8 & 255} ${color >> 16 & 255})`;
}

/** Which step a count has, where `most` is the largest: by its logarithm, or in proportion to it. */
export function step(count, most, isLinear) {
  if (most <= 1) return STEPS - 1;
  const part = isLinear ? (count - 1) / (most - 1) : Math.log(count) / Math.log(most);
  return Math.min(STEPS - 1, Math.round((STEPS - 1) * part));
}

/** The next number of 1, 2, 5, 10, 20 ...: the scale stays as it is while the picture moves a little. */
export function rounded(most) {
  let size = 1;
  for (;;) {
    for (const digit of [1, 2, 5]) if (digit * size >= most) return digit * size;
    size *= 10;
  }
}
