// SPDX-License-Identifier: Apache-2.0
// OpenAI's own Node client, unchanged, against a running gateway.
//
// For:       `node openai.mjs BASE_URL KEY`: one line a check, then `N passed, N failed`.
// Used by:   run.py, which starts the gateway and the simulated model server behind it.
// Knows not: the gateway's configuration beyond the models "small" and "org/large".

import assert from 'node:assert/strict';
import OpenAI from 'openai';

const [baseURL, apiKey] = process.argv.slice(2);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 2, timeout: 10000 });
const impatient = new OpenAI({ baseURL, apiKey, maxRetries: 0, timeout: 10000 });

/** The body of a chat request whose answer the simulated server steers by directives. */
function chat(directives, more = {}) {
  return {
    model: 'small',
    messages: [{ role: 'user', content: `hello [[fake ${directives}]]` }],
    ...more,
  };
}

/** The error that a promise is rejected with; fails when it is not an instance of kind. */
async function rejection(promise, kind) {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof kind, `${error?.constructor?.name}: ${error}`);
    return error;
  }
  assert.fail('it was not rejected');
}

/** All chunks of a stream, and their text. */
async function collect(stream) {
  const chunks = [];
  for await (const chunk of stream) chunks.push(chunk);
  const text = chunks.map((chunk) => chunk.choices[0]?.delta?.content ?? '').join('');
  return { chunks, text };
}

const once = () => `once=${Math.random().toString(36).slice(2)}`;

const checks = {
  async 'a plain chat has text, usage and a request id'() {
    const answer = await client.chat.completions.create(chat('tokens=7'));
    assert.equal(answer.object, 'chat.completion');
    assert.ok(answer.choices[0].message.content.length > 0);
    assert.equal(answer.usage.completion_tokens, 7);
    assert.match(answer._request_id, /^[A-Za-z0-9._-]{1,128}$/);
  },

  async 'a stream has text and no usage unless it was asked for'() {
    const stream = await client.chat.completions.create(chat('tokens=9', { stream: true }));
    const { chunks, text } = await collect(stream);
    assert.ok(text.length > 0);
    assert.ok(chunks.every((chunk) => chunk.choices.length > 0 && !chunk.usage));
    assert.equal(chunks.at(-1).choices[0].finish_reason !== null, true);
  },

  async 'a stream ends in the usage that was asked for'() {
    const options = { stream: true, stream_options: { include_usage: true } };
    const { chunks } = await collect(
      await client.chat.completions.create(chat('tokens=9', options)));
    assert.deepEqual(chunks.at(-1).choices, []);
    assert.equal(chunks.at(-1).usage.completion_tokens, 9);
    assert.equal(chunks.filter((chunk) => chunk.usage).length, 1);
  },

  async 'the streaming helper puts an answer together'() {
    const runner = client.chat.completions.stream(chat('tokens=6'));
    const answer = await runner.finalChatCompletion();
    assert.ok(answer.choices[0].message.content.length > 0);
  },

  async 'leaving the loop of a stream aborts it'() {
    const stream = await client.chat.completions.create(
      chat('tokens=2000 delay_ms=20', { stream: true }));
    let count = 0;
    for await (const chunk of stream) {
      assert.ok(chunk.id);
      if (++count === 5) break;
    }
    assert.ok(stream.controller.signal.aborted);
  },

  async 'aborting a plain request rejects at once'() {
    const controller = new AbortController();
    const began = Date.now();
    setTimeout(() => controller.abort(), 100);
    const promise = client.chat.completions.create(
      chat('tokens=3 first_ms=5000'), { signal: controller.signal });
    await rejection(promise, OpenAI.APIUserAbortError);
    assert.ok(Date.now() - began < 1500);
  },

  async 'tools go through'() {
    const tools = [{
      type: 'function',
      function: {
        name: 'weather',
        parameters: { type: 'object', properties: { city: { type: 'string' } } },
      },
    }];
    const answer = await client.chat.completions.create(
      chat('tokens=5', { tools, tool_choice: 'auto' }));
    assert.equal(answer.choices.length, 1);
  },

  async 'two choices come as two'() {
    const answer = await client.chat.completions.create(chat('tokens=4', { n: 2 }));
    assert.deepEqual(answer.choices.map((choice) => choice.index).sort(), [0, 1]);
  },

  async 'a completion is served'() {
    const answer = await client.completions.create(
      { model: 'small', prompt: 'once [[fake tokens=4]]', max_tokens: 8 });
    assert.equal(answer.object, 'text_completion');
    assert.equal(answer.usage.completion_tokens, 4);
  },

  async 'embeddings come in base64 by default and are numbers to the caller'() {
    const answer = await client.embeddings.create({ model: 'small', input: ['a', 'b c'] });
    assert.equal(answer.data.length, 2);
    assert.ok(answer.data[0].embedding.length > 0);
    assert.ok([...answer.data[1].embedding].every((value) => Number.isFinite(value)));
    assert.ok(answer.usage.prompt_tokens > 0);
  },

  async 'embeddings come as floats when asked for'() {
    const answer = await client.embeddings.create(
      { model: 'small', input: 'a', encoding_format: 'float' });
    assert.ok(Array.isArray(answer.data[0].embedding));
  },

  async 'models are listed'() {
    const ids = [];
    for await (const model of client.models.list()) ids.push(model.id);
    assert.ok(ids.includes('small') && ids.includes('org/large'), ids.join());
    assert.ok(!ids.includes('hidden'));
  },

  async 'one model is retrieved, a slash in its id escaped'() {
    assert.equal((await client.models.retrieve('small')).id, 'small');
    assert.equal((await client.models.retrieve('org/large')).id, 'org/large');
    await rejection(client.models.retrieve('hidden'), OpenAI.NotFoundError);
  },

  async 'a wrong key is an AuthenticationError'() {
    const stranger = new OpenAI({ baseURL, apiKey: 'sk-wrong', maxRetries: 0 });
    const error = await rejection(
      stranger.chat.completions.create(chat('tokens=1')), OpenAI.AuthenticationError);
    assert.equal(error.status, 401);
    assert.equal(error.code, 'invalid_api_key');
    assert.ok(error.requestID);
  },

  async 'an unknown model is a NotFoundError'() {
    const error = await rejection(
      client.chat.completions.create(chat('tokens=1', { model: 'none' })), OpenAI.NotFoundError);
    assert.equal(error.code, 'model_not_found');
  },

  async 'a field that cannot be used is a BadRequestError'() {
    const error = await rejection(
      client.chat.completions.create(chat('tokens=1', { n: 999 })), OpenAI.BadRequestError);
    assert.equal(error.type, 'invalid_request_error');
    await rejection(client.chat.completions.create(chat('fail=400')), OpenAI.BadRequestError);
  },

  async 'an unknown path is a NotFoundError'() {
    await rejection(client.moderations.create({ input: 'x' }), OpenAI.NotFoundError);
  },

  async '503 of the server is retried by the client until it answers'() {
    const answer = await client.chat.completions.create(chat(`tokens=2 fail=503 ${once()}`));
    assert.equal(answer.usage.completion_tokens, 2);
  },

  async '503 that stays is an InternalServerError'() {
    const error = await rejection(
      impatient.chat.completions.create(chat('fail=503')), OpenAI.InternalServerError);
    assert.equal(error.status, 503);
  },

  async '429 keeps its Retry-After'() {
    const error = await rejection(
      impatient.chat.completions.create(chat('fail=429 retry_after=7')), OpenAI.RateLimitError);
    assert.equal(error.headers.get('retry-after'), '7');
  },

  async 'a stream that is cut raises, it does not end quietly'() {
    const stream = await client.chat.completions.create(
      chat('tokens=50 reset=5', { stream: true }));
    await rejection(collect(stream), Error);
  },

  async 'an error event in a stream is an APIError'() {
    const stream = await client.chat.completions.create(
      chat('tokens=50 error_event=5', { stream: true }));
    await rejection(collect(stream), OpenAI.APIError);
  },

  async 'thirty at once are all answered'() {
    const answers = await Promise.all(Array.from({ length: 30 }, (_, index) =>
      client.chat.completions.create(chat(`tokens=${index + 1}`))));
    assert.deepEqual(answers.map((answer) => answer.usage.completion_tokens),
      answers.map((_, index) => index + 1));
  },

  async 'the raw response carries what the gateway decided'() {
    const { response } = await client.chat.completions.create(chat('tokens=1')).withResponse();
    assert.equal(response.headers.get('x-tollgate-model'), 'small');
  },
};

let passed = 0;
let failed = 0;
for (const [name, check] of Object.entries(checks)) {
  try {
    await check();
    passed++;
    console.log(`pass ${name}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${name}\n     ${error?.stack ?? error}`);
  }
}
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
