# SPDX-License-Identifier: Apache-2.0
"""A client that leaves frees its server at once; one that does not read holds up nobody else.

For:       aborts of plain, streamed and queued requests over both protocols, and backpressure from
           a slow reader to its own server alone.
"""

import socket
import threading
import time

import wire
from harness import KEY, MEMORY_SLACK_KIB, GatewayTest, Sse, bearer, chat, model, new_id, tenants
from harness import wait_until
from upstream import Script, Upstream

GONE_SECONDS = 0.1          # from the client's leaving to the server's seeing it
SCHEDULING_SECONDS = 0.15   # what two busy cores may add to that in a test
FLOOD_EVENT = ('data: {"id":"x","choices":[{"index":0,"delta":{"content":"' + "f" * 4000
               + '"}}],"usage":{"prompt_tokens":1,"completion_tokens":%d,"total_tokens":1}}\n\n')


class AClientThatLeavesOrStalls(GatewayTest):
    FAKES = (("l1", ()),)

    @classmethod
    def configure(cls):
        cls.server = Upstream()
        cls.addClassCleanup(cls.server.close)
        return {
            "models": {"small": model(("s1", cls.server.port)),
                       "large": model(("l1", cls.fakes["l1"].port)),
                       "narrow": model(("n1", cls.server.port), slots=1)},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "timeouts": {"write_progress": "1s"},
        }

    def leave(self, protocol, body, when):
        """Send a request, leave once when(reply) says so (None: after 200 ms); the time it left
        and its request id."""
        request_id = new_id()
        headers = dict(bearer(KEY), **{"x-request-id": request_id})
        if protocol == "h1":
            conn = self.h1()
            on_data = None if when is None else (lambda reply: not when(reply))
            conn.request("POST", "/v1/chat/completions", headers, body,
                         0.2 if when is None else 10, on_data)
            left_at = time.monotonic()
            conn.close()
            return left_at, request_id
        conn = self.h2()
        stream = conn.start("POST", "/v1/chat/completions", headers, body)
        if when is None:
            time.sleep(0.2)
        else:
            self.assertTrue(conn.wait_until(lambda: when(stream.reply), 5), stream.reply)
        conn.reset(stream)
        left_at = stream.reply.left_at
        self.assertEqual(conn.request("GET", "/livez").status, 200, "the connection lives on")
        return left_at, request_id

    def assert_aborted(self, script, left_at):
        self.assertTrue(wait_until(lambda: script.requests and script.requests[0].aborted_at, 3),
                        "the server never saw the client go")
        self.assertLess(script.requests[0].aborted_at - left_at,
                        GONE_SECONDS + SCHEDULING_SECONDS)

    def test_leaving_before_a_plain_answer_aborts_the_server(self):
        for protocol in ("h1", "h2"):
            with self.subTest(protocol):
                script = Script([{"json": {}, "delay_ms": 5000}])
                self.server.load(script)
                left_at, request_id = self.leave(protocol, chat(), None)
                self.assert_aborted(script, left_at)
                row = self.gateway.row_of(request_id)
                self.assertEqual(row["outcome"], "client_gone")
                self.assertEqual(row.get("output", 0), 0)

    def test_leaving_a_stream_aborts_the_server_and_bills_what_was_delivered(self):
        events = [{"text": FLOOD_EVENT.replace("f" * 4000, "tok") % (number + 1),
                   "delay_ms": 20} for number in range(200)]
        for protocol in ("h1", "h2"):
            with self.subTest(protocol):
                script = Script([{"writes": events}])
                self.server.load(script)
                left_at, request_id = self.leave(protocol, chat(stream=True),
                                                 lambda reply: reply.body.count(b"\n\n") >= 5)
                self.assert_aborted(script, left_at)
                row = self.gateway.row_of(request_id)
                self.assertEqual((row["outcome"], row["source"]), ("client_gone", "running"))
                self.assertTrue(5 <= row["output"] <= 40, row["output"])
                self.assertTrue(row["billable"])

    def test_leaving_before_the_first_event_bills_nothing_as_output(self):
        for protocol in ("h1", "h2"):
            with self.subTest(protocol):
                script = Script([{"writes": [{"text": ": wait\n\n"},
                                             {"text": "data: [DONE]\n\n", "delay_ms": 5000}]}])
                self.server.load(script)
                left_at, request_id = self.leave(protocol, chat(stream=True), None)
                self.assert_aborted(script, left_at)
                row = self.gateway.row_of(request_id)
                self.assertEqual((row["outcome"], row.get("output", 0)), ("client_gone", 0))

    def test_leaving_a_queue_frees_the_place(self):
        for protocol in ("h1", "h2"):
            with self.subTest(protocol):
                script = Script([{"json": {"choices": []}, "delay_ms": 700}], repeat_last=True)
                self.server.load(script)
                holder = threading.Thread(target=self.ask,
                                          args=(self.h1(), chat("first", "narrow")))
                holder.start()
                self.assertTrue(wait_until(lambda: script.requests, 3))
                _, request_id = self.leave(protocol, chat("leaver", "narrow"), None)
                row = self.gateway.row_of(request_id)
                self.assertEqual(row["outcome"], "client_gone")
                self.assertFalse(row["billable"])
                reply = self.ask(self.h1(), chat("third", "narrow"))
                self.assertEqual(reply.status, 200)
                holder.join()
                bodies = b"".join(request.body for request in script.requests)
                self.assertNotIn(b"leaver", bodies)

    def test_closing_an_h2_connection_aborts_all_its_streams(self):
        script = Script([{"json": {}, "delay_ms": 5000}], repeat_last=True)
        self.server.load(script)
        conn = self.h2()
        for _ in range(5):
            conn.start("POST", "/v1/chat/completions", bearer(KEY), chat())
        self.assertTrue(wait_until(lambda: len(script.requests) == 5, 3))
        conn.close()
        self.assertTrue(wait_until(
            lambda: all(request.aborted_at for request in script.requests), 3))

    def test_a_client_that_only_half_closes_has_left(self):
        """Never half-close: what a model server takes for leaving, we take for leaving too, or
        answer whole; nothing hangs."""
        script = Script([{"json": {"choices": []}, "delay_ms": 300}])
        self.server.load(script)
        conn = self.h1()
        conn.send(wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY), chat()))
        conn.sock.shutdown(socket.SHUT_WR)
        reply = conn.read_reply("POST", 3)
        self.assertTrue(reply.status == 200 or reply.problem in ("fin", "reset"), reply)

    def generated(self):
        return self.fakes["l1"].counters()["generated_tokens"]

    def flood(self, count=4000):
        """16 MB of events, as fast as they are taken; the script counts what it could write."""
        script = Script([{"writes": [FLOOD_EVENT % (number + 1) for number in range(count)]
                          + ["data: [DONE]\n\n"]}], repeat_last=True)
        self.server.load(script)
        return script

    def generated_once_still(self):
        """Tokens generated once no more come for a while; a server that nobody reads must stop."""
        last = -1
        for _ in range(20):
            now = self.generated()
            if now == last and now > 0:
                return now
            last = now
            time.sleep(0.3)
        self.fail("it generates on although nobody reads")

    def test_a_slow_reader_stops_its_server_and_memory_stays_bounded(self):
        for protocol in ("h1", "h2"):
            with self.subTest(protocol):
                before_kib = self.gateway.resident_kib()
                request_id = new_id()
                headers = dict(bearer(KEY), **{"x-request-id": request_id})
                body = chat("[[fake tokens=200000]]", "large", stream=True)
                before = self.generated()
                if protocol == "h1":
                    conn = self.h1(receive_buffer=8192, timeout=20)
                    conn.send(wire.request_bytes("POST", "/v1/chat/completions", headers, body))
                else:
                    conn = self.h2(timeout=20)
                    conn.start("POST", "/v1/chat/completions", headers, body, pause_after_bytes=1)
                first = self.generated_once_still()
                self.assertGreater(first, before)
                self.assertLess(self.gateway.resident_kib() - before_kib, MEMORY_SLACK_KIB)
                reply = self.ask(self.h1(), chat("[[fake tokens=2]]", "large"))
                self.assertEqual(reply.status, 200, "others are served meanwhile")
                row = self.gateway.row_of(request_id, 5)
                self.assertEqual(row["outcome"], "client_gone",
                                 "after write_progress without a byte it is let go")
                conn.close()

    def test_a_slow_reader_that_resumes_gets_every_byte(self):
        for protocol in ("h1", "h2"):
            with self.subTest(protocol):
                script = self.flood(2000)
                body = chat(stream=True, stream_options={"include_usage": True,
                                                         "continuous_usage_stats": True})
                request_id = new_id()
                headers = dict(bearer(KEY), **{"x-request-id": request_id})
                if protocol == "h1":
                    paused = []

                    def on_data(reply):
                        if not paused:
                            paused.append(True)
                            time.sleep(0.7)

                    conn = self.h1(receive_buffer=8192, timeout=20)
                    reply = conn.request("POST", "/v1/chat/completions", headers, body, 20,
                                         on_data)
                else:
                    conn = self.h2(timeout=20)
                    stream = conn.start("POST", "/v1/chat/completions", headers, body,
                                        pause_after_bytes=1)
                    time.sleep(0.7)
                    conn.resume(stream)
                    reply = conn.wait(stream)
                self.assertTrue(reply.complete, reply)
                self.assertEqual(len(Sse(reply.body).data), 2000)
                self.assertEqual(self.gateway.row_of(request_id)["output"], 2000)
                self.assertEqual(len(script.requests), 1)

    def test_one_stalled_stream_does_not_stall_its_neighbours(self):
        self.flood(1500)
        conn = self.h2(timeout=20)
        stalled = conn.start("POST", "/v1/chat/completions", bearer(KEY), chat(stream=True),
                             pause_after_bytes=1)
        wait_until(lambda: stalled.reply.body, 3)
        began = time.monotonic()
        for _ in range(5):
            reply = self.ask(conn, chat("[[fake tokens=20]]", "large", stream=True))
            self.assertTrue(reply.complete, reply)
        self.assertLess(time.monotonic() - began, 1.0)
        conn.resume(stalled)
        self.assertTrue(conn.wait(stalled).complete)
