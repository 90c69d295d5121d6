# SPDX-License-Identifier: Apache-2.0
"""What must hold when the gateway stands before real model servers.

For:       one class of checks for a kind of server; each check is one line of output.
Used by:   run.py, which starts the servers and the gateway.
Knows not: how servers are installed.

The servers are three: two replicas that generate and one that embeds. Their own Prometheus
counters are the witness of every journal row.
"""

import base64
import contextlib
import json
import threading
import time
import traceback

import harness
import servers
import wire

ASK = [{"role": "user", "content": "baba didi kuku"}]
LONG = {"max_tokens": 4000, "ignore_eos": True}
SECONDS = 120.0
COUNTER_SECONDS = 10.0
IDLE_SECONDS = 5.6                  # past the 5 s for which vLLM keeps an idle connection
LOAD_SECONDS, KILL_AFTER = 12.0, 3.0
LOAD_THREADS = 6
USAGE = {"stream_options": {"include_usage": True}}
RUNNING = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {
    "type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"],
    "additionalProperties": False}}}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
    "type": "object", "properties": {"near": {"type": "boolean"}}, "required": ["near"],
    "additionalProperties": False}}}


class NotYet(Exception):
    """The gateway has no such endpoint."""


class Tally:
    """One line a check, and the sum."""

    def __init__(self, not_yet_is_failure):
        self.passed = self.failed = self.not_yet = 0
        self.strict = not_yet_is_failure
        self.notes = []

    @contextlib.contextmanager
    def check(self, name):
        began = time.monotonic()
        try:
            yield
        except NotYet as missing:
            self.not_yet += 1
            self.failed += self.strict
            print(f"{'FAIL' if self.strict else 'none'} {name}: not yet: {missing}", flush=True)
        except Exception as error:
            self.failed += 1
            print(f"FAIL {name} ({time.monotonic() - began:.1f} s)", flush=True)
            words = str(error) if isinstance(error, AssertionError) and str(error) else \
                traceback.format_exc()
            for line in words.rstrip().split("\n"):
                print(f"     {line}", flush=True)
        else:
            self.passed += 1
            print(f"pass {name} ({time.monotonic() - began:.1f} s)", flush=True)

    def note(self, text):
        """A fact for the account, not a check."""
        self.notes.append(text)
        print(f"note {text}", flush=True)


def expect(true, *words):
    if not true:
        raise AssertionError(" ".join(str(word) for word in words))


def events(reply):
    """(event name or None, data) of a stream, [DONE] left out; comments skipped."""
    found = []
    for block in reply.decoded().decode("utf-8").replace("\r\n", "\n").split("\n\n"):
        name, data = None, []
        for line in block.split("\n"):
            if line.startswith("event:"):
                name = line[6:].strip()
            elif line.startswith("data:"):
                data.append(line[5:].removeprefix(" "))
        parsed = json.loads("\n".join(data)) if data and data != ["[DONE]"] else None
        # llama.cpp sends "data: null" first when it has several prompts.
        if parsed is not None:
            found.append((name, parsed))
    return found


def usage_of(api, body, streamed):
    """(whole input, output) as the answer states them; None when it does not."""
    objects = [data for _, data in body] if streamed else [body]
    found = {}
    for one in objects:
        usage = one.get("usage") or (one.get("response") or one.get("message") or {}).get("usage")
        found.update({key: value for key, value in (usage or {}).items() if value is not None})
    if api == "messages":
        parts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        whole_input = sum(found.get(part, 0) for part in parts)
        return (whole_input, found["output_tokens"]) if found else None
    if api == "responses":
        return (found["input_tokens"], found["output_tokens"]) if found else None
    return (found["prompt_tokens"], found.get("completion_tokens", 0)) if found else None


def billed(row):
    """(whole input, output) of a journal row."""
    return (row.get("input", 0) + row.get("cached_input", 0) + row.get("cache_write", 0),
            row.get("output", 0))


def long_stream(api):
    """(path, body) of a stream that does not end by itself soon."""
    if api == "completions":
        return "/v1/completions", dict({"model": "tiny", "prompt": "baba didi", "stream": True},
                                       **LONG)
    if api == "responses":
        return "/v1/responses", {"model": "tiny", "input": "baba didi", "stream": True,
                                 "max_output_tokens": LONG["max_tokens"], "ignore_eos": True}
    body = dict({"model": "tiny", "messages": ASK, "stream": True}, **LONG)
    return (("/v1/chat/completions", dict(body, **RUNNING)) if api == "chat" else
            ("/v1/messages", body))


def received_of(text):
    """Output tokens that a cut stream has surely shown: its last running count, or its events
    with text in them."""
    texts = stated = 0
    for block in text.rpartition(b"\n\n")[0].split(b"\n\n"):
        data = next((line[5:] for line in block.split(b"\n") if line.startswith(b"data:")), None)
        event = json.loads(data) if data else None
        if event is None:
            continue
        stated = max(stated, (event.get("usage") or {}).get("completion_tokens", 0))
        deltas = [event] if "delta" in event else event.get("choices", [])
        texts += any(delta.get("text") or (delta["delta"] if isinstance(delta.get("delta"), str)
                                           else (delta.get("delta") or {}).get("content")
                                           or (delta.get("delta") or {}).get("text"))
                     for delta in deltas)
    return max(texts, stated)


class Checks:
    """All checks of one kind; run() goes through them in order."""

    def __init__(self, tally, gateway, replicas, embedder):
        self.tally, self.gateway, self.replicas, self.embedder = tally, gateway, replicas, embedder
        self.kind = embedder.kind

    def check(self, name):
        return self.tally.check(f"{self.kind}: {name}")

    # ---- asking, and comparing with the servers' own counters ----

    def counters(self):
        """(input, output, of the input from its cache) that all three servers counted."""
        whole = [0, 0, 0]
        for server in (*self.replicas, self.embedder):
            if server.child.poll() is not None:
                continue
            samples = server.metrics()
            for i, name in enumerate((server.PROMPT, server.OUTPUT, server.CACHED)):
                whole[i] += int(sum(value for (family, _), value in samples.items()
                                    if family == name))
        return whole

    def ask(self, path, body, protocol="h1", headers=(), request_id=None):
        """One request through the gateway; the reply."""
        client = {"h1": wire.H1, "h2": wire.H2}[protocol](self.gateway.port, timeout=SECONDS)
        try:
            whole = dict(harness.bearer(harness.KEY), **dict(headers))
            whole["x-request-id"] = request_id or harness.new_id()
            return client.request("POST", path, whole, json.dumps(body).encode())
        finally:
            client.close()

    def metered(self, path, body, api="chat", protocol="h1", headers=()):
        """One request that must succeed: the answer's usage, the row and the servers' counters
        are the same. Returns the reply, its parsed body and the row.

        llama.cpp states the usage of one answer of several: there a row may say that it is
        estimated, and how far off it is becomes a note."""
        before = self.counters()
        request_id = harness.new_id()
        reply = self.ask(path, body, protocol, headers, request_id)
        self.missing(reply, path)
        expect(reply.status == 200 and reply.complete, reply.status, reply.problem, reply.text())
        streamed = bool(body.get("stream"))
        parsed = events(reply) if streamed else reply.json()
        row = self.gateway.row_of(request_id)
        expect(row["outcome"] == "ok" and row["billable"], row)
        many = body.get("n", 1) > 1 or isinstance(body.get("prompt"), list)
        if many and self.kind == "llamacpp" and row["source"] == "estimated":
            now = harness.wait_until(lambda: self.counters()[:2], 1)
            self.tally.note(f"{self.kind}: {path} of several: billed {billed(row)} (estimated), "
                            f"generated {now[1] - before[1]}")
            return reply, parsed, row
        stated = usage_of(api, parsed, streamed)
        expect(stated is None or stated == billed(row), "usage", stated, "row", row)
        self.counted(before, [row], body.get("n", 1))
        expect(row["source"] in ("reported", "running"), row)
        return reply, parsed, row

    def missing(self, reply, path):
        """NotYet when the gateway has no such path."""
        if reply.status in (404, 501) and b"path_not_found" in reply.body:
            raise NotYet(f"{path} is 404 path_not_found")

    def counted(self, before, rows, choices=1):
        """The rows' tokens are what the servers counted since before. vLLM counts a prompt once
        for each of its choices, and states it once in the answer."""
        owed = [sum(billed(row)[i] for row in rows) for i in (0, 1)]
        if self.kind == "vllm":
            owed[0] *= choices
        if not self.embedder.COUNTS_CACHED:
            owed[0] -= sum(row.get("cached_input", 0) for row in rows)

        def delta():
            now = self.counters()
            return [now[0] - before[0], now[1] - before[1]]
        harness.wait_until(lambda: delta() == owed, COUNTER_SECONDS, 0.2)
        expect(delta() == owed, "servers counted", delta(), "rows have", owed, rows)

    def idle(self, seconds=30.0):
        """True once no server has a request."""
        return harness.wait_until(
            lambda: all(server.child.poll() is not None or server.running() == 0
                        for server in self.replicas), seconds, self.embedder.LOOK_SECONDS)

    # ---- the checks ----

    def run(self):
        self.models()
        self.chat()
        self.completions()
        self.structure()
        self.native()
        self.translated()
        self.tokenization()
        self.embeddings()
        self.pooling()
        self.errors()
        self.kept_alive()
        self.aborts()
        self.load_page()
        self.one_killed()

    def models(self):
        with self.check("models"):
            reply = harness.get(self.gateway.port, "/v1/models", harness.bearer(harness.KEY))
            names = {entry["id"] for entry in reply.json()["data"]}
            expect({"tiny", "tiny-embed"} <= names, names)

    def chat(self):
        base = {"model": "tiny", "messages": ASK, "max_tokens": 12}
        with self.check("chat plain: usage = row = the server's counters"):
            reply, body, _ = self.metered("/v1/chat/completions", base)
            expect(body["choices"][0]["message"]["role"] == "assistant", body)
            expect(reply.header("x-tollgate-replica") in ("a", "b"), reply.headers)
            expect(reply.header("access-control-allow-origin") is None, reply.headers)
        with self.check("chat plain, n = 2 and logprobs"):
            _, body, _ = self.metered("/v1/chat/completions", dict(
                base, n=2, logprobs=True, top_logprobs=2, temperature=1))
            expect(len(body["choices"]) == 2, body)
        for protocol in ("h1", "h2"):
            with self.check(f"chat stream by {protocol}, usage not asked: none shown, all billed"):
                reply, body, row = self.metered("/v1/chat/completions", dict(base, stream=True),
                                                protocol=protocol)
                expect(not any(data.get("usage") for _, data in body), reply.text())
                expect(reply.text().endswith("data: [DONE]\n\n"), reply.text()[-200:])
                expect(row["output"] > 0, row)
            with self.check(f"chat stream by {protocol}, usage asked"):
                _, body, _ = self.metered("/v1/chat/completions", dict(
                    base, stream=True, **USAGE), protocol=protocol)
                shown = [data for _, data in body if data.get("usage")]
                expect(len(shown) == 1 and shown[0]["choices"] == [], shown)
        with self.check("chat stream, running usage asked"):
            _, body, _ = self.metered("/v1/chat/completions", dict(base, stream=True, **RUNNING))
            shown = [data for _, data in body if data.get("usage")]
            expect(self.kind != "vllm" or len(shown) > 3, shown)
        with self.check("chat stream, n = 2: both answers billed, the prompt once"):
            self.metered("/v1/chat/completions", dict(base, stream=True, n=2, temperature=1))
        with self.check("chat of a long prompt, twice: what the cache held is cached_input"):
            prompt = [{"role": "user", "content": f"{time.time()} " + "baba didi kuku " * 150}]
            rows = [self.metered("/v1/chat/completions", dict(base, messages=prompt))[2]
                    for _ in range(4)]
            expect(max(row.get("cached_input", 0) for row in rows) > 0, rows)

    def completions(self):
        base = {"model": "tiny", "prompt": "baba didi", "max_tokens": 10}
        with self.check("completions plain"):
            self.metered("/v1/completions", base)
        with self.check("completions of two prompts"):
            _, body, _ = self.metered("/v1/completions", dict(base, prompt=["baba", "didi kuku"]))
            expect(len(body["choices"]) == 2, body)
        with self.check("completions stream, usage not asked"):
            _, body, _ = self.metered("/v1/completions", dict(base, stream=True))
            expect(not any(data.get("usage") for _, data in body), body)
        with self.check("completions stream of two prompts, usage asked"):
            self.metered("/v1/completions", dict(base, prompt=["baba", "didi kuku"], stream=True,
                                                 **USAGE))

    def structure(self):
        base = {"model": "tiny", "messages": ASK, "max_tokens": 200}
        with self.check("chat by a JSON schema"):
            _, body, _ = self.metered("/v1/chat/completions", dict(base, response_format=SCHEMA))
            choice = body["choices"][0]
            if choice["finish_reason"] == "stop":
                expect(set(json.loads(choice["message"]["content"])) == {"ok"}, body)
        for stream in (False, True):
            with self.check(f"chat with a required tool, {'stream' if stream else 'plain'}"):
                _, body, _ = self.metered("/v1/chat/completions", dict(
                    base, tools=[TOOL], tool_choice="required", stream=stream))
                # Noise may fill the room before a call is whole; then it is text.
                parts = [choice["delta"] for _, data in body for choice in data["choices"]] \
                    if stream else [choice["message"] for choice in body["choices"]]
                called = [call for part in parts for call in part.get("tool_calls") or []]
                expect(all(call["function"].get("name") in ("look", None) for call in called), body)

    def native(self):
        """Responses and messages as the kind has them: vLLM's own; llama.cpp's are translated, since
        its own streams leave their first event out when the first token is half a character."""
        own = self.kind != "llamacpp"
        ask = {"model": "tiny", "input": "baba didi", "max_output_tokens": 8, "temperature": 0}
        with self.check("responses plain, as the kind has them"):
            _, body, row = self.metered("/v1/responses", ask, "responses")
            expect(body["object"] == "response" and ("translated" not in row.get("flags", [])) == own, row)
        with self.check("responses stream, as the kind has them: begins with created, ends with the whole"):
            _, body, _ = self.metered("/v1/responses", dict(ask, stream=True), "responses")
            names = [data["type"] for _, data in body]
            expect(names[0] == "response.created", names)
            expect(names[-1] in ("response.completed", "response.incomplete"), names)
        ask = {"model": "tiny", "messages": ASK, "max_tokens": 8, "temperature": 0}
        with self.check("messages plain, as the kind has them"):
            _, body, row = self.metered("/v1/messages", ask, "messages")
            expect(body["type"] == "message" and ("translated" not in row.get("flags", [])) == own, row)
        with self.check("messages stream, as the kind has them: from message_start to message_stop"):
            _, body, _ = self.metered("/v1/messages", dict(ask, stream=True), "messages")
            expect((body[0][0], body[-1][0]) == ("message_start", "message_stop"), body)
        with self.check("count_tokens = the input of the same message"):
            reply = self.ask("/v1/messages/count_tokens", {"model": "tiny", "messages": ASK})
            self.missing(reply, "/v1/messages/count_tokens")
            expect(reply.status == 200, reply.status, reply.text())
            _, body, row = self.metered("/v1/messages", ask, "messages")
            expect(reply.json()["input_tokens"] == billed(row)[0], reply.text(), row)

    def translated(self):
        """The same server as one of a kind without these endpoints: turned into chat and back."""
        ask = {"model": "tiny-as-openai", "messages": ASK, "max_tokens": 8}
        with self.check("messages plain, translated to chat"):
            _, body, row = self.metered("/v1/messages", ask, "messages")
            expect(body["type"] == "message" and "translated" in row["flags"], body, row)
        with self.check("messages stream, translated to chat"):
            _, body, row = self.metered("/v1/messages", dict(ask, stream=True), "messages")
            expect((body[0][0], body[-1][0]) == ("message_start", "message_stop"), body)
            expect("translated" in row["flags"], row)
        ask = {"model": "tiny-as-tgi", "input": "baba didi", "max_output_tokens": 8}
        with self.check("responses plain, translated to chat"):
            _, body, row = self.metered("/v1/responses", ask, "responses")
            expect(body["object"] == "response" and "translated" in row["flags"], body, row)
        with self.check("responses stream, translated to chat"):
            _, body, row = self.metered("/v1/responses", dict(ask, stream=True), "responses")
            expect(body[0][1]["type"] == "response.created", body)
            expect("translated" in row["flags"], row)

    def tokenization(self):
        text = "baba didi kuku"
        with self.check("tokenize and detokenize: there and back"):
            reply = self.ask("/tokenize", {"model": "tiny", "prompt": text, "content": text})
            self.missing(reply, "/tokenize")
            expect(reply.status == 200, reply.status, reply.text())
            tokens = reply.json()["tokens"]
            back = self.ask("/detokenize", {"model": "tiny", "tokens": tokens})
            self.missing(back, "/detokenize")
            said = back.json()
            expect(text in (said.get("prompt"), said.get("content")), said)

    def embeddings(self):
        ask = {"model": "tiny-embed", "input": ["baba", "didi kuku"]}
        with self.check("embeddings as floats"):
            _, body, _ = self.metered("/v1/embeddings", ask)
            floats = [entry["embedding"] for entry in body["data"]]
            expect(len(floats) == 2 and len(floats[0]) == 256, body)
        with self.check("embeddings as base64"):
            _, body, _ = self.metered("/v1/embeddings", dict(ask, encoding_format="base64"))
            expect(len(base64.b64decode(body["data"][1]["embedding"])) == 4 * 256, body)

    def pooling(self):
        """Endpoints of vLLM alone."""
        if self.kind != "vllm":
            return
        two = {"model": "tiny-embed", "query": "baba", "documents": ["didi", "kuku"]}
        for path in ("/v1/rerank", "/v2/rerank"):
            with self.check(f"{path[1:]}: billed as the server counted"):
                _, body, _ = self.metered(path, two)
                expect(len(body["results"]) == 2, body)
        with self.check("v1/score: billed as the server counted"):
            self.metered("/v1/score", {"model": "tiny-embed", "text_1": "baba", "text_2": ["didi"]})
        with self.check("pooling: billed as the server counted"):
            self.metered("/pooling", {"model": "tiny-embed", "input": "baba didi"})

    def errors(self):
        base = {"model": "tiny", "messages": ASK, "max_tokens": 4}
        with self.check("a model that the gateway does not know: its own 404"):
            reply = self.ask("/v1/chat/completions", dict(base, model="nobody"))
            expect(reply.status == 404, reply.text())
            expect(reply.json()["error"]["code"] == "model_not_found", reply.text())
        for name, body in (("a bad value", dict(base, temperature="hot")),
                           ("no messages", {"model": "tiny", "max_tokens": 4})):
            with self.check(f"{name}: the server's own answer, byte for byte"):
                direct = self.replicas[0].ask("POST", "/v1/chat/completions",
                                              json.dumps(body).encode())
                reply = self.ask("/v1/chat/completions", body)
                self.tally.note(f"{self.kind}: {name}: {direct.status} {direct.text()[:300]}")
                expect(reply.status == direct.status and 400 <= reply.status, reply, direct)
                expect(bytes(reply.body) == bytes(direct.body) or
                       reply.json()["error"]["code"] == "bad_value", reply.text())
        with self.check("a model that the server does not know"):
            body = dict(base, model="ghost")
            direct = self.replicas[0].ask("POST", "/v1/chat/completions", json.dumps(
                dict(body, model="nobody")).encode())
            reply = self.ask("/v1/chat/completions", body)
            self.tally.note(f"{self.kind}: unknown model: {direct.status} {direct.text()[:300]}")
            expect(reply.status == direct.status, reply.status, reply.text(), direct.text())
            expect(reply.status == 200 or bytes(reply.body) == bytes(direct.body), reply.text())
        with self.check("a prompt longer than the context"):
            request_id = harness.new_id()
            reply = self.ask("/v1/chat/completions", dict(
                base, messages=[{"role": "user", "content": "qxz " * 9000}]),
                request_id=request_id)
            expect(reply.status == 400 and "error" in reply.json(), reply.status, reply.text())
            row = self.gateway.row_of(request_id)
            expect(not row["billable"] and int(row["cost_pusd"]) == 0, row)
            self.tally.note(f"{self.kind}: long prompt: {reply.status} {reply.text()[:300]}")

    def kept_alive(self):
        with self.check("after an idle time beyond the server's keep-alive: at once, one attempt"):
            self.metered("/v1/chat/completions", {"model": "tiny", "messages": ASK,
                                                  "max_tokens": 2})
            time.sleep(IDLE_SECONDS)
            for _ in range(4):
                _, _, row = self.metered("/v1/chat/completions", {
                    "model": "tiny", "messages": ASK, "max_tokens": 2})
                expect(row["attempts"] == 1, row)

    def aborts(self):
        for api in ("chat", "completions", "messages", "responses"):
            for protocol in ("h1", "h2") if api == "chat" else ("h1",):
                with self.check(f"a stream of {api} aborted by {protocol}: the server stops, "
                                "received <= billed <= generated"):
                    self.abort_stream(api, protocol)
        with self.check("a plain request aborted: the server stops"):
            self.abort_plain()

    def abort_stream(self, api, protocol):
        """Read some events of a long stream, leave, and compare the three witnesses."""
        expect(self.idle(), "a server is busy before the test")
        before, aborted = self.counters(), self.aborted()
        request_id = harness.new_id()
        path, body = long_stream(api)
        headers = dict(harness.bearer(harness.KEY), **{"x-request-id": request_id})

        def enough(reply):
            return reply.body.count(b"data:") < 25
        if protocol == "h1":
            client = wire.H1(self.gateway.port, timeout=SECONDS)
            reply = client.request("POST", path, headers, json.dumps(body).encode(),
                                   on_data=enough)
        else:
            client = wire.H2(self.gateway.port, timeout=SECONDS)
            stream = client.start("POST", path, headers, json.dumps(body).encode())
            client.wait_until(lambda: not enough(stream.reply), SECONDS)
            client.reset(stream)
            reply = stream.reply
        client.close()
        self.missing(reply, path)
        expect(reply.status == 200 and not reply.complete, reply.status, reply.problem,
               reply.text()[-300:])
        expect(self.idle(), "the server is still running it")
        row = self.gateway.row_of(request_id, 20)
        generated = harness.wait_until(lambda: self.counters()[1] - before[1], 5)
        received = received_of(bytes(reply.body))
        self.tally.note(f"{self.kind}: aborted stream of {api}: received {received}, billed "
                        f"{row['output']} ({row['source']}), generated {generated}")
        expect(row["outcome"] == "client_gone", row)
        expect(received <= row["output"], "received", received, row)
        expect(row["output"] <= generated, "generated", generated, row)
        expect(generated < LONG["max_tokens"], "it generated to the end", generated)
        if self.kind == "vllm":
            self.tally.note(f"vllm: its counter of aborted requests grew by "
                            f"{self.aborted() - aborted}")

    def aborted(self):
        """How many aborted requests the replicas have counted, where they do."""
        return sum(server.total("vllm:request_success_total", 'finished_reason="abort"')
                   for server in self.replicas if server.child.poll() is None)

    def abort_plain(self):
        before = self.counters()
        request_id = harness.new_id()
        client = wire.H1(self.gateway.port, timeout=SECONDS)
        client.send(wire.request_bytes(
            "POST", "/v1/chat/completions",
            dict(harness.bearer(harness.KEY), **{"x-request-id": request_id}),
            json.dumps(dict({"model": "tiny", "messages": ASK}, **LONG)).encode()))
        expect(harness.wait_until(lambda: any(server.running() for server in self.replicas), 20,
                                  0.05), "it never ran")
        client.close()
        expect(self.idle(), "the server is still running it")
        generated = self.counters()[1] - before[1]
        expect(generated < LONG["max_tokens"], "it generated to the end", generated)
        row = self.gateway.row_of(request_id, 20)
        expect(row["outcome"] == "client_gone" and billed(row)[1] <= generated, row, generated)

    def load_page(self):
        """What the gateway says it has scraped."""
        with self.check("/replicas shows the load that the servers say of themselves"):
            def engines():
                models = self.gateway.admin("/replicas").json()["models"]
                found = [replica.get("engine") for model in models if model["model"] == "tiny"
                         for replica in model["replicas"]]
                return found if all(found) else None
            found = harness.wait_until(engines, 15.0, 0.5)
            if not found:
                raise NotYet("/replicas has no scraped load: "
                             + self.gateway.admin("/replicas").text()[:600])
            self.tally.note(f"{self.kind}: /replicas: {json.dumps(found)}")

            def agree():
                return [engine["generation_tokens"] for engine in engines()] == [
                    server.total(server.OUTPUT) for server in self.replicas]
            expect(harness.wait_until(agree, 10.0, 0.5), engines())
            expect(all(engine["running"] == 0 for engine in engines()), engines())

    # ---- two replicas, one killed under load ----

    def one_killed(self):
        with self.check("one of two replicas killed under load: no request fails but cut streams, "
                        "each has one row"):
            expect(self.idle(), "a server is busy before the test")
            results, lock = [], threading.Lock()
            ends_at = time.monotonic() + LOAD_SECONDS

            def client(number):
                while time.monotonic() < ends_at:
                    request_id = harness.new_id()
                    stream = number % 2 == 0
                    reply = self.ask("/v1/chat/completions", dict(
                        {"model": "tiny", "messages": ASK, "stream": stream, "max_tokens": 60,
                         "ignore_eos": True}), request_id=request_id)
                    with lock:
                        results.append((request_id, stream, time.monotonic(), reply))
            threads = [threading.Thread(target=client, args=(i,)) for i in range(LOAD_THREADS)]
            for thread in threads:
                thread.start()
            time.sleep(KILL_AFTER)
            killed_at = time.monotonic()
            self.replicas[0].kill()
            for thread in threads:
                thread.join()
            self.judge_killed(results, killed_at)
            self.one_left()

    def judge_killed(self, results, killed_at):
        whole = cut = retried = 0
        after = 0
        for request_id, stream, ended_at, reply in results:
            row = self.gateway.row_of(request_id, 20)
            good = reply.status == 200 and reply.complete and (
                not stream or b"data: [DONE]" in reply.body)
            whole += good
            after += good and ended_at > killed_at + 2
            retried += row["attempts"] > 1
            if not good:
                cut += 1
                expect(stream and reply.status == 200 and reply.body, "failed:", reply.status,
                       reply.problem, reply.text()[-300:], row)
                expect(row["outcome"] == "replica_error", row)
            else:
                expect(row["outcome"] == "ok" and row["output"] == 60, row)
        self.tally.note(f"{self.kind}: one replica killed under load: {len(results)} requests, "
                        f"{whole} whole ({after} after it), {cut} streams cut, {retried} retried")
        expect(after > 0, "nothing succeeded afterwards")

    def one_left(self):
        """The dead one is out; requests go to the other at their first attempt."""
        text = self.gateway.admin("/replicas").text()
        self.tally.note(f"{self.kind}: /replicas after it: {' '.join(text.split())[:500]}")
        for _ in range(4):
            _, _, row = self.metered("/v1/chat/completions", {
                "model": "tiny", "messages": ASK, "max_tokens": 4})
            expect(row["replica"] == "b", row)
