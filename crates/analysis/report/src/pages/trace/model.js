// What the columns of the page's data mean. A table is `rows` with `counts`: loads, stores, modifies and bytes of each row, one
// after the other. Names of blocks are put together here: a million of them are three numbers each.
const D = JSON.parse(document.getElementById("data").textContent);
const text = i => D.strings[i];
const SPACE = "\u202f";
const grouped = n => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, SPACE);
const percent = (part, all) => all ? (100 * part / all).toFixed(100 * part / all < 10 ? 2 : 1) + SPACE + "%" : "";
const bytesText = n => n < 10240 ? grouped(n) + SPACE + "B" : n < 10485760 ? grouped(Math.round(n / 1024)) + SPACE + "KiB" :
  n < 10737418240 ? grouped(Math.round(n / 1048576)) + SPACE + "MiB" : grouped(Math.round(n / 1073741824)) + SPACE + "GiB";
const escape = s => String(s).replace(/[&<>"]/g, c => ({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;"})[c]);
const accessesAt = (counts, row) => counts[4 * row] + counts[4 * row + 1] + counts[4 * row + 2];
const total = D.head.count[0] + D.head.count[1] + D.head.count[2];
const baseName = path => path.slice(path.lastIndexOf("/") + 1);

const variableName = row => {
  const stem = D.variable_stem[row];
  if (!stem) return text(D.variable_name[row]);
  return D.head.stems[stem - 1] + String(D.variable_number[row]).padStart(4, "0") + "@" + text(D.variable_name[row]) + ">";
};
const siteName = row => text(D.site_kind[row]) + " at " + text(D.site_place[row]);
const thingName = thing => D.thing_site[thing] ? "blocks of " + siteName(D.thing_site[thing] - 1) : text(D.thing_name[thing]);
const functionName = row => text(D.function_name[row]);
const many = (n, what) => grouped(n) + " " + (n === 1 ? what : what === "access" ? "accesses" : what === "modify" ? "modifies" : what + "s");
// What every program has: not its own, and left away unless it is asked for.
const isSystem = module => /^(ld-|ld64|libc[.-]|libm[.-]|libpthread[.-]|libdl[.-]|librt[.-]|libmemtap_|\[vdso\]|linux-vdso)/.test(module);

// Sums by any key over the pairs of thing and place.
const sums = (rows, keyOf) => {
  const of = new Map();
  for (const pair of rows) {
    const key = keyOf(pair);
    let sum = of.get(key);
    if (!sum) of.set(key, sum = [0, 0, 0, 0]);
    for (let i = 0; i < 4; i++) sum[i] += D.pair_counts[4 * pair + i];
  }
  return [...of].sort((a, b) => b[1][0] + b[1][1] + b[1][2] - a[1][0] - a[1][1] - a[1][2]);
};
const lists = (count, keys) => {
  const of = Array.from({length: count}, () => []);
  keys.forEach((key, i) => of[key].push(i));
  return of;
};
const pairsOfThing = lists(D.thing_name.length, D.pair_thing);
const pairsOfPlace = lists(D.place_function.length, D.pair_place);
const placesOfFunction = lists(D.function_name.length, D.place_function);
const pairsOfPlaces = places => places.flatMap(place => pairsOfPlace[place]);

// Lines: places of one file and line, whichever functions they were inlined into.
const lineRows = [], lineOfPlace = [];
{
  const of = new Map();
  D.place_file.forEach((file, place) => {
    if (!D.place_line[place]) return lineOfPlace.push(-1);
    const key = file + ":" + D.place_line[place];
    let row = of.get(key);
    if (row === undefined) {
      of.set(key, row = lineRows.length);
      lineRows.push({file, line: D.place_line[place], places: []});
    }
    lineRows[row].places.push(place);
    lineOfPlace.push(row);
  });
}
const sumOf = (count, rowOfPair) => {
  const counts = new Float64Array(4 * count);
  D.pair_place.forEach((_, pair) => {
    const row = rowOfPair(pair);
    if (row >= 0) for (let i = 0; i < 4; i++) counts[4 * row + i] += D.pair_counts[4 * pair + i];
  });
  return counts;
};
const functionCounts = sumOf(D.function_name.length, pair => D.place_function[D.pair_place[pair]]);
const lineCounts = sumOf(lineRows.length, pair => lineOfPlace[D.pair_place[pair]]);
const siteCounts = sumOf(D.site_kind.length, pair => D.thing_site[D.pair_thing[pair]] - 1);
const thingOfSite = [];
D.thing_site.forEach((site, thing) => { if (site) thingOfSite[site - 1] = thing; });
const variableOfThing = [];
D.variable_thing.forEach((thing, row) => { if (!D.thing_site[thing] && variableOfThing[thing] === undefined) variableOfThing[thing] = row; });
const sourceLine = (file, line) => {
  for (const [first, lines] of D.sources[file] || []) if (line >= first && line < first + lines.length) return lines[line - first];
  return null;
};

const countColumns = counts => [
  {title: "share", width: "6.5rem", share: true, value: row => accessesAt(counts, row), help: "of all accesses of the program"},
  {title: "loads", width: "6rem", number: true, value: row => counts[4 * row], help: "accesses that only read"},
  {title: "stores", width: "6rem", number: true, value: row => counts[4 * row + 1], help: "accesses that only write"},
  {title: "modifies", width: "6rem", least: 1000, number: true, value: row => counts[4 * row + 2], help: "one instruction that reads and writes back, as an increment does"},
  {title: "bytes accessed", width: "8rem", least: 900, number: true, value: row => counts[4 * row + 3]},
];
// How often each allocated byte of a site's blocks was accessed.
const timesAByte = row => D.site_bytes[row] ? Math.round(10 * siteCounts[4 * row + 3] / D.site_bytes[row]) / 10 : 0;
const name = (title, value) => ({title, width: "minmax(8rem,1fr)", name: true, value});
const TABLES = {
  variable: {
    title: "Variables and blocks", rows: D.variable_name.length, counts: D.variable_counts,
    columns: [name("name", variableName),
      {title: "memory", width: "6rem", least: 700, value: row => text(D.variable_region[row]), help: "what the memory is for"},
      // A guest's kernel says neither.
      ...(D.head.machine ? [] : [{title: "module", width: "8rem", least: 1100, value: row => text(D.variable_module[row])},
        {title: "size", width: "6.5rem", least: 800, number: true, value: row => D.variable_size[row], help: "bytes; 0 where it is not known"}]),
      ...countColumns(D.variable_counts)],
    memory: row => D.variable_region[row],
    system: row => isSystem(text(D.variable_module[row])) || ["[tracer]", "[vdso]", "[vvar]", "ld-linux-x86-64.so.2"].includes(text(D.variable_name[row])),
  },
  function: {
    title: "Functions", rows: D.function_name.length, counts: functionCounts,
    columns: [name("function", functionName), {title: D.head.machine ? "mode" : "module", width: "11rem", least: 900, value: row => text(D.function_module[row])},
      ...countColumns(functionCounts)],
    system: row => isSystem(text(D.function_module[row])),
  },
  site: {
    title: "Allocations", rows: D.site_kind.length, counts: siteCounts,
    columns: [name("allocated by", siteName), {title: "blocks", width: "5rem", number: true, value: row => D.site_blocks[row]},
      {title: "live", width: "5rem", least: 800, number: true, value: row => D.site_live_blocks[row], help: "blocks that were never released"},
      {title: "bytes allocated", width: "8rem", least: 800, number: true, value: row => D.site_bytes[row]},
      {title: "bytes live", width: "7rem", least: 1100, number: true, value: row => D.site_live_bytes[row], help: "of blocks that were never released"},
      {title: "times a byte", width: "7rem", least: 1000, number: true, value: timesAByte, help: "how often each allocated byte was accessed"},
      ...countColumns(siteCounts)],
  },
  line: {
    title: "Lines", rows: lineRows.length, counts: lineCounts,
    columns: [{title: "line", width: "minmax(9rem,14rem)", name: true, value: row => baseName(text(lineRows[row].file)) + ":" + lineRows[row].line},
      {title: "source", width: "minmax(10rem,1fr)", least: 700, code: true, value: row => (sourceLine(lineRows[row].file, lineRows[row].line) || "").trim()},
      ...countColumns(lineCounts)],
    system: row => lineRows[row].places.every(place => isSystem(text(D.function_module[D.place_function[place]]))),
  },
};
