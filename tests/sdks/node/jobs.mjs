// Runs the jobs that come on stdin as a JSON array, all at once, and prints a result for each: {events, error, ...}.
// A job says what to ask (op), where (url, with headers) and how (params); `leaveAfter` aborts after so many events,
// `idleMs` is how long the HTTP client bears a silent connection.

import { Agent, fetch as undiciFetch } from 'undici';

// Node's own fetch is undici with an idle clock of 300 s; this is the same one with another.
export function idleFetch(idleMs) {
  const dispatcher = new Agent({ bodyTimeout: idleMs, headersTimeout: idleMs });
  return (url, options) => undiciFetch(url, { ...options, dispatcher });
}

export function options(job) {
  const out = { baseURL: job.url, apiKey: 'sk-test', maxRetries: 0, defaultHeaders: job.headers ?? {} };
  return job.idleMs ? { ...out, fetch: idleFetch(job.idleMs) } : out;
}

function described(error) {
  return {
    kind: error.constructor.name,
    message: error.message,
    status: error.status ?? null,
    code: error.code ?? null,
    type: error.type ?? null,
    body: error.error ?? null,
    retryAfter: error.headers?.get?.('retry-after') ?? null,
  };
}

async function run(job, operations) {
  const result = { events: [], error: null };
  const leaving = new AbortController();
  const took = (event) => {
    result.events.push(event);
    if (job.leaveAfter && result.events.length >= job.leaveAfter) leaving.abort();
  };
  try {
    Object.assign(result, await operations[job.op](job, took, leaving.signal));
  } catch (error) {
    result.error = described(error);
  }
  return result;
}

export async function main(operations) {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const part of process.stdin) text += part;
  const results = await Promise.all(JSON.parse(text).map((job) => run(job, operations)));
  process.stdout.write(JSON.stringify(results), () => process.exit(0)); // idle connections are not waited for
}
