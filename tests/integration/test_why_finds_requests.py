# SPDX-License-Identifier: Apache-2.0
"""why finds a request by each id that its client has seen, also before it has a row.

For:       x-request-id, trace id and the ids in answers' bodies; requests that are under way, and
           that a killed process left; what is said of ids that are in no row.
"""

import json
import subprocess
import tempfile
import unittest

import harness
import wire
from harness import (ENVIRONMENT, KEY, Fake, Gateway, bearer, chat, model, tenants, wait_until)

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PATHS = {"/v1/chat/completions": {"messages": [{"role": "user", "content": "[[fake tokens=3]]"}]},
         "/v1/completions": {"prompt": "[[fake tokens=3]]"},
         "/v1/messages": {"messages": [{"role": "user", "content": "[[fake tokens=3]]"}],
                          "max_tokens": 9},
         "/v1/responses": {"input": "[[fake tokens=3]]"}}


class WhyFindsRequests(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.fake = Fake(self.holder.name, "s1")
        self.addCleanup(self.fake.stop)
        self.gateway = self.start()

    def start(self):
        gateway = Gateway({"models": {"small": model(("s1", self.fake.port)),
                                      "old": model(("s1", self.fake.port),
                                                   upstream_model="small",
                                                   translate=["messages", "responses"])},
                           "classes": [{"name": "default", "match": {}}],
                           "tenants": tenants()}, ENVIRONMENT, directory=self.holder.name)
        self.addCleanup(gateway.stop)
        return gateway

    def why(self, request, *more):
        """(exit code, what is printed, what is said beside it)."""
        done = subprocess.run([harness.TOLLGATE, "why", request, *more, "--config",
                               str(self.gateway.config_path)], env=ENVIRONMENT,
                              capture_output=True, timeout=60, text=True)
        return done.returncode, done.stdout, done.stderr

    def found(self, request):
        """The exchange ids of its rows, once they are written."""
        wait_until(lambda: self.why(request)[0] == 0, 5)
        code, text, said = self.why(request, "--json")
        self.assertEqual(code, 0, (request, said))
        return [row["exchange_id"] for row in json.loads(text)]

    def ask(self, path, name="small", **headers):
        conn = wire.H1(self.gateway.port)
        self.addCleanup(conn.close)
        reply = conn.request("POST", path, dict(bearer(KEY), **headers),
                             json.dumps(dict(PATHS[path], model=name)).encode())
        self.assertEqual(reply.status, 200, reply)
        return reply

    def begin(self, request_id):
        """A stream that stalls behind its first words."""
        conn = wire.H1(self.gateway.port, timeout=10)
        self.addCleanup(conn.close)
        body = chat("[[fake tokens=200 stall=5]]", stream=True)
        head = "".join(f"{name}: {value}\r\n" for name, value in
                       dict(bearer(KEY), **{"x-request-id": request_id, "host": "t",
                                            "content-length": len(body)}).items())
        conn.send(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode() + body)
        conn.wait_for(b'"content":"w', 5000)
        return conn

    def test_every_id_that_a_client_has_seen_finds_its_row(self):
        for path in PATHS:
            for name in ("small", "old"):
                with self.subTest(path=path, name=name):
                    reply = self.ask(path, name)
                    exchange = reply.header("x-request-id")
                    self.assertEqual(self.found(exchange), [exchange])
                    self.assertNotEqual(reply.json()["id"], exchange)
                    self.assertEqual(self.found(reply.json()["id"]), [exchange])
                    for item in reply.json().get("output", []):
                        if exchange in item["id"]:
                            self.assertEqual(self.found(item["id"]), [exchange])

    def test_a_clients_own_ids_find_it(self):
        traceparent = f"00-{TRACE}-00f067aa0ba902b7-01"
        reply = self.ask("/v1/chat/completions", traceparent=traceparent,
                         **{"x-request-id": "chatcmpl-of-ours_7"})
        for request in ("chatcmpl-of-ours_7", TRACE, traceparent):
            self.assertEqual(self.found(request), [reply.json()["id"][len("chatcmpl-"):]])

    def test_an_id_that_no_row_has_is_said_with_where_one_is(self):
        for request in ("chatcmpl-" + 32 * "0", "gen-1234", "0" * 32):
            code, text, said = self.why(request)
            self.assertEqual((code, text), (1, ""))
            self.assertIn(f"id {request}", said)
            self.assertIn("x-request-id", said)

    def test_a_request_without_a_row_is_told_by_its_process(self):
        self.begin("slow-1")
        code, text, said = self.why("slow-1")
        self.assertEqual((code, text), (1, ""))
        self.assertRegex(said, r"exchange [0-9a-f]{32} of tenant acme, admitted \S+Z, has no row "
                               r"yet: it is under way in the process test-1\n")
        code, text, _ = self.why("slow-1", "--json")
        self.assertEqual(code, 1)
        (pending,) = json.loads(text)
        self.assertEqual((pending["kind"], pending["state"], pending["request_id"]),
                         ("pending", "under_way", "slow-1"))

        self.gateway.kill()
        for request in ("slow-1", "chatcmpl-" + pending["exchange_id"]):
            code, _, said = self.why(request)
            self.assertEqual(code, 1)
            self.assertIn("its process test-1 died. The next gateway that starts on this journal "
                          "makes the row", said)

        self.gateway = self.start()
        wait_until(lambda: self.why("slow-1")[0] == 0, 10)
        code, text, said = self.why("slow-1")
        self.assertEqual((code, said), (0, ""))
        self.assertIn("crash_recovered", text)
