// The timeline: plotly draws areas, axis and zoom box from numbers alone; names and marks lie over it.

const OPTIONS = { displayModeBar: false, doubleClick: false, showTips: false };
const EDGE = 18;
const AXIS = 28;
const GAP = 8;
const LETTERS = 13;
const PAPER = 610;
const OPEN_ROW = 22;
const MOST_OPEN_ROWS = 4;

/** The requests (else bursts) that can be jumped to, each in the first row where it overlaps none. */
function openRows(options) {
  const rows = [];
  for (const { value, text, dataset } of options) {
    const each = { value, text, begin: Number(dataset.begin), end: Number(dataset.end) };
    const free = rows.find((row) => row[row.length - 1].end <= each.begin);
    if (free) free.push(each); else if (rows.length < MOST_OPEN_ROWS) rows.push([each]);
  }
  return rows;
}

function startTimeline(scene) {
  const chart = document.getElementById("chart");
  const plot = document.getElementById("plot");
  const opens = document.getElementById("opens");
  const marks = document.getElementById("marks");
  const tip = document.getElementById("tip");
  const note = document.getElementById("detail");
  const select = document.getElementById("jump");
  const jumps = Array.from(select.options).filter((option) => option.dataset.begin !== undefined);
  const requests = jumps.filter((option) => option.value.startsWith("request"));
  const open = openRows(requests.length ? requests : jumps);
  const view = { from: 0, to: scene.window };
  let wide, level, seen, band = null, selected = null, printing = false, due = false;

  const above = open.length * OPEN_ROW;
  const top = (lane) => above + lane * (scene.height + GAP);
  const tall = top(scene.lanes.length);
  const toPixel = (time) => EDGE + ((time - view.from) / (view.to - view.from)) * wide;
  const toTime = (pixel) => view.from + ((pixel - EDGE) / wide) * (view.to - view.from);

  /** Show what lies between two times, as far as the recording has it; never less than 100 ns. */
  function show(from, to) {
    const length = Math.min(Math.max(to - from, 100), scene.window);
    view.from = Math.min(Math.max((from + to - length) / 2, 0), scene.window - length);
    view.to = view.from + length;
    schedule();
  }

  function zoom(factor, around = (view.from + view.to) / 2) {
    show(around - (around - view.from) * factor, around + (view.to - around) * factor);
  }

  function pan(share) {
    const by = share * (view.to - view.from);
    show(view.from + by, view.to + by);
  }

  function schedule() {
    if (due) return;
    due = true;
    requestAnimationFrame(() => { due = false; draw(); });
  }

  function areas(from, to) {
    return Array.from(rectangles(scene, level, from, to, top, scene.height), ([uid, { x, y }]) => ({
      type: "scatter", mode: "none", fill: "toself", fillcolor: "gray", hoverinfo: "skip", uid, x, y,
    }));
  }

  function labels() {
    const found = { numbers: { x: [], y: [], text: [] }, words: { x: [], y: [], text: [] } };
    const scale = wide / (view.to - view.from);
    for (const stretch of seen.flat()) {
      const [left, right] = [Math.max(stretch.begin, view.from), Math.min(stretch.end, view.to)];
      const text = stretchLabel(scene, level, stretch, (right - left) * scale);
      if (text === null) continue;
      const kind = found[stretch.state === "compute" ? "numbers" : "words"];
      const { share, below } = bandOf(scene, level, stretch);
      const half = LETTERS / 2 / scene.height;
      if (share < 2 * half) continue;
      // In the middle of the lane, or as near to it as the state is.
      const middle = Math.min(Math.max(0.5, below + half), below + share - half);
      kind.x.push((left + right) / 2);
      kind.y.push(top(stretch.lane) + scene.height * (1 - middle));
      kind.text.push(text);
    }
    return Object.entries(found).map(([uid, points]) => ({
      type: "scatter", mode: "text", textfont: { size: 12 }, hoverinfo: "skip", uid, ...points,
    }));
  }

  function layout() {
    const marked = ticks(scene, view.from, view.to, wide).filter(({ time, label }) => {
      const pixel = toPixel(time), half = 3.4 * label.length;
      return pixel - half > 0 && pixel + half < wide + 2 * EDGE;
    });
    return {
      width: wide + 2 * EDGE, height: tall + AXIS, margin: { l: EDGE, r: EDGE, t: 0, b: AXIS },
      showlegend: false, hovermode: false, dragmode: "zoom",
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      xaxis: {
        range: [view.from, view.to], zeroline: false, ticks: "outside",
        tickvals: marked.map(({ time }) => time), ticktext: marked.map(({ label }) => label),
      },
      yaxis: { range: [tall, 0], fixedrange: true, visible: false },
    };
  }

  function draw() {
    wide = (printing ? Math.min(PAPER, plot.clientWidth) : plot.clientWidth) - 2 * EDGE;
    // Half a view more on both sides, so that there is something to see while it is dragged.
    const margin = (view.to - view.from) / 2;
    const [from, to] = [Math.max(view.from - margin, 0), Math.min(view.to + margin, scene.window)];
    level = levelFor(scene, from, to, (view.to - view.from) / (to - from) / wide);
    seen = scene.lanes.map((_, lane) => stretches(scene, level, lane, view.from, view.to));
    Plotly.react(plot, [...areas(from, to), ...labels()], layout(), OPTIONS);
    note.textContent = level.cell === 0
      ? "Every piece is drawn, as long as it was."
      : `Pieces shorter than ${duration(level.cell)} are drawn together here: `
        + "how much of the height a state fills is its share of that time.";
    opens.replaceChildren();
    open.forEach((row, nth) => row.forEach((each) => markOpen(each, nth)));
    drawMarks();
  }

  function mark(layer, kind, begin, end, from, height) {
    const [left, right] = [Math.max(toPixel(begin), EDGE), Math.min(toPixel(end), EDGE + wide)];
    if (right - left < (layer === opens ? 3 : 0.01)) return null;
    const box = document.createElement(layer === opens ? "button" : "div");
    box.className = kind;
    const width = Math.max(right - left, 2);
    box.style.cssText = `left:${left}px;width:${width}px;top:${from}px;height:${height}px`;
    layer.append(box);
    return box;
  }

  function markOpen({ value, text, begin, end }, row) {
    const box = mark(opens, "open", begin, end, row * OPEN_ROW, OPEN_ROW - 4);
    if (!box) return;
    const room = toPixel(Math.min(end, view.to)) - toPixel(Math.max(begin, view.from)) - 8;
    box.title = text;
    const forms = [text, value, value.replace(/\D+/, "")];
    box.textContent = forms.find((form) => 6.8 * form.length <= room) || "";
    box.tabIndex = -1;
    box.addEventListener("click", () => choose(value));
  }

  /** Over the drawing: the chosen request, the piece that is looked at, and its microbatch on every stage. */
  function drawMarks() {
    marks.replaceChildren();
    if (band) mark(marks, "band", band[0], band[1], 0, tall - GAP);
    const chosen = stretchAt(selected);
    if (!chosen) return;
    for (const { lane, state, batch, begin, end } of chosen.batch < 0 ? [] : seen.flat()) {
      if (batch !== chosen.batch || state !== "compute") continue;
      mark(marks, "batch", begin, end, top(lane), scene.height);
    }
    mark(marks, "piece", chosen.begin, chosen.end, top(chosen.lane), scene.height);
  }

  function stretchAt(place) {
    return place && seen[place.lane].find(({ begin, end }) => begin <= place.time && place.time < end);
  }

  /** Look at the piece at a place: mark it, and say what is known beside the given point of the page. */
  function look(place, x, y) {
    selected = place;
    drawMarks();
    const chosen = stretchAt(place);
    tip.hidden = !chosen;
    if (!chosen) return;
    const lines = stretchWords(scene, level, chosen, view);
    tip.replaceChildren(...lines.map((line, nth) => {
      const row = document.createElement(nth ? "div" : "strong");
      row.textContent = line;
      return row;
    }));
    const box = tip.getBoundingClientRect();
    const room = document.documentElement;
    const left = x + 14 + box.width > room.clientWidth ? x - 14 - box.width : x + 14;
    const upper = y + 14 + box.height > room.clientHeight ? y - 14 - box.height : y + 14;
    tip.style.left = `${Math.max(left, 4)}px`;
    tip.style.top = `${Math.max(upper, 4)}px`;
  }

  function placeOf(event) {
    const box = plot.getBoundingClientRect();
    const lane = Math.floor((event.clientY - box.top - above) / (scene.height + GAP));
    const time = toTime(event.clientX - box.left);
    return scene.lanes[lane] === undefined || time < view.from || time > view.to ? null : { lane, time };
  }

  /** Go to the next or previous piece, or to another lane. */
  function step(sideways, lanes) {
    const before = stretchAt(selected);
    let { lane, time } = before ? selected : { lane: 0, time: view.from };
    if (before && sideways) time = sideways > 0 ? before.end : before.begin - 1;
    lane = Math.min(Math.max(lane + lanes, 0), scene.lanes.length - 1);
    time = Math.min(Math.max(time, 0), scene.window - 1);
    if (time < view.from || time >= view.to) {
      show(time - (view.to - view.from) / 2, time + (view.to - view.from) / 2);
      draw();
    }
    const found = stretchAt({ lane, time });
    if (found) time = (Math.max(found.begin, view.from) + Math.min(found.end, view.to)) / 2;
    const box = plot.getBoundingClientRect();
    const pixel = Math.min(Math.max(toPixel(time), EDGE), EDGE + wide);
    look({ lane, time }, box.left + pixel, box.top + top(lane) + scene.height);
  }

  function showSelected() {
    const chosen = stretchAt(selected);
    if (chosen) show(2 * chosen.begin - chosen.end, 2 * chosen.end - chosen.begin);
  }

  const actions = {
    earlier: () => pan(-0.5), later: () => pan(0.5), in: () => zoom(0.5), out: () => zoom(2),
    all: () => { band = null; select.value = ""; show(0, scene.window); },
  };
  const keys = {
    ArrowLeft: () => step(-1, 0), ArrowRight: () => step(1, 0), ArrowUp: () => step(0, -1),
    ArrowDown: () => step(0, 1), "+": actions.in, "=": actions.in, "-": actions.out, "0": actions.all,
    "[": actions.earlier, "]": actions.later, Enter: showSelected, Escape: () => look(null),
  };

  /** Zoom to a request or burst and mark it. */
  function choose(value) {
    const option = jumps.find((each) => each.value === value);
    if (!option) return actions.all();
    select.value = value;
    band = [Number(option.dataset.begin), Number(option.dataset.end)];
    const margin = (band[1] - band[0]) / 20;
    return show(band[0] - margin, band[1] + margin);
  }

  chart.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== chart || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  chart.addEventListener("mousemove", (event) => {
    look(event.buttons ? null : placeOf(event), event.clientX, event.clientY);
  });
  chart.addEventListener("mouseleave", () => look(null));
  chart.addEventListener("blur", () => look(null));
  chart.addEventListener("dblclick", actions.all);
  chart.addEventListener("wheel", (event) => {
    const sideways = event.shiftKey ? event.deltaY : event.deltaX;
    if (!event.ctrlKey && Math.abs(sideways) <= Math.abs(event.deltaY) && !event.shiftKey) return;
    event.preventDefault();
    if (!event.ctrlKey) pan(sideways / 800);
    else zoom(2 ** (event.deltaY / 200), toTime(event.clientX - plot.getBoundingClientRect().left));
  }, { passive: false });
  for (const button of document.querySelectorAll("[data-do]")) {
    button.addEventListener("click", actions[button.dataset.do]);
  }
  select.addEventListener("change", () => choose(select.value));
  for (const button of document.querySelectorAll("button[data-jump]")) {
    button.addEventListener("click", () => {
      choose(button.dataset.jump);
      document.getElementById("timeline").scrollIntoView();
      chart.focus({ preventScroll: true });
    });
  }
  chart.style.setProperty("--above", `${above}px`);
  draw();
  plot.on("plotly_relayout", (change) => {
    if (change["xaxis.range[0]"] !== undefined) show(change["xaxis.range[0]"], change["xaxis.range[1]"]);
  });
  addEventListener("resize", schedule);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
}
