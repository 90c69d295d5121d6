// SPDX-License-Identifier: Apache-2.0
// Anthropic's Node client, unchanged.
//
// For:       see checks.mjs.
// Used by:   run.py.
// Knows not: the gateway's configuration beyond the model "small".

import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import {
  check, collect, dispatcher, once, picture, rejection, run, said, target, weather,
} from './checks.mjs';

const options = {
  baseURL: target.root, apiKey: target.key, timeout: 10000,
  ...(dispatcher && { fetchOptions: { dispatcher } }),
};
const client = new Anthropic({ ...options, maxRetries: 2 });
const impatient = new Anthropic({ ...options, maxRetries: 0 });
const { model } = target;
const tools = [{ name: 'weather', input_schema: weather }];

/** The body of a messages request. */
const body = (directives, more = {}) => ({
  model, max_tokens: 100, messages: [{ role: 'user', content: said(directives) }], ...more,
});
const ask = (...about) => client.messages.create(body(...about));
const textOf = (message) =>
  message.content.filter((block) => block.type === 'text').map((block) => block.text).join('');
const toolOf = (message) => message.content.find((block) => block.type === 'tool_use');

check('messages', 'plain', 'text', 'a message has text and usage', async () => {
  const message = await ask('tokens=7', { system: 'be brief' });
  assert.equal(message.type, 'message');
  assert.ok(textOf(message).length > 0);
  assert.equal(message.stop_reason, 'end_turn');
  assert.equal(message.usage.output_tokens, 7);
  assert.ok(message.usage.input_tokens > 0);
});

check('messages', 'plain', 'request id', 'an answer bears a request id', async () => {
  const { response } = await client.messages.create(body('tokens=1')).withResponse();
  assert.match(response.headers.get('x-request-id'), /^[A-Za-z0-9._-]{1,128}$/);
}, { gateway: true });

check('messages', 'plain', 'max_tokens', 'an answer that was cut says so', async () => {
  const message = await ask('tokens=9', { max_tokens: 4 });
  assert.equal(message.stop_reason, 'max_tokens');
  assert.equal(message.usage.output_tokens, 4);
});

check('messages', 'plain', 'tools', 'a tool is called', async () => {
  const message = await ask('tool=weather', { tools });
  assert.equal(message.stop_reason, 'tool_use');
  const use = toolOf(message);
  assert.equal(use.name, 'weather');
  const told = body('tokens=3', { tools });
  told.messages.push({ role: 'assistant', content: message.content }, {
    role: 'user', content: [{ type: 'tool_result', tool_use_id: use.id, content: 'sunny' }],
  });
  assert.ok(textOf(await client.messages.create(told)).length > 0);
});

check('messages', 'plain', 'vision', 'a picture goes along', async () => {
  const content = [
    { type: 'image', source: { type: 'base64', media_type: 'image/png', data: picture } },
    { type: 'text', text: said('tokens=4') },
  ];
  const message = await ask('', { messages: [{ role: 'user', content }] });
  assert.equal(message.usage.output_tokens, 4);
});

check('messages', 'plain', 'errors', 'errors come in their class', async () => {
  const stranger = new Anthropic({ ...options, apiKey: 'sk-wrong', maxRetries: 0 });
  const failing = (directives, more) => impatient.messages.create(body(directives, more));
  const refused = [
    [stranger.messages.create(body('tokens=1')), Anthropic.AuthenticationError,
      'authentication_error'],
    [failing('tokens=1', { model: 'none' }), Anthropic.NotFoundError, 'not_found_error'],
    [failing('fail=400'), Anthropic.BadRequestError],
    [failing('fail=429 retry_after=7'), Anthropic.RateLimitError],
    [failing('fail=503'), Anthropic.InternalServerError],
  ].map(async ([promise, kind, told]) => {
    const error = await rejection(promise, kind);
    if (told && !target.direct) assert.equal(error.error.error.type, told);
  });
  await Promise.all(refused);
});

check('messages', 'plain', 'retries', 'the client retries until it is answered', async () => {
  for (const status of [503, 429]) {
    const message = await ask(`tokens=2 fail=${status} ${once()}`);
    assert.equal(message.usage.output_tokens, 2);
  }
});

check('messages', 'plain', 'timeout', 'a slow answer is a timeout error', async () => {
  await rejection(impatient.messages.create(body('first_ms=3000'), { timeout: 300 }),
    Anthropic.APIConnectionTimeoutError);
});

check('messages', 'stream', 'text', 'events come in their order', async () => {
  const events = await collect(await ask('tokens=6', { stream: true }));
  const types = events.map((event) => event.type).filter((type) => type !== 'ping');
  assert.deepEqual(types.slice(0, 2), ['message_start', 'content_block_start']);
  assert.deepEqual(types.slice(-3), ['content_block_stop', 'message_delta', 'message_stop']);
});

check('messages', 'stream', 'usage', 'the streaming helper has text and usage', async () => {
  const message = await client.messages.stream(body('tokens=6')).finalMessage();
  assert.ok(textOf(message).length > 0);
  assert.equal(message.stop_reason, 'end_turn');
  assert.equal(message.usage.output_tokens, 6);
});

check('messages', 'stream', 'tools', 'a tool is called in pieces', async () => {
  const message = await client.messages.stream(body('tool=weather', { tools })).finalMessage();
  assert.equal(message.stop_reason, 'tool_use');
  assert.equal(toolOf(message).name, 'weather');
});

check('messages', 'stream', 'abort', 'leaving the loop of a stream aborts it', async () => {
  const stream = await ask('tokens=2000 delay_ms=20', { stream: true, max_tokens: 4000 });
  let count = 0;
  for await (const event of stream) {
    assert.ok(event.type);
    if (++count === 5) break;
  }
  assert.ok(stream.controller.signal.aborted);
});

check('messages', 'stream', 'errors', 'a cut stream raises', async () => {
  const read = async (directives) => collect(await ask(directives, { stream: true }));
  await rejection(read('tokens=50 reset=5'), Error);
  await rejection(read('tokens=50 error_event=5'), Anthropic.APIError);
});

check('count_tokens', 'plain', 'text', 'tokens are counted', async () => {
  const messages = [{ role: 'user', content: 'one two three' }];
  const counted = await client.messages.countTokens({ model, messages });
  const message = await client.messages.create({ model, max_tokens: 1, messages });
  assert.equal(counted.input_tokens, message.usage.input_tokens);
});

await run();
