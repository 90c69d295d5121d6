// SPDX-License-Identifier: Apache-2.0
// OpenAI's Node client, unchanged.
//
// For:       see checks.mjs.
// Used by:   run.py.
// Knows not: the gateway's configuration beyond the models "small", "org/large" and "hidden".

import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';
import {
  baseURL, check, collect, dispatcher, once, picture, rejection, run, said, target, wav, weather,
} from './checks.mjs';

const options = {
  baseURL, apiKey: target.key, timeout: 10000,
  ...(dispatcher && { fetchOptions: { dispatcher } }),
};
const client = new OpenAI({ ...options, maxRetries: 2 });
const impatient = new OpenAI({ ...options, maxRetries: 0 });
const { model } = target;
const tools = [{ type: 'function', function: { name: 'weather', parameters: weather } }];

/** The body of a chat request. */
const chat = (directives, more = {}) =>
  ({ model, messages: [{ role: 'user', content: said(directives) }], ...more });
const ask = (...about) => client.chat.completions.create(chat(...about));
const stream = async (directives, more = {}) =>
  collect(await ask(directives, { stream: true, ...more }));
const textOf = (chunks) => chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? '').join('');

check('chat', 'plain', 'text', 'a plain chat has text and usage', async () => {
  const answer = await ask('tokens=7');
  assert.equal(answer.object, 'chat.completion');
  assert.ok(answer.choices[0].message.content.length > 0);
  assert.equal(answer.usage.completion_tokens, 7);
});

check('chat', 'plain', 'request id', 'an answer bears a request id', async () => {
  assert.match((await ask('tokens=1'))._request_id, /^[A-Za-z0-9._-]{1,128}$/);
  const { response, request_id: id } = await client.chat.completions.create(
    chat('tokens=1'), { headers: { 'x-request-id': 'mine-1' } }).withResponse();
  assert.equal(id, 'mine-1');
  assert.equal(response.headers.get('x-tollgate-model'), 'small');
}, { gateway: true });

check('chat', 'plain', 'tools', 'a tool is called', async () => {
  const answer = await ask('tool=weather', { tools, tool_choice: 'auto' });
  assert.equal(answer.choices[0].finish_reason, 'tool_calls');
  const [call] = answer.choices[0].message.tool_calls;
  assert.equal(call.function.name, 'weather');
  const told = chat('tokens=3', { tools });
  told.messages.push(answer.choices[0].message,
    { role: 'tool', tool_call_id: call.id, content: 'sunny' });
  assert.ok((await client.chat.completions.create(told)).choices[0].message.content);
});

check('chat', 'plain', 'schema', 'an answer has the schema that was asked for', async () => {
  const format = zodResponseFormat(z.object({ city: z.string() }), 'city');
  const answer = await client.chat.completions.parse(
    chat('tokens=40', { response_format: format }));
  assert.equal(typeof answer.choices[0].message.parsed.city, 'string');
});

check('chat', 'plain', 'vision', 'a picture goes along', async () => {
  const content = [{ type: 'text', text: said('tokens=4') },
    { type: 'image_url', image_url: { url: `data:image/png;base64,${picture}` } }];
  const answer = await ask('', { messages: [{ role: 'user', content }] });
  assert.equal(answer.usage.completion_tokens, 4);
});

check('chat', 'plain', 'logprobs', 'logprobs come with each token', async () => {
  const answer = await ask('tokens=3', { logprobs: true, top_logprobs: 2 });
  const { content } = answer.choices[0].logprobs;
  assert.equal(content.length, 3);
  assert.ok(content.every((token) => token.logprob <= 0 && token.top_logprobs.length === 2));
});

check('chat', 'plain', 'n', 'two choices come as two', async () => {
  const answer = await ask('tokens=4', { n: 2 });
  assert.deepEqual(answer.choices.map((choice) => choice.index).sort(), [0, 1]);
});

check('chat', 'plain', 'abort', 'aborting a plain request rejects at once', async () => {
  const controller = new AbortController();
  setTimeout(() => controller.abort(), 100);
  await rejection(client.chat.completions.create(
    chat('tokens=3 first_ms=5000'), { signal: controller.signal }), OpenAI.APIUserAbortError);
});

check('chat', 'plain', 'errors', 'a wrong key is an AuthenticationError', async () => {
  const stranger = new OpenAI({ ...options, apiKey: 'sk-wrong', maxRetries: 0 });
  const error = await rejection(
    stranger.chat.completions.create(chat('tokens=1')), OpenAI.AuthenticationError);
  assert.equal(error.status, 401);
  if (!target.direct) {
    assert.equal(error.code, 'invalid_api_key');
    assert.ok(error.requestID);
  }
});

check('chat', 'plain', 'errors', 'an unknown model is a NotFoundError', async () => {
  const error = await rejection(ask('tokens=1', { model: 'none' }), OpenAI.NotFoundError);
  assert.ok(target.direct || error.code === 'model_not_found');
});

check('chat', 'plain', 'errors', 'a refused request is a BadRequestError', async () => {
  await rejection(ask('fail=400'), OpenAI.BadRequestError);
});

check('chat', 'plain', 'errors', 'a field out of bounds is a BadRequestError', async () => {
  const error = await rejection(ask('tokens=1', { n: 999 }), OpenAI.BadRequestError);
  assert.equal(error.type, 'invalid_request_error');
  await rejection(client.moderations.create({ input: 'x' }), OpenAI.NotFoundError);
}, { gateway: true });

check('chat', 'plain', 'errors', 'errors that stay come in their class', async () => {
  const failing = (directives) => impatient.chat.completions.create(chat(directives));
  await rejection(failing('fail=503'), OpenAI.InternalServerError);
  const error = await rejection(failing('fail=429 retry_after=7'), OpenAI.RateLimitError);
  assert.equal(error.headers.get('retry-after'), '7');
});

check('chat', 'plain', 'retries', 'the client retries until it is answered', async () => {
  for (const status of [503, 429]) {
    const answer = await ask(`tokens=2 fail=${status} ${once()}`);
    assert.equal(answer.usage.completion_tokens, 2);
  }
});

check('chat', 'plain', 'timeout', 'a slow answer is a timeout error', async () => {
  await rejection(impatient.chat.completions.create(chat('first_ms=3000'), { timeout: 300 }),
    OpenAI.APIConnectionTimeoutError);
});

check('chat', 'plain', 'many', 'thirty at once are all answered', async () => {
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, index) => ask(`tokens=${index + 1}`)));
  assert.deepEqual(answers.map((answer) => answer.usage.completion_tokens),
    answers.map((_, index) => index + 1));
});

check('chat', 'stream', 'text', 'a stream has no usage unless it was asked for', async () => {
  const chunks = await stream('tokens=9');
  assert.ok(textOf(chunks).length > 0);
  assert.ok(chunks.every((chunk) => chunk.choices.length > 0 && !chunk.usage));
  assert.notEqual(chunks.at(-1).choices[0].finish_reason, null);
});

check('chat', 'stream', 'usage', 'a stream ends in the usage that was asked for', async () => {
  const chunks = await stream('tokens=9', { stream_options: { include_usage: true } });
  assert.deepEqual(chunks.at(-1).choices, []);
  assert.equal(chunks.at(-1).usage.completion_tokens, 9);
  assert.equal(chunks.filter((chunk) => chunk.usage).length, 1);
});

check('chat', 'stream', 'helper', 'the streaming helper puts an answer together', async () => {
  const answer = await client.chat.completions.stream(chat('tokens=6')).finalChatCompletion();
  assert.ok(answer.choices[0].message.content.length > 0);
});

check('chat', 'stream', 'tools', 'a tool is called in pieces', async () => {
  const answer = await client.chat.completions.stream(
    chat('tool=weather', { tools })).finalChatCompletion();
  assert.equal(answer.choices[0].finish_reason, 'tool_calls');
  assert.equal(answer.choices[0].message.tool_calls[0].function.name, 'weather');
});

check('chat', 'stream', 'logprobs', 'logprobs come in a stream', async () => {
  const chunks = await stream('tokens=3', { logprobs: true, top_logprobs: 1 });
  const tokens = chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []);
  assert.equal(tokens.length, 3);
});

check('chat', 'stream', 'n', 'two choices are streamed', async () => {
  const chunks = await stream('tokens=3', { n: 2 });
  const indexes = new Set(chunks.flatMap((chunk) => chunk.choices.map((choice) => choice.index)));
  assert.deepEqual([...indexes].sort(), [0, 1]);
});

check('chat', 'stream', 'abort', 'leaving the loop of a stream aborts it', async () => {
  const running = await ask('tokens=2000 delay_ms=20', { stream: true });
  let count = 0;
  for await (const chunk of running) {
    assert.ok(chunk.id);
    if (++count === 5) break;
  }
  assert.ok(running.controller.signal.aborted);
});

check('chat', 'stream', 'errors', 'a cut stream raises, it does not end quietly', async () => {
  await rejection(stream('tokens=50 reset=5'), Error);
  await rejection(stream('tokens=50 error_event=5'), OpenAI.APIError);
});

check('completions', 'plain', 'text', 'a completion is served', async () => {
  const answer = await client.completions.create(
    { model, prompt: said('tokens=4'), max_tokens: 8 });
  assert.equal(answer.object, 'text_completion');
  assert.equal(answer.usage.completion_tokens, 4);
});

check('completions', 'stream', 'text', 'a completion is streamed', async () => {
  const chunks = await collect(await client.completions.create(
    { model, prompt: said('tokens=4'), max_tokens: 8, stream: true }));
  assert.ok(chunks.map((chunk) => chunk.choices[0].text).join('').length > 0);
});

check('embeddings', 'plain', 'text', 'embeddings come in base64 and as numbers', async () => {
  const input = ['a', 'b c'];
  const packed = await client.embeddings.create({ model, input });
  const plain = await client.embeddings.create({ model, input, encoding_format: 'float' });
  assert.equal(packed.data.length, 2);
  assert.ok(packed.usage.prompt_tokens > 0);
  const [one, other] = [packed, plain].map((answer) => [...answer.data[1].embedding]);
  assert.equal(one.length, other.length);
  assert.ok(one.length > 0 && one.every((value, i) => Math.abs(value - other[i]) < 1e-6));
});

check('models', 'plain', 'text', 'models are listed', async () => {
  const ids = (await collect(await client.models.list())).map((each) => each.id);
  assert.ok(ids.includes('small'), ids.join());
  assert.ok(!ids.includes('hidden'));
});

check('models', 'plain', 'text', 'one model is retrieved, a slash in its id escaped', async () => {
  assert.equal((await client.models.retrieve('small')).id, 'small');
  assert.equal((await client.models.retrieve('org/large')).id, 'org/large');
  await rejection(client.models.retrieve('hidden'), OpenAI.NotFoundError);
}, { gateway: true });

check('responses', 'plain', 'text', 'a response has text and usage', async () => {
  const answer = await client.responses.create(
    { model, input: said('tokens=5'), instructions: 'be brief', store: false });
  assert.equal(answer.status, 'completed');
  assert.ok(answer.output_text.length > 0);
  assert.equal(answer.usage.output_tokens, 5);
});

check('responses', 'plain', 'tools', 'a response calls a tool', async () => {
  const answer = await client.responses.create({
    model, input: said('tool=weather'), store: false,
    tools: [{ type: 'function', name: 'weather', parameters: weather, strict: false }],
  });
  const call = answer.output.find((item) => item.type === 'function_call');
  assert.equal(call?.name, 'weather');
});

check('responses', 'plain', 'errors', 'state is refused with a BadRequestError', async () => {
  // TGI says 422 of what others say 400 of, and it passes as it came.
  await rejection(client.responses.create({ model, input: said('fail=400'), store: false }),
    target.translated === 'tgi' ? OpenAI.UnprocessableEntityError : OpenAI.BadRequestError);
  if (!target.direct)
    await rejection(client.responses.create(
      { model, input: 'x', previous_response_id: 'resp_1' }), OpenAI.BadRequestError);
});

check('responses', 'stream', 'text', 'a response is streamed', async () => {
  const events = await collect(await client.responses.create(
    { model, input: said('tokens=6'), stream: true, store: false }));
  assert.equal(events[0].type, 'response.created');
  const last = events.at(-1);
  assert.equal(last.type, 'response.completed');
  assert.equal(last.response.usage.output_tokens, 6);
  const told = events.filter((event) => event.type === 'response.output_text.delta');
  assert.ok(told.map((event) => event.delta).join('').length > 0);
});

check('audio', 'plain', 'text', 'speech becomes text', async () => {
  assert.ok((await client.audio.transcriptions.create({ model, file: wav() })).text);
  assert.ok((await client.audio.translations.create({ model, file: wav() })).text);
});

await run();
