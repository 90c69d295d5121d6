# SPDX-License-Identifier: Apache-2.0
"""Who may ask, for what, on which path, and what a model server gets to see of it.

For:       keys, models per tenant, the path allow-list, preflight, refused body fields, and the
           headers and bytes that are forwarded.
"""

import json

import harness
import wire
from harness import KEY, KEY_EXPIRED, KEY_OTHER, ORIGIN, REPLICA_KEY, GatewayTest, chat, model
from harness import tenants
from upstream import Script, Upstream

ANSWER = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "seen",
          "choices": [{"index": 0, "message": {"role": "assistant", "content": "ok"},
                       "finish_reason": "stop"}],
          "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}}


class KeysPathsAndFields(GatewayTest):
    FAKES = ()

    @classmethod
    def configure(cls):
        cls.server = Upstream()
        cls.addClassCleanup(cls.server.close)
        return {
            "models": {
                "small": model(("s1", cls.server.port)),
                "org/large": model(("l1", cls.server.port), aliases=["gpt-4o-mini"]),
                "secret": model(("x1", cls.server.port)),
            },
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(acme={"models": ["small", "org/large"]},
                               globex={"allow": ["priority", "session_id"]}),
            "cors": {"origins": [ORIGIN]},
        }

    def setUp(self):
        self.script = Script([{"json": ANSWER}], repeat_last=True)
        self.server.load(self.script)

    def assert_forwarded(self, count):
        self.assertEqual(len(self.script.requests), count)

    def test_a_key_is_taken_from_either_header(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                reply = conn.request("POST", "/v1/chat/completions",
                                     {"x-api-key": KEY, "content-type": "application/json"}, chat())
                self.assertEqual(reply.status, 200, reply)
                self.assertEqual(self.ask(conn, chat()).status, 200)
                bearer = {"authorization": f"bearer {KEY}", "content-type": "application/json"}
                reply = conn.request("POST", "/v1/chat/completions", bearer, chat())
                self.assertEqual(reply.status, 200, "the scheme is case-insensitive")

    def test_no_wrong_or_expired_key_gets_in(self):
        for protocol, conn in self.clients():
            for why, headers in (("none", {}), ("wrong", {"authorization": "Bearer sk-test-acm"}),
                                 ("longer", {"authorization": f"Bearer {KEY}x"}),
                                 ("expired", {"authorization": f"Bearer {KEY_EXPIRED}"}),
                                 ("empty", {"authorization": "Bearer "}),
                                 ("basic", {"authorization": f"Basic {KEY}"})):
                with self.subTest(protocol=protocol, why=why):
                    whole = dict(headers, **{"content-type": "application/json"})
                    reply = conn.request("POST", "/v1/chat/completions", whole, chat())
                    self.assert_error(reply, 401, "invalid_api_key")
        self.assert_forwarded(0)

    def test_a_key_is_found_out_before_the_body_is_judged(self):
        reply = self.h1().request("POST", "/v1/chat/completions",
                                  {"content-type": "application/json"}, b"not json")
        self.assert_error(reply, 401)

    def test_an_error_names_the_request(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                reply = self.ask(conn, b"{", {"x-request-id": "mine.1_2-3"})
                self.assert_error(reply, 400, "bad_json")
                self.assertEqual(reply.header("x-request-id"), "mine.1_2-3")
                made = self.ask(conn, b"{", {"x-request-id": "not (allowed)"})
                self.assertRegex(made.header("x-request-id"), r"^[A-Za-z0-9._-]{1,128}$")

    def test_a_model_that_is_unknown_or_not_allowed_looks_the_same(self):
        for protocol, conn in self.clients():
            unknown = self.ask(conn, chat(model_name="nothing"))
            hidden = self.ask(conn, chat(model_name="secret"))
            with self.subTest(protocol):
                self.assert_error(unknown, 404, "model_not_found")
                self.assert_error(hidden, 404, "model_not_found")
                self.assertEqual(unknown.json()["error"]["message"].replace("nothing", "_"),
                                 hidden.json()["error"]["message"].replace("secret", "_"))
        self.assert_forwarded(0)
        self.assertEqual(self.ask(self.h1(), chat(model_name="secret"), key=KEY_OTHER).status, 200)

    def test_only_known_paths_and_methods_are_served(self):
        table = [("GET", "/v1/nothing", {404}), ("POST", "/", {404}), ("POST", "/metrics", {404}),
                 ("GET", "/metrics", {404}), ("POST", "/reload", {404}), ("POST", "/v1", {404}),
                 ("POST", "/v1/chat/completions/", {404}), ("POST", "/v1/v1/completions", {404}),
                 ("POST", "/v1/../v1/chat/completions", {400, 404}),
                 ("POST", "//v1/chat/completions", {404}), ("POST", "/tokenizer_info", {404}),
                 ("POST", "/abort_requests", {404}), ("POST", "/v1/load_lora_adapter", {404}),
                 ("GET", "/v1/chat/completions", {404, 405}), ("PUT", "/v1/embeddings", {404, 405}),
                 ("DELETE", "/v1/models", {404, 405}), ("PATCH", "/v1/completions", {404, 405})]
        for protocol, conn in self.clients():
            for method, path, statuses in table:
                with self.subTest(protocol=protocol, method=method, path=path):
                    body = None if method == "GET" else chat()
                    reply = conn.request(method, path, harness.bearer(KEY), body)
                    self.assertIn(reply.status, statuses)
                    self.assert_error(reply, reply.status)
                    if conn.closed:
                        conn = self.h1()
        self.assert_forwarded(0)

    def test_paths_work_with_and_without_v1_and_with_a_query(self):
        for protocol, conn in self.clients():
            for path in ("/v1/chat/completions", "/chat/completions",
                         "/v1/chat/completions?api-version=1"):
                with self.subTest(protocol=protocol, path=path):
                    self.assertEqual(self.ask(conn, chat(), path=path).status, 200)
        self.assertEqual({request.path.split("?")[0] for request in self.script.requests},
                         {"/v1/chat/completions"})

    def test_each_tenant_sees_its_own_models(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                for path in ("/v1/models", "/models"):
                    listed = conn.request("GET", path, harness.bearer(KEY)).json()
                    self.assertEqual(listed["object"], "list")
                    ids = {entry["id"] for entry in listed["data"]}
                    self.assertTrue({"small", "org/large"} <= ids)
                    self.assertNotIn("secret", ids)
                    for entry in listed["data"]:
                        self.assertEqual(entry["object"], "model")
                        self.assertIsInstance(entry["created"], int)
                        self.assertIsInstance(entry["owned_by"], str)
                other = conn.request("GET", "/v1/models", harness.bearer(KEY_OTHER)).json()
                self.assertIn("secret", {entry["id"] for entry in other["data"]})

    def test_one_model_is_found_by_its_escaped_id(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                for path in ("/v1/models/org%2Flarge", "/models/org%2flarge", "/v1/models/small"):
                    reply = conn.request("GET", path, harness.bearer(KEY))
                    self.assertEqual(reply.status, 200, reply)
                    self.assertIn(reply.json()["id"], ("org/large", "small"))
                for path in ("/v1/models/secret", "/v1/models/none", "/v1/models/a%00b",
                             "/v1/models/%2e%2e%2f"):
                    self.assertIn(conn.request("GET", path, harness.bearer(KEY)).status, (400, 404))
                self.assert_error(conn.request("GET", "/v1/models"), 401)

    def test_a_preflight_needs_no_key(self):
        ask = {"origin": ORIGIN, "access-control-request-method": "POST",
               "access-control-request-headers": "authorization,content-type"}
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                reply = conn.request("OPTIONS", "/v1/chat/completions", ask)
                self.assertIn(reply.status, (200, 204))
                self.assertIn(reply.header("access-control-allow-origin"), (ORIGIN, "*"))
                self.assertIn("POST", reply.header("access-control-allow-methods"))
                allowed = reply.header("access-control-allow-headers").lower()
                self.assertIn("authorization", allowed)
                stranger = conn.request("OPTIONS", "/v1/chat/completions",
                                        dict(ask, origin="https://evil.example"))
                self.assertNotIn(stranger.header("access-control-allow-origin"),
                                 ("https://evil.example", "*"))

    def test_an_answer_to_a_browser_carries_the_origin(self):
        for status, key in ((200, KEY), (401, "wrong")):
            reply = self.ask(self.h1(), chat(), {"origin": ORIGIN}, key=key)
            self.assertEqual(reply.status, status)
            self.assertIn(reply.header("access-control-allow-origin"), (ORIGIN, "*"))
        reply = self.ask(self.h1(), chat(), {"origin": "https://evil.example"})
        self.assertNotIn(reply.header("access-control-allow-origin"), ("https://evil.example", "*"))

    def test_fields_that_break_isolation_are_refused(self):
        image = [{"type": "image_url", "image_url": {"url": "http://10.0.0.1/a.png"}}]
        refused = [{"priority": 1}, {"kv_transfer_params": {}}, {"ec_transfer_params": {}},
                   {"request_id": "x"}, {"session_id": "x"}, {"vllm_xargs": {"a": 1}},
                   {"prompt_embeds": "x"}, {"chat_template": "{{x}}"},
                   {"messages": [{"role": "user", "content": image}]}]
        for members in refused:
            with self.subTest(str(members)):
                self.assert_error(self.ask(self.h1(), chat(**members)), 400)
        self.assert_forwarded(0)
        for members in ({"priority": 1}, {"session_id": "x"}):
            self.assertEqual(self.ask(self.h1(), chat(**members), key=KEY_OTHER).status, 200)
        self.assert_error(self.ask(self.h1(), chat(vllm_xargs={}), key=KEY_OTHER), 400)

    def test_fields_of_other_endpoints_and_inline_images_pass(self):
        image = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
        for members in ({"previous_response_id": "r"}, {"background": True}, {"metadata": {"a": "b"}},
                        {"service_tier": "auto"}, {"user": "u"}, {"store": True},
                        {"messages": [{"role": "user", "content": image}]}):
            with self.subTest(str(members)):
                self.assertEqual(self.ask(self.h1(), chat(**members)).status, 200)

    def test_n_is_bounded_and_nonsense_is_refused(self):
        for members in ({"n": 17}, {"n": 0}, {"n": -1}, {"n": "2"}, {"stream": "yes"},
                        {"model": 7}, {"model": None}):
            with self.subTest(str(members)):
                self.assertIn(self.ask(self.h1(), chat(**members)).status, (400, 404))
        for text in (b'{"model":"small","messages":[],}', b'{"model":"small"} x',
                     b"{'model':'small'}", b'{"model":"small","model":"small","messages":[]}',
                     b'{"model":"small","mod\\u0065l":"small","messages":[]}',
                     b'{"model":"small","messages":[],"x":01}', b'{"model":"small","x":"\x01"}',
                     b'{"model":"small","messages":[],"x":"\xff"}'):
            with self.subTest(str(text)):
                self.assert_error(self.ask(self.h1(), text), 400)
        self.assert_forwarded(0)

    def test_a_body_must_be_json_by_its_content_type(self):
        for kind, fine in (("application/json", True), ("application/json; charset=utf-8", True),
                           ("Application/JSON", True), ("text/plain", False),
                           ("multipart/form-data; boundary=x", False)):
            with self.subTest(kind):
                reply = self.ask(self.h1(), chat(), {"Content-Type": kind})
                self.assertEqual(reply.status == 200, fine, reply)

    def test_a_compressed_body_is_refused(self):
        reply = self.ask(self.h1(), chat(), {"Content-Encoding": "gzip"})
        self.assertIn(reply.status, (400, 415))
        self.assert_forwarded(0)

    def test_a_server_sees_its_own_key_and_nothing_of_the_client(self):
        sent = {"authorization": f"Bearer {KEY}", "content-type": "application/json",
                "cookie": "session=1", "user-agent": "curl/8", "x-forwarded-for": "10.0.0.1",
                "accept-encoding": "gzip", "x-custom": "1", "openai-organization": "org",
                "x-request-id": "client-made-1", "x-task-class": "none"}
        allowed = {"host", "content-type", "content-length", "accept", "x-request-id",
                   "authorization", "traceparent", "tracestate", "connection"}
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                reply = conn.request("POST", "/v1/chat/completions", sent, chat())
                self.assertEqual(reply.status, 200)
                seen = self.script.requests[-1]
                self.assertLessEqual(set(seen.headers), allowed)
                self.assertEqual(seen.headers["authorization"], f"Bearer {REPLICA_KEY}")
                self.assertEqual(seen.headers["host"], f"127.0.0.1:{self.server.port}")
                self.assertNotEqual(seen.headers["x-request-id"], "client-made-1")
                self.assertNotIn(KEY, json.dumps(seen.headers) + seen.body.decode())

    def test_a_body_that_needs_no_change_is_not_touched(self):
        bodies = [b'{"model":"small","messages":[{"role":"user","content":"a"}]}',
                  b' {\n "messages" : [ ] , "z": 1.50e+3,"model" :\t"small", "a":{"b":[1,{}]} }\r\n',
                  '{"model":"small","messages":[{"role":"user","content":"\u00e9 \\u00e9 \\/"}],'
                  '"seed":18446744073709551616,"x":-0.0}'.encode()]
        for protocol, conn in self.clients():
            for body in bodies:
                with self.subTest(protocol=protocol, body=body):
                    self.assertEqual(self.ask(conn, body).status, 200)
                    self.assertEqual(self.script.requests[-1].body, body)

    def test_an_alias_is_replaced_and_all_else_stays(self):
        body = b'{ "seed":1.0,"model":"gpt-4o-mini" ,"messages":[ ]}'
        self.assertEqual(self.ask(self.h1(), body).status, 200)
        self.assertEqual(self.script.requests[-1].body,
                         body.replace(b"gpt-4o-mini", b"org/large"))

    def test_a_cache_salt_is_made_the_tenants_own(self):
        for key in (KEY, KEY_OTHER, KEY):
            self.ask(self.h1(), chat(cache_salt="pepper"), key=key)
        salts = [json.loads(request.body)["cache_salt"] for request in self.script.requests]
        self.assertEqual(salts[0], salts[2])
        self.assertEqual(len(set(salts) | {"pepper"}), 3)

    def test_health_is_told_without_a_key(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                for path in ("/livez", "/readyz"):
                    self.assertEqual(conn.request("GET", path).status, 200)

    def test_secrets_are_in_no_log(self):
        self.ask(self.h1(), chat("a secret prompt 4711"), {"x-note": "hidden-note-4711"})
        self.ask(self.h1(), chat(), key="sk-wrong-4711")
        text = self.gateway.logs()
        for secret in (KEY, KEY_OTHER, REPLICA_KEY, harness.ADMIN_TOKEN, "sk-wrong-4711",
                       "a secret prompt 4711", "hidden-note-4711"):
            self.assertNotIn(secret, text)

    def test_both_protocols_are_told_apart_by_the_first_bytes(self):
        slow = self.h1()
        whole = wire.request_bytes("GET", "/livez", host=f"127.0.0.1:{self.gateway.port}")
        for byte in whole[:6]:
            slow.send(bytes([byte]))
        slow.send(whole[6:])
        self.assertEqual(slow.read_reply("GET").status, 200)
