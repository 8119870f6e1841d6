import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { isStepCount, jsonSchema, streamText, tool } from 'ai';
import { main, options } from './jobs.mjs';

globalThis.AI_SDK_LOG_WARNINGS = false; // it knows none of our models

function settings(job) {
  const { baseURL, apiKey, defaultHeaders, fetch } = options(job);
  return { name: 'gateway', baseURL, apiKey, headers: defaultHeaders, fetch, includeUsage: true };
}

const PROVIDERS = {
  chat: (job) => createOpenAI(settings(job)).chat(job.params.model),
  responses: (job) => createOpenAI(settings(job)).responses(job.params.model),
  compatible: (job) => createOpenAICompatible(settings(job))(job.params.model),
  messages: (job) => createAnthropic(settings(job))(job.params.model),
};

// An Error's members are not enumerable, so JSON would have none of them.
function plain(part) {
  return part.type === 'error' ? { ...part, error: { ...part.error, name: part.error.name, message: part.error.message } } : part;
}

// Tools are executed, and their result is sent in a second request, as an agent does.
function streaming(provider) {
  return async (job, took, signal) => {
    const { model, tools = {}, ...asked } = job.params;
    const made = Object.entries(tools).map(([name, schema]) => [
      name,
      tool({ inputSchema: jsonSchema(schema), execute: async (input) => `took ${Object.keys(input)}` }),
    ]);
    const { fullStream } = streamText({
      ...asked,
      model: provider(job),
      tools: Object.fromEntries(made),
      stopWhen: isStepCount(2),
      maxRetries: 0,
      abortSignal: signal,
      timeout: job.timeout,
      onError() {}, // it comes as a part too
    });
    for await (const part of fullStream) took(plain(part));
  };
}

await main(Object.fromEntries(Object.entries(PROVIDERS).map(([name, provider]) => [name, streaming(provider)])));
