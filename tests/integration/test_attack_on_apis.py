# SPDX-License-Identifier: Apache-2.0
"""What a hostile server or client may not do to answers that are written anew, forms and rows.

For:       answers and errors in codings, shapes and pieces that nobody announced, before APIs that
           are translated; what the row says of each.
"""

import gzip
import json
import time

from harness import KEY, GatewayTest, bearer, model, tenants, wait_until
from test_attack_on_bounds_and_memory import RawServer, read_request

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"   # until it is closed
DONE = b"data: [DONE]\n\n"
APIS = ("/v1/messages", "/v1/responses")


def event(body):
    return b"data: " + json.dumps(body).encode() + b"\n\n"


def piece(text, finish=None, **more):
    return event({"object": "chat.completion.chunk", "choices": [
        {"index": 0, "delta": {"content": text}, "finish_reason": finish, **more}]})


USAGE = event({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3,
                                        "total_tokens": 10}})


def answer(status, body, *fields, kind=b"application/json"):
    lines = [b"HTTP/1.1 %d Said" % status, b"content-type: " + kind,
             b"content-length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chat_answer(text="hi", **more):
    return json.dumps({"object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text},
         **more}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}).encode()


def names(reply):
    return [line[7:].decode() for line in bytes(reply.body).split(b"\n")
            if line.startswith(b"event: ")]


class ApiAttack(GatewayTest):
    """One server that says what the test wants, as a kind that is translated and as one that is
    not; no test of its own."""

    FAKES = ()
    MORE = {}

    @classmethod
    def configure(cls):
        cls.server, cls.other = RawServer(), RawServer()
        cls.server.behave = cls.other.behave = lambda conn: None
        cls.addClassCleanup(cls.server.close)
        cls.addClassCleanup(cls.other.close)
        return {
            "workers": 1,
            "models": {"tgi": model(("t1", cls.server.port), kind="tgi"),
                       "vllm": model(("v1", cls.server.port)),
                       "pair": model(("t1", cls.server.port), ("t2", cls.other.port), kind="tgi")},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "health": {"out_after": 1000, "check_every": "0s"},
            **cls.MORE,
        }

    def says(self, data, server=None):
        """Each connection gets one answer, and is closed."""
        def behave(conn):
            if read_request(conn):
                conn.sendall(data)
        (server or self.server).behave = behave

    def ask_api(self, path, model_name="tgi", conn=None, **more):
        body = {"model": model_name, **more}
        if path == "/v1/messages":
            body |= {"max_tokens": 50, "messages": [{"role": "user", "content": "hi"}]}
        else:
            body |= {"input": "hi"}
        return self.ask_row(conn or self.h1(), json.dumps(body).encode(), path=path)


class ErrorsOfAnyForm(ApiAttack):
    def test_one_in_a_coding_unknown_here_passes_as_it_came(self):
        packed = b"\x8b\x02\x80{}packed\x03"
        self.says(answer(400, packed, b"content-encoding: br"))
        for path in APIS:
            for name in ("tgi", "vllm"):
                with self.subTest(f"{path} {name}"):
                    reply, row = self.ask_api(path, name)
                    self.assertEqual((reply.status, bytes(reply.body)), (400, packed))
                    self.assertEqual(reply.header("content-encoding"), "br")
                    self.assertFalse(row["billable"])

    def test_packed_broken_empty_and_foreign_ones_come_in_the_shape_of_the_api(self):
        plain = b'{"error":{"message":"no","type":"t","param":null,"code":400}}'
        for name, data, status, says in (
                ("packed", answer(400, gzip.compress(plain), b"content-encoding: gzip"), 400, "no"),
                ("named", answer(400, plain, b"content-encoding: identity"), 400, "no"),
                ("html", answer(404, b"<p>none</p>", kind=b"text/html"), 404, "none"),
                ("nothing", answer(413, b""), 413, "did not say"),
                ("bytes", answer(400, bytes(range(256))), 400, "did not say"),
                ("no gzip", answer(400, b"\x1f\x8bno gzip", b"content-encoding: gzip"), 502, ""),
                ("half", answer(400, plain)[:-9], 502, ""),
                ("many interim heads", b"HTTP/1.1 103 E\r\n\r\n" * 20 + answer(400, plain), 502, "")):
            self.says(data)
            for protocol, conn in self.clients():
                with self.subTest(f"{name} {protocol}"):
                    reply, row = self.ask_api("/v1/messages", conn=conn)
                    self.assertEqual(reply.status, status, reply)
                    self.assertEqual(reply.json()["type"], "error")
                    self.assertIn(says, reply.json()["error"]["message"])
                    self.assertIn(reply.header("content-encoding"), (None, "identity"))
                    self.assertFalse(row["billable"])

    def test_one_of_64_KiB_is_read_and_a_longer_one_passes(self):
        for size in (65536, 65537, 1 << 20):
            frame = len(b'{"error":{"message":""}}')
            body = b'{"error":{"message":"' + b"x" * (size - frame) + b'"}}'
            self.says(answer(400, body))
            reply, _ = self.ask_api("/v1/messages")
            self.assertEqual(reply.status, 400)
            if size == 65536:
                self.assertEqual(reply.json()["type"], "error")
            else:
                self.assertEqual(bytes(reply.body), body)


class ErrorsOfOurs(ApiAttack):
    MORE = {"limits": {"body_bytes": "64KiB"}, "timeouts": {"first_byte": "300ms"}}

    def test_each_has_the_shape_of_its_api_however_early_it_comes(self):
        self.server.behave = lambda conn: time.sleep(1)
        fits = json.dumps({"model": "tgi", "max_tokens": 5,
                           "messages": [{"role": "user", "content": "hi"}]}).encode()
        for name, body, headers, path, status in (
                ("too large", b"x" * 70000, {}, "/v1/messages", 413),
                ("too large, with a query", b"x" * 70000, {}, "/v1/messages?beta=true", 413),
                ("packed", fits, {"content-encoding": "gzip"}, "/messages", 415),
                ("no JSON", b"{", {}, "/v1/messages", 400),
                ("unknown field", fits[:-1] + b',"priority":1}', {}, "/v1/messages", 400),
                ("silent server", fits, {}, "/v1/messages", 504)):
            for protocol in ("h1", "h2"):
                with self.subTest(f"{name} {protocol}"):
                    conn = self.h1() if protocol == "h1" else self.h2()
                    reply = self.ask(conn, body, headers, path=path)
                    self.assertEqual(reply.status, status, reply)
                    self.assertEqual(reply.json()["type"], "error")
                    self.assertEqual(set(reply.json()["error"]), {"type", "message"})
                    self.assertIsNotNone(reply.header("request-id"))


class StreamsThatAreNone(ApiAttack):
    def test_no_end_is_made_up_for_a_stream_that_has_none(self):
        self.says(STREAM_HEAD + piece("a"))
        for path in APIS:
            for protocol, conn in self.clients():
                with self.subTest(f"{path} {protocol}"):
                    reply, row = self.ask_api(path, conn=conn, stream=True)
                    self.assertEqual(names(reply)[-1], "error")
                    self.assertIsNotNone(reply.problem)
                    self.assertEqual(row["outcome"], "replica_error")

    def test_one_that_says_nothing_is_asked_for_elsewhere(self):
        for data in (STREAM_HEAD, STREAM_HEAD + b": ping\n\n" * 3, STREAM_HEAD + b"data: {no\n\n"):
            self.says(data)
            self.says(STREAM_HEAD + piece("a", "stop") + USAGE + DONE, self.other)
            for path in APIS:
                for _ in range(2):   # either server may be the first
                    with self.subTest(f"{data[-9:]} {path}"):
                        reply, row = self.ask_api(path, "pair", stream=True)
                        self.assertIn(names(reply)[-1], ("message_stop", "response.completed"))
                        self.assertEqual((row["outcome"], row["replica"], row["output"]),
                                         ("ok", "t2", 3))

    def test_an_error_before_any_text_costs_nothing(self):
        for error in ({"error": {"message": "boom", "type": "x", "code": 500}},
                      {"object": "error", "message": "boom", "code": 500},
                      {"error": "boom", "error_type": "generation"}):
            for path in APIS:
                for stream in (False, True):
                    with self.subTest(f"{error} {path} {stream}"):
                        self.says(STREAM_HEAD + event(error) + DONE if stream else
                                  answer(200, json.dumps(error).encode()))
                        reply, row = self.ask_api(path, stream=stream)
                        self.assertEqual(row["outcome"], "replica_error")
                        self.assertFalse(row["billable"])
                        self.assertNotIn(b"completed\"", bytes(reply.body))
                        self.assertNotIn(b"message_stop", bytes(reply.body))

    def test_an_error_of_ours_bears_the_next_number(self):
        self.says(STREAM_HEAD + piece("a") + b"data: {no\n\n")
        reply, _ = self.ask_api("/v1/responses", stream=True)
        events = [json.loads(line[6:]) for line in bytes(reply.body).split(b"\n")
                  if line.startswith(b"data: ")]
        self.assertEqual(events[-1]["type"], "error")
        self.assertEqual([one["sequence_number"] for one in events], list(range(len(events))))

    def test_logprobs_of_a_long_answer_do_not_break_it(self):
        logprobs = {"content": [{"token": "x", "logprob": -1.5, "bytes": [120], "top_logprobs": [
            {"token": f"token{i}", "logprob": -1.23456789, "bytes": [1, 2, 3, 4]}
            for i in range(20)]}]}
        more = {"include": ["message.output_text.logprobs"], "top_logprobs": 20}
        self.says(STREAM_HEAD + piece("a", logprobs=logprobs) * 2000 + piece("b", "stop") + USAGE +
                  DONE)
        reply, row = self.ask_api("/v1/responses", stream=True, **more)
        self.assertEqual(names(reply)[-1], "response.completed")
        self.assertEqual((row["outcome"], row["output"]), ("ok", 3))
        many = {"content": logprobs["content"] * 2000}
        self.says(answer(200, chat_answer("a" * 2000, logprobs=many)))
        reply, row = self.ask_api("/v1/responses", **more)
        self.assertEqual(reply.json()["status"], "completed")
        self.assertEqual(len(reply.json()["output"][0]["content"][0]["logprobs"]), 2000)
        self.assertEqual((row["outcome"], row["output"]), ("ok", 2))


class VisitsToReplicas(ApiAttack):
    MORE = {"health": {"check_every": "50ms", "load_every": "50ms", "timeout": "5s"}}

    def test_long_answers_do_not_add_up_to_one_too_long(self):
        """A page without end is broken off; checks of the same replica go on as before."""
        checks = []

        def behave(conn):
            while text := conn.recv(4096):
                if b" /health " in text:
                    checks.append(1)
                    conn.sendall(answer(200, b"x" * (3 << 20)))
                    continue
                conn.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                while True:
                    conn.sendall(b"# no end\n" * 10000)
        self.server.behave = self.other.behave = behave
        self.assertTrue(wait_until(lambda: len(checks) > 40, 20))
        models = self.gateway.admin("/replicas").json()["models"]
        for entry in models:
            for replica in entry["replicas"]:
                self.assertEqual((replica["strikes"], replica["engine"]), (0, None), replica)


class ReloadsWithoutEnd(ApiAttack):
    MORE = {"health": {"check_every": "1s", "load_every": "0s", "timeout": "5s"}}

    def test_checks_are_not_put_off_by_them(self):
        checks = []

        def behave(conn):
            while conn.recv(4096):
                checks.append(1)
                conn.sendall(answer(200, b"ok"))
        self.server.behave = self.other.behave = behave
        end = time.monotonic() + 20
        while len(checks) < 12 and time.monotonic() < end:
            self.assertEqual(self.gateway.admin("/reload", "POST").status, 200)
            time.sleep(0.05)
        self.assertGreaterEqual(len(checks), 12)
        self.assertEqual(self.ask_api("/v1/messages")[0].status, 502)


class FormsAndTags(ApiAttack):
    def test_a_server_gets_the_boundary_that_was_read_and_no_other(self):
        seen = []

        def behave(conn):
            text = conn.recv(65536)
            seen.append(text.partition(b"\r\n\r\n")[0])
            conn.sendall(answer(200, b'{"text":"hi"}'))
        self.server.behave = behave
        form = (b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nvllm\r\n'
                b'--b\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\nx\r\n'
                b'--b--\r\n')
        for protocol, conn in self.clients():
            for field in ("multipart/form-data; boundary=b; boundary*=utf-8''c",
                          'multipart/form-data; x="boundary=c"; boundary=b'):
                seen.clear()
                reply = conn.request("POST", "/v1/audio/transcriptions",
                                     dict(bearer(KEY), **{"Content-Type": field}), form)
                self.assertEqual(reply.status, 200, reply)
                self.assertIn(b"\r\ncontent-type: multipart/form-data; boundary=b\r\n", seen[0])

    def test_tags_of_a_client_do_not_push_out_those_of_its_tenant(self):
        self.says(answer(200, chat_answer()))
        body = json.dumps({"model": "vllm", "messages": [{"role": "user", "content": "hi"}]})
        for value in ("x" * 400, "x" * 60000, '"' * 300, "a\tb"):
            _, row = self.ask_row(self.h1(), body.encode(), {"x-litellm-tags": value})
            self.assertEqual(row["tags"]["team"], "search")
            self.assertTrue(value.startswith(row["tags"]["request"]))
            self.assertGreater(len(row["tags"]["request"]), 2)


class ATagCalledRequest(ApiAttack):
    MORE = {"tenants": tenants(acme={"tags": {"request": "batch"}})}

    def test_it_is_the_tenants(self):
        self.says(answer(200, chat_answer()))
        body = json.dumps({"model": "vllm", "messages": [{"role": "user", "content": "hi"}]})
        _, row = self.ask_row(self.h1(), body.encode(), {"x-litellm-tags": "other"})
        self.assertEqual(row["tags"], {"request": "batch"})
