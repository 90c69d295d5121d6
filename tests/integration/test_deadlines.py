# SPDX-License-Identifier: Apache-2.0
"""Every wait has a deadline, and what is said when it passes is right.

For:       first byte, silence in an answer, the whole answer, connecting, and the pings that keep a
           client's connection alive while a model thinks.
"""

import socket
import time

from harness import GatewayTest, Sse, chat, model, tenants
from upstream import Script, Upstream

FIRST_BYTE_MS, BETWEEN_MS, WHOLE_MS, HEAD_AFTER_MS = 900, 500, 2500, 300
EVENT = ('data: {"id":"x","choices":[{"index":0,"delta":{"content":"tok"}}],'
         '"usage":{"prompt_tokens":2,"completion_tokens":%d,"total_tokens":3}}\n\n')
LAST = ('data: {"id":"x","choices":[],"usage":{"prompt_tokens":2,"completion_tokens":3,'
        '"total_tokens":5}}\n\ndata: [DONE]\n\n')


class Deadlines(GatewayTest):
    FAKES = ()

    @classmethod
    def configure(cls):
        cls.server = Upstream()
        cls.addClassCleanup(cls.server.close)
        cls.deaf = socket.socket()
        cls.deaf.bind(("127.0.0.1", 0))
        cls.deaf.listen(0)
        cls.addClassCleanup(cls.deaf.close)
        cls.fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(cls.deaf.getsockname())
            cls.fillers.append(filler)
            cls.addClassCleanup(filler.close)
        return {
            "models": {"small": model(("s1", cls.server.port)),
                       "deaf": model(("d1", cls.deaf.getsockname()[1]))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "health": {"out_after": 1000, "check_every": "0s"},
            "timeouts": {"first_byte": f"{FIRST_BYTE_MS}ms", "between_bytes": f"{BETWEEN_MS}ms",
                         "whole": f"{WHOLE_MS}ms", "connect": "300ms",
                         "stream_head_after": f"{HEAD_AFTER_MS}ms"},
        }

    def load(self, *replies):
        self.script = Script(list(replies), repeat_last=True)
        self.server.load(self.script)

    def timed(self, conn, body):
        began = time.monotonic()
        reply, row = self.ask_row(conn, body)
        return reply, row, (time.monotonic() - began) * 1000

    def test_a_server_that_never_begins_gives_504(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load({"json": {}, "delay_ms": 5000})
                reply, row, took_ms = self.timed(conn, chat())
                self.assert_error(reply, 504, "first_byte_timeout")
                self.assertGreater(took_ms, FIRST_BYTE_MS - 50)
                self.assertEqual(row["outcome"], "timeout")
                self.assertFalse(row["billable"])
                self.assertEqual(len(self.script.requests), 1, "a deadline is not retried")

    def test_a_stream_that_falls_silent_ends_in_an_error_event(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load({"writes": [EVENT % 1, {"text": LAST, "delay_ms": 5000}]})
                reply, row, took_ms = self.timed(conn, chat(stream=True))
                seen = Sse(reply.body)
                self.assertEqual(seen.error()["code"], "between_bytes_timeout")
                self.assertFalse(reply.complete or seen.done)
                self.assertTrue(BETWEEN_MS - 50 < took_ms < BETWEEN_MS + 1000, took_ms)
                self.assertEqual((row["outcome"], row["output"]), ("timeout", 1))

    def test_a_plain_answer_that_falls_silent_is_cut(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load({"framing": "length", "content_length": 100,
                           "headers": {"content-type": "application/json"},
                           "writes": ['{"a":', {"text": "1}", "delay_ms": 5000}]})
                reply, row, _ = self.timed(conn, chat())
                self.assertFalse(reply.status == 200 and reply.complete, reply)
                self.assertEqual(row["outcome"], "timeout")

    def test_an_answer_has_a_last_moment(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load({"writes": [{"text": EVENT % (number + 1), "delay_ms": 200}
                                      for number in range(40)]})
                reply, row, took_ms = self.timed(conn, chat(stream=True))
                self.assertEqual(Sse(reply.body).error()["code"], "whole_timeout")
                self.assertTrue(WHOLE_MS - 100 < took_ms < WHOLE_MS + 1000, took_ms)
                self.assertEqual(row["outcome"], "timeout")
                self.assertGreater(row["output"], 5)

    def test_a_slow_but_steady_stream_is_left_alone(self):
        self.load({"writes": [{"text": EVENT % (number + 1), "delay_ms": BETWEEN_MS - 200}
                              for number in range(5)] + [LAST]})
        reply, _, _ = self.timed(self.h1(), chat(stream=True))
        self.assertTrue(reply.complete and Sse(reply.body).done, reply)

    def test_a_server_that_does_not_accept_is_given_up(self):
        reply, row, took_ms = self.timed(self.h1(), chat(model_name="deaf"))
        self.assertIn(reply.status, (502, 503, 504))
        self.assertLess(took_ms, 3000)
        self.assertFalse(row["billable"])

    def test_pings_keep_a_client_while_the_model_thinks(self):
        """Head and comments after stream_head_after; the answer follows unchanged."""
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load({"delay_ms": HEAD_AFTER_MS * 2, "writes": [EVENT % 3, LAST]})
                reply, row, _ = self.timed(conn, chat(stream=True))
                head_ms = (reply.head_at - reply.sent_at) * 1000
                self.assertTrue(HEAD_AFTER_MS - 50 < head_ms < HEAD_AFTER_MS * 2 - 20, head_ms)
                self.assertIn("text/event-stream", reply.header("content-type"))
                seen = Sse(reply.body)
                self.assertGreaterEqual(seen.comments, 1)
                self.assertEqual((seen.text(), seen.done, reply.complete), ("tok", True, True))
                self.assertEqual(row["output"], 3)

    def test_a_failure_after_the_pings_is_an_error_event_and_no_retry(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load({"delay_ms": HEAD_AFTER_MS * 2, "status": 503, "json": {"error": {
                    "message": "loading", "type": "t", "param": None, "code": 503}}})
                reply, row, _ = self.timed(conn, chat(stream=True))
                self.assertEqual(reply.status, 200)
                self.assertIsNotNone(Sse(reply.body).error(), reply)
                self.assertFalse(reply.complete or Sse(reply.body).done)
                self.assertEqual(len(self.script.requests), 1)
                self.assertFalse(row["billable"])

    def test_a_deadline_after_the_pings_is_an_error_event(self):
        self.load({"delay_ms": 5000, "json": {}})
        reply, row, _ = self.timed(self.h1(), chat(stream=True))
        self.assertEqual(reply.status, 200)
        self.assertEqual(Sse(reply.body).error()["code"], "first_byte_timeout")
        self.assertFalse(reply.complete)
        self.assertEqual(row["outcome"], "timeout")

    def test_a_head_that_waits_for_its_first_event_can_still_be_retried(self):
        good = {"writes": [EVENT % 3, LAST]}
        self.load({"writes": [{"text": "", "delay_ms": 100}], "end": "rst"}, good)
        reply, row, _ = self.timed(self.h1(), chat(stream=True))
        self.assertEqual((Sse(reply.body).text(), row["attempts"]), ("tok", 2))
