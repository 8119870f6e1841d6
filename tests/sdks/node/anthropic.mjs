import Anthropic from '@anthropic-ai/sdk';
import { main, options } from './jobs.mjs';

await main({
  async messages(job, took, signal) {
    const stream = await new Anthropic(options(job)).messages.create({ ...job.params, stream: true }, { signal });
    for await (const event of stream) took(event);
  },
  async messagesHelper(job, took, signal) {
    return { final: await new Anthropic(options(job)).messages.stream(job.params, { signal }).finalMessage() };
  },
});
