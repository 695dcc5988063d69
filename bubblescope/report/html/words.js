// What is said about the timeline. Names from the recording are only ever set as text, never as markup.

const NS = { s: 1e9, ms: 1e6, "µs": 1e3, ns: 1 };

const WAITING = ["starved", "blocked", "host"];

/** Three figures and the unit that suits them. */
function duration(ns) {
  const unit = Object.keys(NS).find((each) => ns >= NS[each]) || "ns";
  const value = ns / NS[unit];
  return `${value.toFixed(unit === "ns" || value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${unit}`;
}

function percent(ratio) {
  if (ratio > 0 && ratio < 0.0005) return "<0.1 %";
  return `${(100 * ratio).toFixed(ratio >= 0.0995 || ratio === 0 ? 0 : 1)} %`;
}

function number(value, decimals = 0) {
  return value.toLocaleString("en-US", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
}

/** The unit for all times of a page, by its largest. */
function clockUnit(scene) {
  const last = scene.offset + scene.window;
  return Object.keys(NS).find((unit) => last >= 10 * NS[unit]) || "ns";
}

/** A time on the page's clock, as exact as `step` asks for. */
function clock(scene, time, step) {
  const unit = clockUnit(scene);
  const decimals = Math.min(9, Math.max(0, -Math.floor(Math.log10(step / NS[unit]) + 1e-9)));
  return `${number((scene.offset + time) / NS[unit], decimals)} ${unit}`;
}

/** Times at which the axis has a mark: round ones on the page's clock. */
function ticks(scene, from, to, pixels) {
  const rough = ((to - from) * 120) / pixels;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = Math.max(1, [1, 2, 5, 10].map((each) => each * power).find((each) => each >= rough));
  const found = [];
  for (let at = Math.ceil((from + scene.offset) / step) * step; at <= to + scene.offset; at += step) {
    found.push({ time: at - scene.offset, label: clock(scene, at - scene.offset, step) });
  }
  return found;
}

function batchWords(scene, batch) {
  if (batch < 0) return null;
  const [name, phase, tokens, prefix] = scene.batches[batch];
  const known = phase === "unknown" ? "" : `, ${phase}`;
  const size = tokens < 0 ? "" : `: ${number(tokens)} ${tokens === 1 ? "token" : "tokens"}`;
  const after = prefix < 0 ? "" : ` after ${number(prefix)} in the cache`;
  return `microbatch ${name}${known}${size}${after}`;
}

/** What the layers took that the stage ran for the microbatch, where they are recorded one by one. */
function layerWords(scene, stretch) {
  const known = stretch.state === "compute" && scene.layers[`${stretch.lane},${stretch.batch}`];
  if (!known) return null;
  const [count, ns, slowest, longest, attention] = known;
  const what = `${attention ? "attention of " : ""}${number(count)} ${count === 1 ? "layer" : "layers"}`;
  return `${what}: ${duration(ns)}, the slowest is layer ${slowest} with ${duration(longest)}`;
}

/** Who is to blame; pieces of a group whose culprit is not its main one have lost his name. */
function blameWords(scene, state, blame) {
  if (blame >= 0) return scene.blames[blame][0];
  return scene.blames.length && WAITING.includes(scene.states[state]) ? "for other reasons" : null;
}

/** Everything known about a stretch, as far as it is in view: the first line is its title. */
function stretchWords(scene, level, stretch, view) {
  const [length, parts] = [stretch.end - stretch.begin, partsOf(level, stretch)];
  const told = parts.filter(({ ns }, nth) => nth === 0 || ns / length >= 0.005);
  const lines = told.map(({ state, blame, ns }) => {
    const share = parts.length > 1 ? `${percent(ns / length)} ${scene.states[state]}, ${duration(ns)}` : null;
    return [share, blameWords(scene, state, blame)].filter(Boolean).join(": ");
  });
  const cut = (stretch.begin <= view.from && view.from > 0)
    || (stretch.end >= view.to && view.to < scene.window);
  const pieces = level.count.slice(stretch.low, stretch.high).reduce((sum, count) => sum + count, 0);
  const mostly = parts[0].ns / length < 0.95 ? "mostly " : "";
  return [
    `${scene.lanes[stretch.lane]}: ${mostly}${stretch.state}, ${duration(length)}${cut ? " in view" : ""}`,
    batchWords(scene, stretch.batch),
    layerWords(scene, stretch),
    ...lines,
    `from ${clock(scene, stretch.begin, 1000)} to ${clock(scene, stretch.end, 1000)}`,
    pieces > 1 ? `${number(pieces)} pieces` : null,
  ].filter(Boolean);
}

/** What to write on a stretch that is so many pixels wide: words, else a letter, else nothing. */
function stretchLabel(scene, level, stretch, pixels) {
  const fits = (text) => text && pixels >= 7 * text.length + (stretch.state === "compute" ? 4 : 9);
  if (stretch.state === "compute") {
    const name = stretch.batch < 0 ? null : scene.batches[stretch.batch][0];
    return fits(name) ? name : null;
  }
  const blame = partsOf(level, stretch)[0].blame;
  const whom = blame < 0 ? null : scene.blames[blame][1];
  const words = whom === null ? null : `waits for stage ${whom}`;
  return [words, stretch.state, stretch.state[0].toUpperCase()].find(fits) || null;
}
