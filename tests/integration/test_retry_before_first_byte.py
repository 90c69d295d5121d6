# SPDX-License-Identifier: Apache-2.0
"""A failed attempt is tried again elsewhere while no byte of an answer has left.

For:       other replicas, fallback models, the retry budget, stale connections, and the one row
           and one bill that come of it all.
"""

import json
import threading
import time

import harness
from harness import GatewayTest, chat, model, tenants, wait_until
from upstream import Script, Upstream

BUSY = {"status": 503, "json": {"error": {"message": "loading", "type": "server_error",
                                          "param": None, "code": 503}}}


def answer(text):
    return {"json": {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
                     "choices": [{"index": 0, "finish_reason": "stop",
                                  "message": {"role": "assistant", "content": text}}],
                     "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}}


def content(reply):
    return reply.json()["choices"][0]["message"]["content"]


class RetryTest(GatewayTest):
    """Three scripted servers; no test of its own."""

    FAKES = ()
    REPLICA_IDLE = "0s"

    @classmethod
    def configure(cls):
        cls.servers = {name: Upstream() for name in ("s1", "s2", "l1")}
        for server in cls.servers.values():
            cls.addClassCleanup(server.close)
        dead = harness.free_ports(1)[0]
        return {
            "models": {
                "small": model(("s1", cls.servers["s1"].port), ("s2", cls.servers["s2"].port),
                               fallback=["large"]),
                "large": model(("l1", cls.servers["l1"].port)),
                "single": model(("s1", cls.servers["s1"].port)),
                "dead": model(("d1", dead)),
                "half-dead": model(("d1", dead), ("l1", cls.servers["l1"].port)),
            },
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "health": {"out_after": 1000, "check_every": "0s"},
            "timeouts": {"replica_idle": cls.REPLICA_IDLE},
        }

    def script(self, **replies):
        """Load each server; those not named have no reply to give."""
        self.scripts = {}
        for name, server in self.servers.items():
            self.scripts[name] = Script(replies.get(name, []), repeat_last=True)
            server.load(self.scripts[name])

    def seen(self):
        return {name: len(script.requests) for name, script in self.scripts.items()}


class RetryBeforeFirstByte(RetryTest):
    """On fresh connections: a reset on a kept one is a stale connection, see below."""

    def assert_retried(self, first, protocol, conn):
        """first on both small replicas' first request, then a good answer from the other one."""
        both = Script([first, answer("second")], repeat_last=True)
        self.script()
        for name in ("s1", "s2"):
            self.servers[name].load(both)
        reply, row = self.ask_row(conn, chat())
        self.assertEqual(reply.status, 200, f"{protocol} {reply}")
        self.assertEqual(content(reply), "second")
        self.assertEqual(row["attempts"], 2)
        self.assertEqual((row["input"], row["output"]), (7, 2))
        self.assertEqual(len(both.requests), 2)
        ports = [request.headers["host"] for request in both.requests]
        self.assertNotEqual(ports[0], ports[1], "the other replica is tried")
        self.assertTrue(row["billable"])

    def test_a_replica_that_fails_first_is_followed_by_the_other(self):
        failures = {
            "reset before the first byte": {"status": 0, "end": "rst"},
            "close before the first byte": {"status": 0, "end": "fin"},
            "500": {"status": 500, "json": {"error": "x"}},
            "503": BUSY,
            "no HTTP at all": {"framing": "raw", "writes": [{"text": "garbage\r\n\r\n"}]},
        }
        for why, first in failures.items():
            for protocol, conn in self.clients():
                with self.subTest(why=why, protocol=protocol):
                    self.assert_retried(first, protocol, conn)

    def test_a_stream_that_fails_before_its_first_event_is_retried(self):
        event = {"text": 'data: {"id":"x","choices":[{"index":0,"delta":{"content":"b"}}]}\n\n'}
        done = {"text": "data: [DONE]\n\n"}
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.script()
                both = Script([{"writes": [{"text": ": hi\n\n"}], "end": "rst"},
                               {"writes": [event, done]}], repeat_last=True)
                for name in ("s1", "s2"):
                    self.servers[name].load(both)
                reply, row = self.ask_row(conn, chat(stream=True))
                self.assertTrue(reply.complete, reply)
                self.assertIn(b'"content":"b"', reply.body)
                self.assertEqual(row["attempts"], 2)

    def test_nothing_is_retried_after_the_first_event(self):
        event = {"text": 'data: {"id":"x","choices":[{"index":0,"delta":{"content":"b"}}]}\n\n'}
        cut = {"writes": [event], "end": "rst"}
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.script(s1=[cut], s2=[cut], l1=[answer("no")])
                reply, row = self.ask_row(conn, chat(stream=True))
                self.assertFalse(reply.complete)
                self.assertEqual(row["attempts"], 1)
                self.assertEqual(sum(self.seen().values()), 1)

    def test_when_a_model_fails_its_fallback_answers(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.script(s1=[BUSY], s2=[BUSY], l1=[answer("large")])
                reply, row = self.ask_row(conn, chat())
                self.assertEqual(content(reply), "large")
                self.assertEqual((row["model_asked"], row["model"]), ("small", "large"))
                self.assertEqual(reply.header("x-tollgate-model"), "large")
                self.assertIn(row["attempts"], (2, 3))

    def test_attempts_are_bounded(self):
        self.script(s1=[BUSY], s2=[BUSY], l1=[BUSY])
        reply, row = self.ask_row(self.h1(), chat())
        self.assertEqual(reply.status, 503)
        self.assertLessEqual(sum(self.seen().values()), 3)
        self.assertEqual(row["attempts"], sum(self.seen().values()))
        self.assertFalse(row["billable"])

    def test_when_nothing_is_up_the_answer_is_503_and_says_when(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.script()
                reply, row = self.ask_row(conn, chat(model_name="dead"))
                self.assertIn(reply.status, (502, 503))
                self.assert_error(reply, reply.status)
                if reply.status == 503:
                    self.assertRegex(reply.header("retry-after"), r"^[1-9][0-9]*$")
                self.assertFalse(row["billable"])

    def test_a_refused_connection_leads_to_the_other_replica(self):
        self.script(l1=[answer("alive")])
        for _ in range(4):
            reply = self.ask(self.h1(), chat(model_name="half-dead"))
            self.assertEqual(reply.status, 200, reply)

    def test_an_error_of_the_client_passes_as_it_came(self):
        text = ('{"error": {"message":"too long",  "type":"BadRequestError","param":null,'
                '"code":400}}')
        for status in (400, 404, 413, 422):
            for protocol, conn in self.clients():
                with self.subTest(status=status, protocol=protocol):
                    refused = {"status": status, "writes": [text], "framing": "length",
                               "headers": {"content-type": "application/json"}}
                    self.script(s1=[refused], s2=[refused], l1=[answer("no")])
                    reply, row = self.ask_row(conn, chat())
                    self.assertEqual(reply.status, status)
                    self.assertEqual(bytes(reply.body), text.encode())
                    self.assertEqual(row["attempts"], 1)
                    self.assertFalse(row["billable"])

    def test_a_busy_server_that_asks_for_a_short_rest_is_given_it(self):
        for header, rest_s in (({"retry-after": "1"}, 1.0), ({"retry-after-ms": "200"}, 0.2)):
            with self.subTest(str(header)):
                self.script(s1=[dict(BUSY, headers=header), answer("rested")])
                began = time.monotonic()
                reply, row = self.ask_row(self.h1(), chat(model="single"))
                self.assertEqual(content(reply), "rested")
                self.assertGreaterEqual(time.monotonic() - began, rest_s)
                self.assertEqual(row["attempts"], 2)

    def test_a_busy_server_that_asks_for_a_long_rest_is_not_waited_for(self):
        self.script(s1=[dict(BUSY, headers={"retry-after": "2"})])
        reply, row = self.ask_row(self.h1(), chat(model="single"))
        self.assertEqual((reply.status, reply.header("retry-after"), row["attempts"]), (503, "2", 1))

    def test_429_of_the_last_server_keeps_its_retry_after(self):
        busy = {"status": 429, "headers": {"retry-after": "30"},
                "json": {"error": {"message": "full", "type": "t", "param": None, "code": "q"}}}
        self.script(s1=[busy])
        reply = self.ask(self.h1(), chat(model_name="single"))
        self.assertEqual((reply.status, reply.header("retry-after")), (429, "30"))
        self.assertEqual(reply.json()["error"]["code"], "q")

    def test_a_reset_after_the_head_of_a_plain_answer_is_no_answer(self):
        cut = dict(answer("half"), content_length=5000, end="rst")
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.script(s1=[cut])
                reply = self.ask(conn, chat(model_name="single"))
                self.assertFalse(reply.status == 200 and reply.complete, reply)
                self.assertLess(reply.took_ms(), 2000, "the reset must be seen at once")

    def test_an_answer_with_both_framings_is_never_passed_on(self):
        raw = ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\n"
               "2\r\nno\r\n0\r\n\r\n")
        self.script(s1=[{"framing": "raw", "writes": [{"text": raw}]}])
        reply = self.ask(self.h1(), chat(model_name="single"))
        self.assertEqual(reply.status, 502)

    def test_interim_answers_of_a_server_are_dropped(self):
        early = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n"
        self.script(s1=[dict(answer("after"), interim=[early, early])])
        reply = self.ask(self.h1(), chat(model_name="single"))
        self.assertEqual((content(reply), reply.interim), ("after", []))
        self.script(s1=[dict(answer("after"), interim=[early] * 50)])
        self.assertEqual(self.ask(self.h1(), chat(model_name="single")).status, 502)

    def test_the_budget_bounds_retries_of_many_requests(self):
        """20 % of what is under way, at least 3: 40 failing at once make few retries."""
        slow_busy = dict(BUSY, delay_ms=300)
        self.script(s1=[slow_busy], s2=[slow_busy], l1=[slow_busy])
        threads = [threading.Thread(target=self.ask, args=(self.h1(), chat())) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        total = sum(self.seen().values())
        self.assertGreaterEqual(total, 40)
        self.assertLess(total, 40 * 2, "retries must not double the load")

    def test_a_sick_replica_is_left_out_and_comes_back(self):
        config = dict(self.gateway.config)
        config["health"] = {"out_after": 2, "check_every": "0s", "out_for": "400ms"}
        gateway = harness.Gateway({key: config[key] for key in
                                   ("models", "classes", "tenants", "health")},
                                  harness.ENVIRONMENT)
        try:
            reset = {"status": 0, "end": "rst"}
            self.script(s1=[reset], s2=[answer("well")])
            for _ in range(12):
                reply = harness.get(gateway.port, "/v1/chat/completions",
                                    harness.bearer(harness.KEY), "POST", chat())
                self.assertEqual(reply.status, 200, reply)
            strikes = self.seen()["s1"]
            self.assertLess(strikes, 8, "two strikes in a row take it out")
            self.script(s1=[answer("back")], s2=[answer("well")])

            def back():
                reply = harness.get(gateway.port, "/v1/chat/completions",
                                    harness.bearer(harness.KEY), "POST", chat())
                return content(reply) == "back"
            self.assertTrue(wait_until(back, 5, 0.05), "it is tried again after out_for")
        finally:
            gateway.stop()

    def test_the_answer_of_a_slow_server_is_worth_waiting_for(self):
        self.script(s1=[dict(answer("slow"), delay_ms=400)])
        began = time.monotonic()
        reply = self.ask(self.h1(), chat(model_name="single"))
        self.assertEqual(content(reply), "slow")
        self.assertGreater(time.monotonic() - began, 0.39)


class KeptConnections(RetryTest):
    REPLICA_IDLE = "3s"

    def test_a_kept_connection_that_went_stale_costs_nobody_an_answer(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                good = answer("fresh")
                self.script(s1=[dict(good, poison_connection=True), good])
                for _ in range(4):
                    reply, row = self.ask_row(conn, chat(model_name="single"))
                    self.assertEqual(reply.status, 200, reply)
                    self.assertEqual(content(reply), "fresh")

    def test_extra_bytes_behind_an_answer_end_the_connection(self):
        text = answer("one")["json"]
        body = json.dumps(text)
        raw = (f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
               f"content-length: {len(body)}\r\n\r\n{body}HTTP/1.1 200 OK\r\ncontent-length: 2"
               f"\r\n\r\nno")
        self.script(s1=[{"framing": "raw", "writes": [{"text": raw}], "end": "hold",
                         "hold_ms": 300}, answer("two")])
        first = self.ask(self.h1(), chat(model_name="single"))
        self.assertEqual(content(first), "one")
        second = self.ask(self.h1(), chat(model_name="single"))
        self.assertEqual(content(second), "two")
