// The live page: figures from the gateway's event stream, and one prompt played twice. Text is only ever set as text, never as HTML.

import { draw } from "./curves.js";
import { play } from "./try.js";

const find = (id) => document.getElementById(id);
const CURVE_POINTS = 3000; // of one stream: five minutes of looks; a longer one is drawn from every second look, every fourth, ...
const CURVES_KEPT = 120; // streams whose curves are remembered
const RETRY_MS = 2000;
const RATE_S = 2; // over which tokens/s are taken

const curves = new Map(); // stream id -> {points in, points out, bursts, clusters}
let selected = null;
let key = "";
let last = null;

const base = `${location.origin}/v1`;
find("base").textContent = base;
find("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(base);
    find("copy").textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(find("base"));
  }
});

// The event stream, read by fetch: an EventSource cannot carry a key.

async function* looks() {
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const response = await fetch("/-/live", { headers, cache: "no-store" });
  if (response.status === 403) {
    find("unlock").hidden = false;
    throw new Error("locked");
  }
  if (!response.ok) throw new Error(`status ${response.status}`);
  find("unlock").hidden = true;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    // A tab that slept gets many at once; all of them belong to the curves.
    for (const part of parts) if (part.startsWith("data: ")) yield JSON.parse(part.slice(6));
  }
}

async function watch() {
  for (;;) {
    try {
      for await (const look of looks()) {
        say("live", "live");
        keep(look);
        last = look;
        schedule();
      }
      say("lost", "the gateway ended the connection; trying again");
    } catch (error) {
      if (error.message === "locked") {
        say("lost", key ? "this key opens nothing: a client key is needed" : "a client key is needed");
        await new Promise((resolve) => find("unlock").addEventListener("submit", resolve, { once: true }));
        continue;
      }
      say("lost", "no connection to the gateway; trying again");
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

find("unlock").addEventListener("submit", (event) => {
  event.preventDefault();
  key = find("unlock-key").value.trim();
  models();
});

function say(state, text) {
  if (find("state").textContent === text) return;
  find("state").dataset.state = state;
  find("state").textContent = text;
}

// What is remembered of each stream: its curves since this page was opened.

function keep(look) {
  for (const stream of [...look.streams, ...look.ended]) {
    let curve = curves.get(stream.id);
    if (!curve) {
      if (stream.state === "ended") continue; // it was over before anybody looked
      curve = { in: [], out: [], burstsIn: [], burstsOut: [], clustersIn: stream.clusters_in, clustersOut: stream.clusters_out, over: false, every: 1, looks: 0 };
      curves.set(stream.id, curve);
      if (curves.size > CURVES_KEPT) curves.delete(curves.keys().next().value);
    }
    if (curve.over) continue;
    curve.over = stream.state === "ended";
    curve.looks += 1;
    if (curve.looks % curve.every === 0 || curve.over) {
      curve.in.push([stream.age, stream.in]);
      curve.out.push([stream.age, stream.out]);
    }
    if (curve.in.length >= CURVE_POINTS) {
      curve.every *= 2;
      for (const side of ["in", "out"]) curve[side] = curve[side].filter((_, index) => index % 2 === 0);
    }
    if (stream.clusters_in > curve.clustersIn) curve.burstsIn.push([stream.age, stream.in]);
    if (stream.clusters_out > curve.clustersOut) curve.burstsOut.push([stream.age, stream.out]);
    curve.clustersIn = stream.clusters_in;
    curve.clustersOut = stream.clusters_out;
    for (const bursts of [curve.burstsIn, curve.burstsOut]) if (bursts.length > CURVE_POINTS) bursts.shift();
  }
}

function rate(points) {
  if (points.length < 2) return 0;
  const to = points.at(-1);
  let first = points.length - 2;
  while (first > 0 && to[0] - points[first][0] < RATE_S) first -= 1;
  const from = points[first];
  return to[0] > from[0] ? (to[1] - from[1]) / (to[0] - from[0]) : 0;
}

// Drawing, at most once a frame of the screen; twice a second where motion is not wanted.

const calm = matchMedia("(prefers-reduced-motion: reduce)");
let planned = false;
function schedule() {
  if (planned) return;
  planned = true;
  const show = () => {
    planned = false;
    render(last);
  };
  if (calm.matches) setTimeout(show, 500);
  else requestAnimationFrame(show);
}

const seconds = (value) => (value === null || value === undefined ? "–" : value < 1 ? `${Math.round(value * 1000)}\u00a0ms` : `${value.toFixed(2)}\u00a0s`);

function set(id, text) {
  if (find(id).textContent !== text) find(id).textContent = text;
}

function render(look) {
  const totals = look.totals;
  set("version", look.version);
  set("clusters-in", String(totals.clusters_in));
  set("clusters-out", String(totals.clusters_out));
  set("freeze-in", seconds(totals.freeze_in || null));
  set("freeze-out", seconds(totals.freeze_out || null));
  set("overhead", totals.overhead_p50 === null ? "–" : `≤\u00a0${seconds(totals.overhead_p50)}, ≤\u00a0${seconds(totals.overhead_p99)}`);
  set("active", String(look.active));
  set("held", String(Math.round(look.held)));
  set("heartbeats", String(totals.heartbeats));
  rows(find("streams"), [...look.streams, ...look.ended], (stream) => stream.id, streamCells);
  find("no-streams").hidden = look.streams.length + look.ended.length > 0;
  rows(find("upstreams"), look.upstreams, (upstream) => upstream.name, (upstream) => [upstream.name, upstream.breaker, upstream.keys]);
  rows(find("ends"), totals.ends, (end) => end.reason, (end) => [end.reason, String(end.count), end.remedy]);
  detail(look);
}

function streamCells(stream) {
  const curve = curves.get(stream.id);
  const flowing = stream.state !== "ended" && curve;
  const kind = stream.kind ? ` ${stream.kind}` : "";
  return [
    { button: stream.model, label: `curves of ${stream.model}`, press: () => select(stream.id) },
    `${stream.state === "ended" ? "ended" : `${stream.state}${kind}`}${stream.raw ? ", raw" : ""}`,
    seconds(stream.first),
    flowing ? `${Math.round(rate(curve.in))} / ${Math.round(rate(curve.out))}` : "–",
    stream.held === undefined ? "–" : String(Math.round(stream.held)),
    `${stream.clusters_in} → ${stream.clusters_out}`,
    String(stream.beats),
    stream.end ? (stream.remedy ? `${stream.end}: ${stream.remedy}` : stream.end) : "",
  ];
}

// Rows are kept by their key, so that focus and selection stay where they are.
function rows(table, items, keyOf, cellsOf) {
  const body = table.tBodies[0];
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  items.forEach((item, position) => {
    const id = keyOf(item);
    let row = old.get(id);
    old.delete(id);
    if (!row) {
      row = document.createElement("tr");
      row.dataset.key = id;
    }
    if (body.rows[position] !== row) body.insertBefore(row, body.rows[position] ?? null);
    cellsOf(item).forEach((cell, column) => {
      const place = row.cells[column] ?? row.insertCell();
      fill(place, cell);
    });
    row.lastElementChild.className = "end";
    if (id === selected) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  });
  for (const row of old.values()) row.remove();
}

function fill(place, cell) {
  if (typeof cell === "string") {
    if (place.textContent !== cell) place.textContent = cell;
    return;
  }
  if (place.firstElementChild) return;
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = cell.button;
  button.setAttribute("aria-label", cell.label);
  button.addEventListener("click", cell.press);
  place.append(button);
}

function select(id) {
  selected = id;
  render(last);
  find("detail-title").focus({ preventScroll: false });
}

function detail(look) {
  const stream = [...look.streams, ...look.ended].find((each) => each.id === selected);
  find("detail").hidden = !stream;
  if (!stream) return;
  set("detail-title", `${stream.model}, ${stream.api}, request ${stream.id}`);
  const curve = curves.get(selected);
  const told = `${Math.round(stream.in)} tokens arrived in ${stream.clusters_in} clusters, at most ${Math.round(stream.peak_in)} in 50 ms; ` +
    `${Math.round(stream.out)} delivered in ${stream.clusters_out}, at most ${Math.round(stream.peak_out)}. ` +
    `Longest freeze ${seconds(stream.freeze_in)} in, ${seconds(stream.freeze_out)} out.`;
  set("detail-text", curve ? told : `${told} Its curves were not seen: it began and ended between two looks, or before this page was opened.`);
  const canvas = find("detail-curves");
  canvas.hidden = !curve;
  if (!curve) return;
  canvas.setAttribute("aria-label", `Tokens against time. ${told}`);
  draw(canvas, [
    { colour: "raw", points: curve.in, bursts: curve.burstsIn, steps: true },
    { colour: "smooth", points: curve.out, bursts: curve.burstsOut },
  ]);
}

// Try it

async function models() {
  try {
    const headers = key ? { authorization: `Bearer ${key}` } : {};
    const listed = (await (await fetch("/v1/models", { headers })).json()).data.map((model) => model.id);
    find("models").replaceChildren();
    for (const name of listed.slice(0, 500)) {
      const option = document.createElement("option");
      option.value = name;
      find("models").append(option);
    }
    if (!find("model").value) find("model").value = listed.includes("smooth-then-clusters") ? "smooth-then-clusters" : (listed[0] ?? "");
  } catch {
    // An upstream that lists nothing without a key: the name is typed.
  }
}

let playing = null;
find("try").addEventListener("submit", async (event) => {
  event.preventDefault();
  if (playing) return;
  playing = new AbortController();
  find("play").disabled = true;
  find("stop").hidden = false;
  try {
    const asked = { model: find("model").value, prompt: find("prompt").value, key: find("key").value.trim() || key };
    await play({ ...asked, find, signal: playing.signal });
  } finally {
    const focused = document.activeElement === find("stop");
    playing = null;
    find("play").disabled = false;
    find("stop").hidden = true;
    if (focused) find("play").focus();
  }
});
find("stop").addEventListener("click", () => playing?.abort());

addEventListener("resize", () => last && render(last));
models();
watch();
