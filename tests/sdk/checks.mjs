// SPDX-License-Identifier: Apache-2.0
// What the scripts of the Node clients share; checks.py is the same for Python and says more.
//
// For:       a client's script registers checks with check(endpoint, form, feature, name, function)
//            and ends in `await run()`: one JSON line a check.
// Used by:   openai.mjs, anthropic.mjs, vercel.mjs.
// Knows not: any client, the gateway's configuration.

import assert from 'node:assert/strict';
import { File } from 'node:buffer';
import diagnostics from 'node:diagnostics_channel';
import { Agent } from 'undici';

/** What run.py says: client, root, key, protocol, model, endpoints, direct, translated. */
export const target = {
  model: 'small', endpoints: [], direct: false, translated: '', ...JSON.parse(process.argv[2]),
};
export const baseURL = `${target.root}/v1`;

globalThis.File ??= File; // Node 18 has it in a module only, and clients look for the global

/** Node's own fetch speaks HTTP/2 by this dispatcher alone; undefined leaves a client as it is. */
export const dispatcher = target.protocol === 'h2' ? new Agent({ allowH2: true }) : undefined;

/** What each connection agreed on by ALPN, in the order they came up. */
export const agreed = [];
diagnostics.subscribe('undici:client:connected', ({ socket }) =>
  agreed.push(socket.alpnProtocol === 'h2' ? 'h2' : 'h1'));

const checks = [];

/** Registers a check: its cell, what of it is proved. gateway: no model server does that itself. */
export function check(endpoint, form, feature, name, body, { gateway = false } = {}) {
  checks.push({ endpoint, form, feature, name, body, gateway });
}

/** The error that a promise is rejected with; fails when it is not an instance of kind. */
export async function rejection(promise, kind) {
  try {
    await promise;
  } catch (error) {
    assert.ok(error instanceof kind, `${error?.constructor?.name}: ${error}`);
    return error;
  }
  assert.fail('it was not rejected');
}

/** A prompt whose answer the simulated server steers by directives. */
export const said = (directives, text = 'hello') => `${text} [[fake ${directives}]]`;

/** The directive that keeps faults to the first request of this name. */
export const once = () => `once=${Math.random().toString(36).slice(2)}`;

/** All items of a stream. */
export async function collect(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

export const weather = {
  type: 'object',
  properties: { city: { type: 'string' } },
  required: ['city'],
  additionalProperties: false,
};

/** One red point as a PNG in base64. */
export const picture = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR42mP4z8AAAAMBAQD3'
  + 'A0FDAAAAAElFTkSuQmCC';

/** A tenth of a second of silence. */
export function wav() {
  const sound = Buffer.alloc(44 + 1600);
  sound.write('RIFF', 0);
  sound.writeUInt32LE(36 + 1600, 4);
  sound.write('WAVEfmt ', 8);
  [[16, 16, 4], [20, 1, 2], [22, 1, 2], [24, 8000, 4], [28, 16000, 4], [32, 2, 2], [34, 16, 2]]
    .forEach(([at, value, bytes]) => sound.writeUIntLE(value, at, bytes));
  sound.write('data', 36);
  sound.writeUInt32LE(1600, 40);
  return new File([sound], 'a.wav', { type: 'audio/wav' });
}

const wanted = ({ endpoint, gateway }) =>
  (target.endpoints.length === 0 || target.endpoints.includes(endpoint))
  && !(target.direct && gateway);

/** Runs all checks in order, then says that each connection spoke what was wanted. */
export async function run() {
  const chosen = checks.filter(wanted);
  const { endpoint, form } = chosen[0];
  chosen.push({
    endpoint, form, feature: 'protocol', name: 'connections speak what was wanted',
    body: () => assert.deepEqual([...new Set(agreed)], [target.protocol]),
  });
  for (const { body, gateway, ...about } of chosen) {
    let trouble = null;
    try {
      await Promise.race([body(), new Promise((_, reject) =>
        setTimeout(() => reject(new Error('no end within 30 s')), 30000).unref())]);
    } catch (error) {
      trouble = String(error?.stack ?? error).slice(0, 1500);
    }
    const { client, protocol, translated } = target;
    const { name, ...cell } = about;
    console.log(JSON.stringify({ client, protocol, translated, ...cell, check: name, trouble }));
  }
  process.exit(0);
}
