// One prompt asked twice at the same time, raw and smooth, and both shown as their text appears.

import { draw } from "./curves.js";

const CLUSTER_TOKENS = 24;
const CLUSTER_MS = 50;
const TEXT_KEPT = 200_000; // characters on the page; the figures go on
const POINTS_KEPT = 20_000; // of one curve; later text counts for the last

// About four bytes of Latin text to a token, one CJK character: the gateway's own estimate.
function weigh(text) {
  let tokens = 0;
  for (const character of text) tokens += character.codePointAt(0) > 0x2e7f ? 1 : character.codePointAt(0) > 0x7f ? 0.5 : 0.25;
  return tokens;
}

class Side {
  constructor(name, began, find) {
    this.colour = name;
    this.began = began;
    this.text = find(`${name}-text`);
    this.figures = find(`${name}-figures`);
    this.text.replaceChildren();
    this.figures.textContent = "";
    this.said = []; // [kind, text] of each stretch: deltas are cut elsewhere on either side
    this.points = [[0, 0]];
    this.bursts = [];
    this.window = [];
    this.blindUntil = this.shown = 0;
    this.tokens = this.most = this.freeze = 0;
    this.now = 0;
    this.first = this.before = null;
    this.end = "";
  }

  add(kind, text) {
    const now = this.now; // of the read that brought it: what comes together counts as one moment
    const tokens = weigh(text);
    this.tokens += tokens;
    const stretch = this.said.at(-1);
    if (stretch?.[0] === kind) stretch[1] += text;
    else this.said.push([kind, text]);
    if (this.first === null) this.first = now;
    else this.freeze = Math.max(this.freeze, now - this.before);
    this.before = now;
    if (this.points.length < POINTS_KEPT) this.points.push([now / 1000, this.tokens]);
    else this.points[this.points.length - 1] = [now / 1000, this.tokens];
    this.window.push([now, tokens]);
    while (now - this.window[0][0] >= CLUSTER_MS) this.window.shift();
    const held = this.window.reduce((sum, each) => sum + each[1], 0);
    this.most = Math.max(this.most, held);
    if (now < this.blindUntil) this.bursts.at(-1)[1] = this.tokens;
    else if (held >= CLUSTER_TOKENS) {
      this.bursts.push([now / 1000, this.tokens]);
      this.blindUntil = this.window[0][0] + CLUSTER_MS;
      this.window = [];
    }
    this.show(kind, text);
  }

  show(kind, text) {
    const tag = kind === "reasoning" ? "I" : "SPAN";
    let place = this.text.lastElementChild;
    if (!place || place.tagName !== tag) {
      place = document.createElement(tag.toLowerCase());
      this.text.append(place);
    }
    if (this.shown < TEXT_KEPT) place.append(text);
    this.shown += text.length;
  }

  told() {
    this.text.scrollTop = this.text.scrollHeight;
    const ms = (value) => (value === null ? "–" : value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(2)} s`);
    this.figures.textContent = `first token ${ms(this.first)}, ${this.bursts.length} clusters, at most ${Math.round(this.most)} tokens in 50 ms, ` +
      `longest freeze ${ms(this.freeze)}${this.end ? `, ended: ${this.end}` : ""}`;
  }
}

async function read(side, { model, prompt, key, signal }, mode) {
  const headers = { "content-type": "application/json", "x-client-streams": mode };
  if (key) headers.authorization = `Bearer ${key}`;
  const body = JSON.stringify({ model, stream: true, messages: [{ role: "user", content: prompt }] });
  try {
    const response = await fetch("/v1/chat/completions", { method: "POST", headers, body, signal });
    if (!response.ok) {
      const said = await response.json().catch(() => ({}));
      side.end = `HTTP ${response.status}: ${said.error?.message ?? "no reason given"}`;
      return;
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      side.now = performance.now() - side.began;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) event(side, part);
    }
    side.end ||= "cut off";
  } catch (error) {
    side.end ||= signal.aborted ? "stopped" : error instanceof SyntaxError ? "an event that is not JSON" : "the connection broke";
  }
}

function event(side, part) {
  const data = part.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n");
  if (!data) return;
  if (data === "[DONE]") {
    side.end ||= "whole";
    return;
  }
  const chunk = JSON.parse(data);
  if (chunk.error) side.end = `error: ${chunk.error.message ?? "no reason given"}`;
  for (const choice of chunk.choices ?? []) {
    const delta = choice.delta ?? {};
    const thought = delta.reasoning_content ?? delta.reasoning;
    if (thought) side.add("reasoning", thought);
    if (delta.content) side.add("content", delta.content);
    if (delta.refusal) side.add("content", delta.refusal);
    for (const call of delta.tool_calls ?? []) if (call.function?.arguments) side.add("tool", call.function.arguments);
    if (choice.finish_reason && !side.end) side.end = `whole (${choice.finish_reason})`;
  }
}

export async function play({ model, prompt, key, find, signal }) {
  const began = performance.now();
  const raw = new Side("raw", began, find);
  const smooth = new Side("smooth", began, find);
  const canvas = find("try-curves");
  find("try-verdict").textContent = "";
  let over = false;
  const show = () => {
    for (const side of [raw, smooth]) side.told();
    draw(canvas, [{ ...curve(raw), steps: true }, curve(smooth)]);
    if (!over) setTimeout(() => requestAnimationFrame(show), 100);
  };
  show();
  await Promise.all([read(raw, { model, prompt, key, signal }, "raw"), read(smooth, { model, prompt, key, signal }, "smooth")]);
  over = true;
  show();
  canvas.setAttribute("aria-label", `Tokens against time. Raw: ${raw.figures.textContent}. Smooth: ${smooth.figures.textContent}.`);
  const whole = [raw, smooth].every((side) => side.end.startsWith("whole"));
  const same = JSON.stringify(raw.said) === JSON.stringify(smooth.said);
  const texts = same ? "identical" : whole ? "differ (a model seldom says the same twice)" : "not compared, as not both are whole";
  find("try-verdict").textContent = `Clusters ${raw.bursts.length} → ${smooth.bursts.length}, longest freeze ` +
    `${(raw.freeze / 1000).toFixed(2)} s → ${(smooth.freeze / 1000).toFixed(2)} s; texts ${texts}.`;
}

function curve(side) {
  return { colour: side.colour, points: side.points, bursts: side.bursts };
}
