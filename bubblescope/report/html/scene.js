// What to draw: the pieces of the timeline that are in view, at a level of detail that fits the screen.
// Times are nanoseconds from the begin of the window.

const BATCH_COLOURS = 6;

/** Undo the packing: the text behind base64 of gzip. */
async function unpacked(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = new Uint8Array(packed.length);
  for (let at = 0; at < packed.length; at++) bytes[at] = packed.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

/** The columns of a level as arrays, and where each lane's rows begin and end. */
function readLevel(packed) {
  const size = packed.step.length;
  const level = {
    cell: packed.cell, begin: new Float64Array(size), end: new Float64Array(size), ns: new Float64Array(size),
    state: packed.state, batch: packed.batch, blame: packed.blame, count: packed.count, lanes: [],
  };
  let at = 0;
  for (let row = 0; row < size; row++) {
    at += packed.step[row];
    level.begin[row] = at;
    level.end[row] = at + packed.length[row];
    level.ns[row] = packed.length[row] - packed.rest[row];
  }
  let first = 0;
  for (const rows of packed.rows) {
    level.lanes.push([first, first + rows]);
    first += rows;
  }
  return level;
}

/** The first row of [low, high) for which `past` holds; it must hold for all that follow. */
function firstRow(low, high, past) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (past(middle)) high = middle; else low = middle + 1;
  }
  return low;
}

/** The rows of a lane that lie at least in part between two times. */
function rowsBetween(level, lane, from, to) {
  const [first, last] = level.lanes[lane];
  return [
    firstRow(first, last, (row) => level.end[row] > from),
    firstRow(first, last, (row) => level.begin[row] >= to),
  ];
}

/** The coarsest level whose groups are not seen as such; a coarser one where that is too much to draw. */
function levelFor({ levels, most }, from, to, share) {
  const wanted = 1.5 * share * (to - from);
  let chosen = levels.length - 1;
  while (chosen > 0 && levels[chosen].cell > wanted) chosen--;
  const drawn = (level) => level.lanes.reduce((sum, _, lane) => {
    const [first, last] = rowsBetween(level, lane, from, to);
    return sum + last - first;
  }, 0);
  while (chosen < levels.length - 1 && drawn(levels[chosen]) > most) chosen++;
  return levels[chosen];
}

/** The rows that share their time with a row: a group, or the row alone. */
function unitOf(level, lane, row) {
  const [first, last] = level.lanes[lane];
  let low = row, high = row + 1;
  while (low > first && level.begin[low - 1] === level.begin[row]) low--;
  while (high < last && level.begin[high] === level.begin[row]) high++;
  return [low, high];
}

/** Which fill a row has: its state, or for compute the colour of its microbatch. */
function fillOf(scene, level, row) {
  const state = scene.states[level.state[row]];
  if (state !== "compute") return state;
  return level.batch[row] < 0 ? "several" : `batch${level.batch[row] % BATCH_COLOURS}`;
}

/** Rectangles per fill as plotly draws areas: their corners, with a gap after each. */
function rectangles(scene, level, from, to, top, height) {
  const fills = new Map();
  scene.lanes.forEach((_, lane) => {
    let [row, last] = rowsBetween(level, lane, from, to);
    if (row < last) row = unitOf(level, lane, row)[0];
    while (row < last) {
      const end = unitOf(level, lane, row)[1];
      let bottom = top(lane) + height;
      for (; row < end; row++) {
        const tall = (height * level.ns[row]) / (level.end[row] - level.begin[row]);
        const fill = fillOf(scene, level, row);
        if (!fills.has(fill)) fills.set(fill, { x: [], y: [] });
        const { x, y } = fills.get(fill);
        const [left, right] = [Math.max(level.begin[row], from), Math.min(level.end[row], to)];
        x.push(left, right, right, left, NaN);
        y.push(bottom, bottom, bottom - tall, bottom - tall, NaN);
        bottom -= tall;
      }
    }
  });
  return fills;
}

/**
 * What the eye takes for one piece: rows in a row of one state, or of one microbatch's compute. Short
 * waits within that compute do not part it: those that are no more than a small share of the view.
 */
function stretches(scene, level, lane, from, to) {
  const found = [];
  let [row, last] = rowsBetween(level, lane, from, to);
  if (row < last) row = unitOf(level, lane, row)[0];
  while (row < last) {
    const [low, high] = unitOf(level, lane, row);
    const most = largest(level, low, high);
    const state = scene.states[level.state[most]];
    const batch = level.batch[most];
    const before = found[found.length - 1];
    const within = before && before.state === "compute" && before.batch === batch && batch >= 0
      && level.end[low] - level.begin[low] < (to - from) / 60;
    if (before && (within || (before.state === state && (state !== "compute" || before.batch === batch)))) {
      before.end = level.end[low];
      before.high = high;
    } else {
      found.push({ lane, state, batch, low, high, begin: level.begin[low], end: level.end[low] });
    }
    row = high;
  }
  return found;
}

/** Of the rows of a unit the one with the most time. */
function largest(level, low, high) {
  let most = low;
  for (let row = low + 1; row < high; row++) if (level.ns[row] > level.ns[most]) most = row;
  return most;
}

/** What a stretch is made of, by state and culprit, the most first. */
function partsOf(level, { low, high }) {
  const parts = new Map();
  for (let row = low; row < high; row++) {
    const key = `${level.state[row]} ${level.blame[row]}`;
    const part = parts.get(key) || { state: level.state[row], blame: level.blame[row], ns: 0 };
    part.ns += level.ns[row];
    parts.set(key, part);
  }
  return Array.from(parts.values()).sort((a, b) => b.ns - a.ns);
}

/** How much of the height the state of a stretch fills, and how much of it lies below. */
function bandOf(scene, level, stretch) {
  const length = stretch.end - stretch.begin;
  const own = scene.states.indexOf(stretch.state);
  const parts = partsOf(level, stretch);
  const sum = (chosen) => parts.filter(chosen).reduce((total, { ns }) => total + ns, 0) / length;
  return { share: sum(({ state }) => state === own), below: sum(({ state }) => state < own) };
}
