// SPDX-License-Identifier: Apache-2.0
// The Vercel AI SDK with its three providers for servers of this kind, unchanged.
//
// For:       see checks.mjs: @ai-sdk/openai-compatible for chat, completions and embeddings,
//            @ai-sdk/openai for responses, @ai-sdk/anthropic for messages.
// Used by:   run.py.
// Knows not: the gateway's configuration beyond the model "small".

import assert from 'node:assert/strict';
import { createAnthropic } from '@ai-sdk/anthropic';
import { createOpenAI } from '@ai-sdk/openai';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import {
  APICallError, embedMany, experimental_transcribe as transcribe, generateObject, generateText,
  jsonSchema, RetryError, streamObject, streamText, tool,
} from 'ai';
import { fetch as undiciFetch } from 'undici';
import {
  baseURL, check, collect, dispatcher, once, picture, rejection, run, said, target, wav, weather,
} from './checks.mjs';

const options = {
  baseURL, apiKey: target.key,
  ...(dispatcher && { fetch: (url, about) => undiciFetch(url, { ...about, dispatcher }) }),
};
const provider = (more) =>
  createOpenAICompatible({ name: 'tollgate', includeUsage: true, ...options, ...more });
const compatible = provider();
const openai = createOpenAI(options);
// vLLM itself reads no x-api-key, which is all that this provider sends.
const anthropic = createAnthropic(
  { ...options, ...(target.direct && { headers: { authorization: `Bearer ${target.key}` } }) });
const { model } = target;
const tools = { weather: tool({ description: 'weather', inputSchema: jsonSchema(weather) }) };
const schema = jsonSchema(weather);
const silent = { onError() {} };

/** text, tools, stream and errors are the same for all three: one provider's model does them. */
function checkLanguageModel(endpoint, of) {
  check(endpoint, 'plain', 'text', 'text and usage', async () => {
    const { text, usage } = await generateText({ model: of, prompt: said('tokens=7') });
    assert.ok(text.length > 0);
    assert.equal(usage.outputTokens, 7);
  });

  check(endpoint, 'plain', 'tools', 'a tool is called', async () => {
    const { toolCalls, finishReason } = await generateText(
      { model: of, prompt: said('tool=weather'), tools });
    assert.equal(finishReason, 'tool-calls');
    assert.equal(toolCalls[0].toolName, 'weather');
  });

  check(endpoint, 'plain', 'vision', 'a picture goes along', async () => {
    const content = [{ type: 'text', text: said('tokens=4') },
      { type: 'image', image: picture, mediaType: 'image/png' }];
    const { usage } = await generateText({ model: of, messages: [{ role: 'user', content }] });
    assert.equal(usage.outputTokens, 4);
  });

  check(endpoint, 'plain', 'errors', 'errors bear their status', async () => {
    const failing = (directives) =>
      generateText({ model: of, prompt: said(directives), maxRetries: 0 });
    const error = await rejection(failing('fail=400'), APICallError);
    assert.equal(error.statusCode, 400);
    assert.equal(error.isRetryable, false);
    assert.equal((await rejection(failing('fail=503'), APICallError)).isRetryable, true);
  });

  check(endpoint, 'stream', 'usage', 'text and usage of a stream', async () => {
    const result = streamText({ model: of, prompt: said('tokens=6') });
    const pieces = await collect(result.textStream);
    assert.ok(pieces.join('').length > 0);
    assert.equal((await result.usage).outputTokens, 6);
  });

  check(endpoint, 'stream', 'tools', 'a tool is called in pieces', async () => {
    const result = streamText({ model: of, prompt: said('tool=weather'), tools });
    await result.consumeStream();
    assert.equal(await result.finishReason, 'tool-calls');
    assert.equal((await result.toolCalls)[0].toolName, 'weather');
  });

  check(endpoint, 'stream', 'errors', 'a failed stream does not end as if whole', async () => {
    const result = streamText(
      { model: of, prompt: said('tokens=50 error_event=5'), maxRetries: 0, ...silent });
    const parts = await collect(result.fullStream);
    // The SDK has no part for response.failed: there the reason of the end stays unknown.
    assert.ok(parts.some((part) => part.type === 'error') || endpoint === 'responses');
    assert.ok(!['stop', 'length'].includes(parts.at(-1).finishReason), parts.at(-1).finishReason);
  });
}

checkLanguageModel('chat', compatible(model));

check('chat', 'plain', 'schema', 'an object by a schema', async () => {
  const structured = provider({ supportsStructuredOutputs: true });
  const { object } = await generateObject(
    { model: structured(model), prompt: said('tokens=40'), schema });
  assert.equal(typeof object.city, 'string');
});

check('chat', 'plain', 'errors', 'a wrong key bears 401', async () => {
  const stranger = provider({ apiKey: 'sk-wrong' });
  const error = await rejection(
    generateText({ model: stranger(model), prompt: 'x' }), APICallError);
  assert.equal(error.statusCode, 401);
  const lost = await rejection(
    generateText({ model: compatible('none'), prompt: 'x' }), APICallError);
  assert.equal(lost.statusCode, 404);
});

check('chat', 'plain', 'retries', 'the SDK retries until it is answered', async () => {
  const { usage } = await generateText(
    { model: compatible(model), prompt: said(`tokens=2 fail=503 ${once()}`) });
  assert.equal(usage.outputTokens, 2);
  await rejection(generateText(
    { model: compatible(model), prompt: said('fail=503'), maxRetries: 1 }), RetryError);
});

check('chat', 'plain', 'timeout', 'a slow answer is given up', async () => {
  const error = await generateText({
    model: compatible(model), prompt: said('first_ms=3000'),
    abortSignal: AbortSignal.timeout(300),
  }).then(() => null, (reason) => reason);
  assert.equal(error?.name, 'TimeoutError');
});

check('chat', 'stream', 'schema', 'an object by a schema, in pieces', async () => {
  const structured = provider({ supportsStructuredOutputs: true });
  const result = streamObject({ model: structured(model), prompt: said('tokens=40'), schema });
  await collect(result.partialObjectStream);
  assert.equal(typeof (await result.object).city, 'string');
});

check('chat', 'stream', 'abort', 'a stream may be left', async () => {
  const controller = new AbortController();
  const result = streamText({
    model: compatible(model), prompt: said('tokens=2000 delay_ms=20'),
    abortSignal: controller.signal, ...silent,
  });
  let count = 0;
  const parts = [];
  for await (const part of result.fullStream) {
    parts.push(part.type);
    if (part.type === 'text-delta' && ++count === 5) controller.abort();
  }
  assert.equal(parts.at(-1), 'abort');
});

check('completions', 'plain', 'text', 'a completion', async () => {
  const { text } = await generateText(
    { model: compatible.completionModel(model), prompt: said('tokens=4') });
  assert.ok(text.length > 0);
});

check('completions', 'stream', 'text', 'a completion in pieces', async () => {
  const result = streamText(
    { model: compatible.completionModel(model), prompt: said('tokens=4') });
  assert.ok((await collect(result.textStream)).join('').length > 0);
});

check('embeddings', 'plain', 'text', 'embeddings', async () => {
  const { embeddings, usage } = await embedMany(
    { model: compatible.textEmbeddingModel(model), values: ['a', 'b c'] });
  assert.equal(embeddings.length, 2);
  assert.ok(embeddings[1].length > 0 && usage.tokens > 0);
});

checkLanguageModel('responses', openai.responses(model));
checkLanguageModel('messages', anthropic(model));

check('audio', 'plain', 'text', 'speech becomes text', async () => {
  const audio = new Uint8Array(await wav().arrayBuffer());
  const { text } = await transcribe({ model: openai.transcription(model), audio });
  assert.ok(text.length > 0);
});

await run();
