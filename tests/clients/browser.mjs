// Chromium without a window: opens a page, and has it run the jobs that come on stdin as a JSON array, all at once, as a web application
// would with `fetch`. Prints a result for each.
import { chromium } from 'playwright-core';

// Runs in the page. leaveAfter: so many reads until the page aborts.
async function ask({ url, body, headers, leaveAfter }) {
  const result = { status: null, fields: {}, data: [], reads: 0, error: null };
  const leaving = new AbortController();
  try {
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal: leaving.signal });
    result.status = answer.status;
    result.fields = Object.fromEntries(answer.headers);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
      result.reads += 1;
      if (leaveAfter && result.reads >= leaveAfter) leaving.abort();
      const frames = text.split('\n\n');
      text = frames.pop();
      for (const frame of frames) {
        const lines = frame.split('\n').filter((line) => line.startsWith('data: '));
        if (lines.length) result.data.push(lines.map((line) => line.slice(6)).join('\n'));
      }
    }
    if (text) result.data.push(text);
  } catch (error) {
    result.error = { kind: error.name, message: error.message };
  }
  return result;
}

let text = '';
for await (const part of process.stdin) text += part;
const { page: address, program, jobs } = JSON.parse(text);
const browser = await chromium.launch({ executablePath: program, args: ['--no-sandbox'] }); // the sandbox cannot be had by root
try {
  const page = await browser.newPage();
  await page.goto(address);
  const results = await Promise.all(jobs.map((job) => page.evaluate(ask, job)));
  const version = browser.version();
  process.stdout.write(JSON.stringify({ version, results }));
} finally {
  await browser.close();
}
