// Cumulative curves on a canvas: tokens against seconds. A curve is {name, colour, points: [[s, tokens so far], ...], bursts: [[s, tokens], ...]}.

const MARGIN = { left: 48, right: 10, top: 10, bottom: 24 };
const POINTS_DRAWN = 4000; // of one curve: more than a screen has columns

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

// A round step that cuts `most` into about four.
export function step(most) {
  const rough = most / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((digit) => digit * power).find((size) => size >= rough);
}

export function draw(canvas, curves) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!width || !height) return;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const begin = 0;
  let [lastS, most] = [1, 10];
  for (const { points } of curves) {
    const [seconds, tokens] = points.at(-1) ?? [0, 0]; // both only ever grow
    lastS = Math.max(lastS, seconds);
    most = Math.max(most, tokens);
  }
  const x = (seconds) => MARGIN.left + ((seconds - begin) / (lastS - begin)) * (width - MARGIN.left - MARGIN.right);
  const y = (tokens) => height - MARGIN.bottom - (tokens / most) * (height - MARGIN.top - MARGIN.bottom);
  axes(pen, { x, y, begin, lastS, most, width, height });
  for (const curve of curves) {
    pen.strokeStyle = pen.fillStyle = colour(curve.colour);
    pen.lineWidth = 2;
    pen.beginPath();
    let before = 0;
    const stride = Math.ceil(curve.points.length / POINTS_DRAWN);
    for (const [index, [seconds, tokens]] of curve.points.entries()) {
      if (index % stride && index < curve.points.length - 1) continue;
      if (index === 0) pen.moveTo(x(seconds), y(tokens));
      else {
        if (curve.steps) pen.lineTo(x(seconds), y(before));
        pen.lineTo(x(seconds), y(tokens));
      }
      before = tokens;
    }
    pen.stroke();
    for (const [seconds, tokens] of curve.bursts) {
      pen.beginPath();
      pen.arc(x(seconds), y(tokens), 4, 0, 2 * Math.PI);
      pen.fill();
    }
  }
}

function axes(pen, { x, y, begin, lastS, most, width, height }) {
  pen.strokeStyle = colour("line");
  pen.fillStyle = colour("soft");
  pen.lineWidth = 1;
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.textAlign = "right";
  for (let tokens = 0; tokens <= most; tokens += step(most)) {
    pen.beginPath();
    pen.moveTo(MARGIN.left, y(tokens));
    pen.lineTo(width - MARGIN.right, y(tokens));
    pen.stroke();
    pen.fillText(String(Math.round(tokens)), MARGIN.left - 6, y(tokens));
  }
  pen.textBaseline = "bottom";
  pen.textAlign = "center";
  const every = step(lastS - begin);
  for (let seconds = Math.ceil(begin / every) * every; seconds <= lastS * 0.97; seconds += every) {
    pen.fillText(`${Number(seconds.toFixed(1))} s`, x(seconds), height - 4);
  }
}
