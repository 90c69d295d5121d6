# SPDX-License-Identifier: Apache-2.0
"""200 open streams live through a reload and a drain, and none is lost.

For:       SIGTERM while streams run: every one ends whole and is billed, new work is not taken, the
           process ends with 0.
"""

import json
import os
import subprocess
import tempfile
import threading
import time
import unittest

import harness
import wire
from harness import ENVIRONMENT, KEY, Fake, Gateway, Sse, bearer, chat, model, tenants, wait_until

TOKENS = 40
BODY = chat(f"[[fake tokens={TOKENS} delay_ms=60]]", stream=True)


class ADrainLosesNothing(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.fakes = [Fake(self.holder.name, name) for name in ("s1", "s2")]
        for fake in self.fakes:
            self.addCleanup(fake.stop)
        self.gateway = self.start()

    def start(self, **more):
        gateway = Gateway({
            "models": {"small": model(("s1", self.fakes[0].port), ("s2", self.fakes[1].port),
                                      slots=200)},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(), **more}, ENVIRONMENT)
        self.addCleanup(gateway.stop)
        return gateway

    def start_streams(self, on_h1, h2_connections, streams_each):
        """Open streams of both protocols; the threads and their replies."""
        replies, threads = {}, []

        def one(name, conn):
            headers = dict(bearer(KEY), **{"x-request-id": name})
            replies[name] = conn.request("POST", "/v1/chat/completions", headers, BODY, 20)

        for number in range(on_h1):
            conn = wire.H1(self.gateway.port, timeout=20)
            self.addCleanup(conn.close)
            threads.append(threading.Thread(target=one, args=(f"h1-{number}", conn)))
        for number in range(h2_connections):
            conn = wire.H2(self.gateway.port, timeout=20)
            self.addCleanup(conn.close)
            threads += [threading.Thread(target=one, args=(f"h2-{number}-{stream}", conn))
                        for stream in range(streams_each)]
        for thread in threads:
            thread.start()
        return threads, replies

    def open_streams(self):
        return sum(fake.counters()["open_streams"] for fake in self.fakes)

    def test_200_streams_live_through_a_reload_and_a_drain(self):
        idle_h1 = wire.H1(self.gateway.port)
        self.assertEqual(idle_h1.request("GET", "/livez").status, 200)
        idle_h2 = wire.H2(self.gateway.port)
        self.assertEqual(idle_h2.request("GET", "/livez").status, 200)
        threads, replies = self.start_streams(100, 10, 10)
        self.assertTrue(wait_until(lambda: self.open_streams() == 200, 5), self.open_streams())
        self.assertEqual(self.gateway.admin("/reload", "POST").status, 200)
        time.sleep(0.2)
        self.gateway.child.terminate()
        self.assertTrue(wait_until(lambda: self.refuses(), 3), "it takes new connections still")
        self.assertTrue(idle_h1.wait_closed(3000), "an idle connection is closed")
        self.assertTrue(idle_h2.wait_until(lambda: idle_h2.goaway or idle_h2.closed, 3))
        for thread in threads:
            thread.join()
        self.assertEqual(len(replies), 200)
        for name, reply in replies.items():
            self.assertTrue(reply.complete, f"{name}: {reply}")
            self.assertTrue(Sse(reply.body).done, name)
        self.assertEqual(self.gateway.wait(10), 0)
        rows = {row["request_id"]: row for row in self.gateway.calls() if row.get("request_id")}
        self.assertEqual({name: rows[name]["output"] for name in replies},
                         {name: TOKENS for name in replies})
        self.assertEqual({row["outcome"] for row in rows.values()}, {"ok"})
        generated = sum(entry["generated"] for fake in self.fakes for entry in fake.served())
        self.assertEqual(generated, 200 * TOKENS)

    def refuses(self):
        try:
            conn = wire.H1(self.gateway.port, timeout=1)
        except OSError:
            return True
        try:
            return conn.request("GET", "/livez").status is None
        except (OSError, wire.WireError):
            return True
        finally:
            conn.close()

    def test_a_second_signal_cuts_what_the_drain_waits_for(self):
        threads, replies = self.start_streams(2, 1, 2)
        self.assertTrue(wait_until(lambda: self.open_streams() == 4, 5))
        self.gateway.child.terminate()
        time.sleep(0.3)
        self.assertIsNone(self.gateway.child.poll(), "the first signal waits for the streams")
        self.gateway.child.terminate()
        self.assertEqual(self.gateway.wait(2), 0)
        for thread in threads:
            thread.join()
        rows = [row for row in self.gateway.calls() if row.get("request_id") in replies]
        self.assertEqual(len(rows), 4, "what was cut is settled")

    def test_a_drain_is_told_by_readyz_whichever_worker_has_the_stream(self):
        """The kernel picks the worker of a connection: with five tries both are nearly sure to come."""
        body = chat("[[fake tokens=12 delay_ms=60]]", stream=True)
        for _ in range(5):
            self.gateway.stop()
            self.gateway = self.start(workers=2)
            conn = wire.H1(self.gateway.port, timeout=20)
            self.addCleanup(conn.close)
            replies = []
            thread = threading.Thread(target=lambda conn=conn, replies=replies: replies.append(
                conn.request("POST", "/v1/chat/completions", bearer(KEY), body, 20)))
            thread.start()
            self.assertTrue(wait_until(lambda: self.open_streams() == 1, 5))
            self.gateway.child.terminate()
            time.sleep(0.2)
            admin = wire.H1(self.gateway.admin_port, timeout=2)
            self.addCleanup(admin.close)
            self.assertEqual(admin.request("GET", "/readyz").status, 503)
            self.assertEqual(self.gateway.wait(10), 0)
            thread.join()
            self.assertTrue(replies[0].complete)

    def test_a_second_gateway_on_the_same_port_does_not_start(self):
        config = dict(self.gateway.config, gateway="second",
                      meter={"journal": str(self.gateway.directory / "other")})
        path = self.gateway.directory / "second.yaml"
        path.write_text(json.dumps(config))
        ended = subprocess.run([harness.TOLLGATE, "serve", "--config", str(path)],
                               capture_output=True, text=True, timeout=10,
                               env=dict(os.environ, **ENVIRONMENT))
        self.assertEqual(ended.returncode, 1)
        self.assertIn("another process listens there", ended.stderr)

    def test_a_drain_ends_at_its_deadline(self):
        self.gateway.stop()
        self.gateway = self.start(timeouts={"drain": "500ms"})
        threads, replies = self.start_streams(4, 1, 4)
        self.assertTrue(wait_until(lambda: self.open_streams() == 8, 5))
        began = time.monotonic()
        self.gateway.child.terminate()
        self.assertEqual(self.gateway.wait(5), 0)
        self.assertLess(time.monotonic() - began, 2.0)
        for thread in threads:
            thread.join()
        rows = {row["request_id"]: row for row in self.gateway.calls() if row.get("request_id")}
        for name, reply in replies.items():
            self.assertFalse(reply.complete, name)
            received = len([event for event in Sse(reply.body).data
                            if event.get("choices") and
                            event["choices"][0].get("delta", {}).get("content")])
            self.assertLessEqual(received, rows[name]["output"])
            self.assertLess(rows[name]["output"], TOKENS)

    def test_an_idle_process_ends_at_once(self):
        began = time.monotonic()
        self.gateway.child.terminate()
        self.assertEqual(self.gateway.wait(5), 0)
        self.assertLess(time.monotonic() - began, 1.5)

    def test_an_answer_in_a_drain_says_that_the_connection_ends(self):
        conn = wire.H1(self.gateway.port)
        self.addCleanup(conn.close)
        conn.send(wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY),
                                     chat("[[fake tokens=3 first_ms=400]]")))
        wait_until(lambda: sum(fake.counters()["running"] for fake in self.fakes) == 1, 3)
        self.gateway.child.terminate()
        reply = conn.read_reply("POST", 5)
        self.assertEqual((reply.status, reply.complete), (200, True))
        self.assertEqual((reply.header("connection") or "").lower(), "close")
        self.assertEqual(self.gateway.wait(5), 0)
