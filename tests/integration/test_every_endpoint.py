# SPDX-License-Identifier: Apache-2.0
"""Every endpoint of every kind of server, passed on as it came and billed by what was reported.

For:       which kind has which endpoint, where it is at the server, what is billed, whose shape
           errors have; forms byte for byte but for the model's name.
"""

import json

import harness
from harness import KEY, REPLICA_KEY, GatewayTest, model

KINDS = ("vllm", "sglang", "llamacpp", "tgi", "openai")
MESSAGES = [{"role": "user", "content": "hello there"}]

# Endpoint: path, body, kinds that have it, is it billed.
ENDPOINTS = {
    "chat": ("/v1/chat/completions", {"messages": MESSAGES}, KINDS, True),
    "completions": ("/v1/completions", {"prompt": "hello there"}, KINDS, True),
    "embeddings": ("/v1/embeddings", {"input": ["one", "two"]},
                   ("vllm", "sglang", "llamacpp", "openai"), True),
    "responses": ("/v1/responses", {"input": "hello there"},
                  ("vllm", "sglang", "openai"), True),
    "messages": ("/v1/messages", {"messages": MESSAGES, "max_tokens": 9}, ("vllm", "sglang"), True),
    "count_tokens": ("/v1/messages/count_tokens", {"messages": MESSAGES},
                     ("vllm", "sglang", "llamacpp"), False),
    "rerank": ("/v1/rerank", {"query": "which", "documents": ["this one", "that one"]},
               ("vllm", "sglang", "llamacpp"), True),
    "rerank_v2": ("/v2/rerank", {"query": "which", "documents": ["this one"]}, ("vllm",), True),
    "score": ("/v1/score", {"text_1": "one", "text_2": ["two", "three"]}, ("vllm", "sglang"), True),
    "tokenize": ("/tokenize", {"prompt": "hello there", "content": "hello there"},
                 ("vllm", "sglang", "llamacpp"), False),
    "detokenize": ("/detokenize", {"tokens": [1, 2, 3]}, ("vllm", "sglang", "llamacpp"), False),
    "pooling": ("/pooling", {"input": "hello"}, ("vllm",), True),
    "classify": ("/classify", {"input": "hello"}, ("vllm",), True),
}
TRANSLATED = {("messages", "tgi"), ("messages", "openai"), ("messages", "llamacpp"),
              ("responses", "tgi"), ("responses", "llamacpp")}


def form(fields, boundary="edge-of-part"):
    """A multipart body; a value that is a tuple is a file: (file name, bytes)."""
    parts = []
    for name, value in fields:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'
        if isinstance(value, tuple):
            head += f'; filename="{value[0]}"\r\nContent-Type: audio/wav'
            value = value[1]
        else:
            value = value.encode()
        parts.append(head.encode() + b"\r\n\r\n" + value + b"\r\n")
    return b"".join(parts) + f"--{boundary}--\r\n".encode()


class EveryEndpoint(GatewayTest):
    FAKES = tuple((kind, ("--kind", kind, "--record", "--models", "upstream-name"))
                  for kind in KINDS)

    @classmethod
    def configure(cls):
        models = {kind: model((kind, cls.fakes[kind].port), kind=kind,
                              upstream_model="upstream-name") for kind in KINDS}
        return {"models": models, "classes": [{"name": "default", "match": {}}],
                "tenants": harness.tenants()}

    def body(self, members, kind, **more):
        return json.dumps(dict({"model": kind}, **members, **more)).encode()

    def test_a_kind_answers_on_what_it_has_and_the_row_says_what_was_used(self):
        for protocol, conn in self.clients():
            for name, (path, members, kinds, billed) in ENDPOINTS.items():
                for kind in kinds:
                    with self.subTest(f"{protocol} {name} {kind}"):
                        reply, row = self.ask_row(conn, self.body(members, kind), path=path)
                        self.assertEqual(reply.status, 200, reply)
                        self.assertEqual(row["endpoint"], name)
                        self.assertEqual(row["billable"], billed)
                        self.assertNotIn("translated", row.get("flags", []))
                        if billed:
                            self.assertGreater(row["input"], 0)
                            self.assertGreater(int(row["cost_pusd"]), 0)
                        else:
                            self.assertEqual(int(row.get("cost_pusd", "0")), 0)

    def test_the_same_paths_answer_with_and_without_version(self):
        conn = self.h1()
        for path in ("/rerank", "/v1/rerank", "/score", "/v1/tokenize", "/tokenize", "/messages"):
            name = next(name for name, row in ENDPOINTS.items()
                        if row[0].removeprefix("/v1") == path.removeprefix("/v1"))
            reply = self.ask(conn, self.body(ENDPOINTS[name][1], "vllm"), path=path)
            self.assertEqual(reply.status, 200, f"{path}: {reply}")

    def test_what_a_kind_lacks_is_404_and_reaches_no_server(self):
        conn = self.h1()
        before = self.fake_posts()
        for name, (path, members, kinds, _) in ENDPOINTS.items():
            for kind in KINDS:
                if kind in kinds or (name, kind) in TRANSLATED:
                    continue
                with self.subTest(f"{name} {kind}"):
                    reply = self.ask(conn, self.body(members, kind), path=path)
                    self.assertEqual(reply.status, 404, reply)
                    error = reply.json()["error"]
                    if name == "count_tokens":
                        self.assertEqual(reply.json()["type"], "error")
                        self.assertEqual(error["type"], "not_found_error")
                    else:
                        self.assertEqual(error["code"], "endpoint_not_served")
        self.assertEqual(self.fake_posts(), before)

    def test_only_the_model_and_what_is_ours_changes_in_a_body(self):
        conn = self.h1()
        body = (b'{ "input" : "x", "cache":{"no-cache":true},\t"model":"vllm" ,'
                b'"seed":12345678901234567890, "e":1.0e+2}')
        self.assertEqual(self.ask(conn, body, path="/v1/responses").status, 200)
        sent = harness.get(self.fakes["vllm"].port, "/fake/last").body
        sent = bytes(sent).partition(b"\r\n\r\n")[2]
        self.assertIn(b'"seed":12345678901234567890, "e":1.0e+2', sent)
        seen = json.loads(sent)
        self.assertEqual(seen["model"], "upstream-name")
        self.assertNotIn("cache", seen)
        self.assertNotIn("stream_options", seen)

    def test_a_salt_goes_only_to_those_that_take_it(self):
        conn = self.h1()
        for kind in KINDS:
            with self.subTest(kind):
                body = self.body({"messages": MESSAGES}, kind, cache_salt="mine")
                self.assertEqual(self.ask(conn, body).status, 200)
                sent = bytes(harness.get(self.fakes[kind].port, "/fake/last").body)
                seen = json.loads(sent.partition(b"\r\n\r\n")[2])
                if kind in ("vllm", "sglang"):
                    self.assertNotEqual(seen["cache_salt"], "mine")
                else:
                    self.assertNotIn("cache_salt", seen)

    def test_streams_of_responses_and_messages_pass_whole_and_are_billed_exactly(self):
        for protocol, conn in self.clients():
            for name in ("responses", "messages"):
                path, members, kinds, _ = ENDPOINTS[name]
                for kind in kinds:
                    with self.subTest(f"{protocol} {name} {kind}"):
                        body = self.body(members, kind, stream=True)
                        reply, row = self.ask_row(conn, body, path=path)
                        self.assertEqual(reply.status, 200, reply)
                        self.assertEqual(row["source"], "reported")
                        served = self.fakes[kind].served_as(row["exchange_id"])
                        self.assertEqual(row["output"] + row.get("reasoning", 0),
                                         served["generated"])

    def test_a_cut_stream_of_messages_is_billed_its_input_and_an_estimate(self):
        conn = self.h1()
        body = self.body({"messages": [{"role": "user",
                                        "content": "[[fake tokens=40 reset=9]] say much"}],
                          "max_tokens": 40}, "vllm", stream=True)
        request_id = harness.new_id()
        try:
            self.ask(conn, body, {"x-request-id": request_id}, path="/v1/messages")
        except Exception:  # the framing is broken on purpose
            pass
        row = self.gateway.row_of(request_id)
        self.assertEqual(row["source"], "estimated")
        self.assertEqual(row["outcome"], "replica_error")
        self.assertGreater(row["input"], 0)
        self.assertEqual(row["output"], 9)  # each event is a token

    # ---- forms ----

    def test_a_form_passes_byte_for_byte_but_for_the_model(self):
        audio = bytes(range(256)) * 40 + b"\r\n--edge\r\n--"
        for protocol, conn in self.clients():
            for path, kind in (("/v1/audio/transcriptions", "vllm"),
                               ("/v1/audio/translations", "openai"),
                               ("/audio/transcriptions", "sglang")):
                with self.subTest(f"{protocol} {path} {kind}"):
                    body = form([("file", ("a.wav", audio)), ("model", kind),
                                 ("response_format", "json"), ("prompt", "names: Ada")])
                    request_id = harness.new_id()
                    headers = {
                        "authorization": f"Bearer {KEY}",
                        "content-type": "multipart/form-data; boundary=edge-of-part",
                        "x-request-id": request_id}
                    reply = conn.request("POST", path, headers, body)
                    self.assertEqual(reply.status, 200, reply)
                    self.assertIn("text", reply.json())
                    sent = bytes(harness.get(self.fakes[kind].port, "/fake/last").body)
                    head, _, seen = sent.partition(b"\r\n\r\n")
                    self.assertEqual(seen, body.replace(b"\r\n\r\n" + kind.encode() + b"\r\n",
                                                        b"\r\n\r\nupstream-name\r\n"))
                    self.assertIn(b"boundary=edge-of-part", head)
                    self.assertIn(REPLICA_KEY.encode(), head)
                    row = self.gateway.row_of(request_id)
                    self.assertEqual(row["endpoint"], path.rsplit("/", 1)[1])
                    self.assertTrue(row["billable"])

    def test_a_form_that_cannot_be_read_is_400(self):
        conn = self.h1()
        kind = "multipart/form-data; boundary=edge-of-part"
        good = form([("file", ("a.wav", b"x")), ("model", "vllm")])
        for content_type, body in (
                ("application/json", good), ("multipart/form-data", good),
                ("multipart/form-data; boundary=other", good), (kind, good[:-9]),
                (kind, form([("file", ("a.wav", b"x"))])), (kind, form([("model", "vllm")])),
                (kind, form([("file", ("a.wav", b"x")), ("model", "vllm"), ("model", "vllm")])),
                (kind, b"")):
            with self.subTest(f"{content_type} {body[:40]}"):
                headers = {"authorization": f"Bearer {KEY}", "content-type": content_type}
                reply = conn.request("POST", "/v1/audio/transcriptions", headers, body)
                self.assert_error(reply, 400)

    # ---- errors ----

    def test_errors_of_any_server_come_in_the_shape_of_the_api(self):
        conn = self.h1()
        for kind in KINDS:
            for name in ("chat", "messages", "responses"):
                path, members, _, _ = ENDPOINTS[name]
                text = "[[fake fail=400]] please"
                members = dict(members)
                if "input" in members:
                    members["input"] = text
                else:
                    members["messages"] = [{"role": "user", "content": text}]
                with self.subTest(f"{kind} {name}"):
                    reply = self.ask(conn, self.body(members, kind), path=path)
                    self.assertEqual(reply.status, 422 if kind == "tgi" else 400, reply)
                    error = reply.json()["error"]
                    self.assertIsInstance(error, dict)
                    self.assertTrue(error["message"])
                    if name == "messages":
                        self.assertEqual(reply.json()["type"], "error")
                        self.assertTrue(reply.header("request-id"))

    def test_our_own_errors_on_messages_are_anthropics(self):
        conn = self.h1()
        for key, body, status, kind in (
                ("wrong", self.body(ENDPOINTS["messages"][1], "vllm"), 401, "authentication_error"),
                (KEY, self.body(ENDPOINTS["messages"][1], "nobody"), 404, "not_found_error"),
                (KEY, b"{", 400, "invalid_request_error"),
                (KEY, self.body({"messages": MESSAGES}, "vllm"), 400, "invalid_request_error")):
            reply = self.ask(conn, body, path="/v1/messages", key=key)
            self.assertEqual(reply.status, status, reply)
            self.assertEqual(reply.json()["type"], "error")
            self.assertEqual(reply.json()["error"]["type"], kind)

    def test_what_needs_state_is_refused_with_what_to_do(self):
        conn = self.h1()
        for more in ({"previous_response_id": "resp_1"}, {"background": True},
                     {"conversation": "conv_1"}):
            reply = self.ask(conn, self.body({"input": "x"}, "vllm", **more), path="/v1/responses")
            self.assert_error(reply, 400)

    # ---- LiteLLM's habits ----

    def test_tags_of_the_request_are_in_its_row(self):
        reply, row = self.ask_row(self.h1(), self.body({"messages": MESSAGES}, "vllm"),
                                  {"x-litellm-tags": 'team-a, "b"'})
        self.assertEqual(reply.status, 200)
        self.assertEqual(row["tags"], {"team": "search", "request": 'team-a, "b"'})

    def test_the_health_paths_of_litellm_answer(self):
        for path in ("/health/liveliness", "/health/liveness", "/health/readiness"):
            self.assertEqual(harness.get(self.gateway.port, path).status, 200, path)

    # ---- what real servers do otherwise ----

    def test_a_server_that_counts_each_choice_is_billed_all_of_them(self):
        conn = self.h1()
        for kind in KINDS:
            for stream in (False, True):
                with self.subTest(f"{kind} {stream}"):
                    body = self.body({"messages": MESSAGES, "n": 3, "stream": stream}, kind)
                    reply, row = self.ask_row(conn, body)
                    self.assertEqual(reply.status, 200, reply)
                    served = self.fakes[kind].served_as(row["exchange_id"])
                    if kind != "llamacpp" or stream:
                        self.assertEqual(row["output"], served["generated"], row)
                    else:
                        self.assertEqual(row["source"], "estimated")

    def test_closing_usage_that_rides_on_the_last_event_stays_when_it_was_asked_for(self):
        conn = self.h1()
        for asked in (True, False):
            options = {"stream_options": {"include_usage": True}} if asked else {}
            body = self.body({"prompt": "hello", "stream": True}, "llamacpp", **options)
            reply, row = self.ask_row(conn, body, path="/v1/completions")
            usage = harness.Sse(reply.body).usage()
            self.assertEqual(usage is not None, asked, reply)
            self.assertEqual(row["source"], "reported")

    def test_a_stream_of_a_transcription_is_whole_as_its_framing_says(self):
        conn = self.h1()
        for kind in ("vllm", "openai"):
            body = form([("file", ("a.wav", b"x" * 999)), ("model", kind), ("stream", "true"),
                         ("prompt", "[[fake usage_tokens=1]]")])
            headers = {"authorization": f"Bearer {KEY}",
                       "content-type": "multipart/form-data; boundary=edge-of-part"}
            reply = conn.request("POST", "/v1/audio/transcriptions", headers, body)
            self.assertTrue(reply.complete and reply.status == 200, reply)
            self.assertNotIn(b"replica_gone", bytes(reply.body))
