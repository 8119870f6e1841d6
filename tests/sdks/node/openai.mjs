import OpenAI from 'openai';
import { main, options } from './jobs.mjs';

async function events(stream, took) {
  for await (const event of stream) took(event);
}

await main({
  async chat(job, took, signal) {
    await events(await new OpenAI(options(job)).chat.completions.create({ ...job.params, stream: true }, { signal }), took);
  },
  async chatHelper(job, took, signal) {
    const stream = new OpenAI(options(job)).chat.completions.stream(job.params, { signal });
    return { final: await stream.finalChatCompletion() };
  },
  async responses(job, took, signal) {
    await events(await new OpenAI(options(job)).responses.create({ ...job.params, stream: true }, { signal }), took);
  },
  async responsesHelper(job, took, signal) {
    const stream = new OpenAI(options(job)).responses.stream(job.params, { signal });
    return { final: await stream.finalResponse() };
  },
});
