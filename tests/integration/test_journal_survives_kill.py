# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment loses no row: the next process writes what the dead one left under way.

For:       whole lines, numbered without a gap; a row for each answered request, and each that was
           cut; nobody billed for more than he asked for; no table left; two processes of one name
           beside each other.
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
from harness import (ENVIRONMENT, KEY, Fake, Gateway, bearer, chat, cost_of_row, model, new_id,
                     tenants)

TOKENS = 5


class JournalSurvivesKill(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.fake = Fake(self.holder.name, "s1")
        self.addCleanup(self.fake.stop)

    def start(self, **more):
        gateway = Gateway({"models": {"small": model(("s1", self.fake.port), **more)},
                           "classes": [{"name": "default", "match": {}}],
                           "tenants": tenants()}, ENVIRONMENT, directory=self.holder.name)
        self.addCleanup(gateway.stop)
        return gateway

    def load_and_kill(self, gateway, seconds):
        """Requests on four connections until the process is killed; ids that were answered, and
        those that were asked."""
        answered, asked, stop = [], [], threading.Event()

        def ask(stream):
            conn = wire.H1(gateway.port)
            while not stop.is_set() and conn.closed is None:
                request_id = new_id()
                asked.append(request_id)
                headers = dict(bearer(KEY), **{"x-request-id": request_id})
                body = chat(f"[[fake tokens={TOKENS}]]", stream=stream)
                try:
                    reply = conn.request("POST", "/v1/chat/completions", headers, body)
                except (OSError, wire.WireError):
                    return
                if reply.status == 200 and reply.complete:
                    answered.append(request_id)
            conn.close()

        threads = [threading.Thread(target=ask, args=(number % 2 == 0,)) for number in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        gateway.kill()
        stop.set()
        for thread in threads:
            thread.join()
        return answered, asked

    def ask_once(self, gateway):
        request_id = new_id()
        conn = wire.H1(gateway.port)
        reply = conn.request("POST", "/v1/chat/completions",
                             dict(bearer(KEY), **{"x-request-id": request_id}),
                             chat(f"[[fake tokens={TOKENS}]]"))
        conn.close()
        self.assertEqual(reply.status, 200, reply)
        return request_id

    def end(self, gateway):
        gateway.child.terminate()
        self.assertEqual(gateway.wait(10), 0, gateway.output()[-2000:])

    def lines(self, gateway):
        """File name to its whole lines; a torn end is allowed in none but the last write."""
        found = {}
        for path in sorted(gateway.journal.glob("*.jsonl")):
            data = path.read_bytes()
            whole, _, torn = data.rpartition(b"\n")
            found[path.name] = [json.loads(line) for line in whole.splitlines()]
            self.assertTrue(torn.strip(b"\0") == b"" or not torn.endswith(b"}"), torn)
        return found

    def assert_no_table(self, gateway):
        left = [path.name for path in gateway.journal.iterdir() if "inflight" in path.name]
        self.assertEqual(left, [])

    def assert_numbered(self, files):
        for name, many in files.items():
            numbers = [row["seq"] for row in many]
            if numbers:
                self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))), name)
        rows = [row for many in files.values() for row in many]
        identities = [(row["gateway"], row["epoch"], row["seq"]) for row in rows]
        self.assertEqual(len(identities), len(set(identities)))
        return [row for row in rows if row["kind"] == "call"]

    def test_every_request_has_one_row_however_often_the_process_is_killed(self):
        answered, asked = [], []
        for seconds in (0.35, 0.2, 0.5):
            gateway = self.start()
            more_answered, more_asked = self.load_and_kill(gateway, seconds)
            answered += more_answered
            asked += more_asked
        gateway = self.start()
        self.end(gateway)
        self.assert_no_table(gateway)
        calls = self.assert_numbered(self.lines(gateway))
        rows = {row["request_id"]: row for row in calls}
        self.assertEqual(len(rows), len(calls), "no request has two rows")
        self.assertGreater(len(answered), 50)
        self.assertEqual(set(answered) - set(rows), set(), "no answered request is without a row")
        self.assertEqual(set(rows) - set(asked), set())
        for request_id in answered:
            row = rows[request_id]
            self.assertEqual((row["output"], row["status"], row["billable"]), (TOKENS, 200, True),
                             row)
        for row in calls:
            self.assertIn("ended_us", row)
            if row["outcome"] == "crash_recovered":
                self.assertRegex(row["recovered"], "^test-[0-9]+$")

    def test_a_stream_that_was_cut_by_a_kill_is_billed_what_was_delivered(self):
        gateway = self.start()
        request_id = new_id()
        seen = []

        def kill_in_the_midst(reply):
            if reply.body.count(b"\n\n") >= 10 and not seen:
                seen.append(True)
                gateway.kill()

        conn = wire.H1(gateway.port)
        reply = conn.request("POST", "/v1/chat/completions",
                             dict(bearer(KEY), **{"x-request-id": request_id}),
                             chat("[[fake tokens=100 delay_ms=20]]", stream=True),
                             on_data=kill_in_the_midst)
        conn.close()
        self.assertFalse(reply.complete)
        received = 0
        for event in reply.body.split(b"\n\n")[:-1]:
            choices = json.loads(event.removeprefix(b"data: ")).get("choices")
            received += bool(choices and choices[0]["delta"].get("content"))
        self.assertGreater(received, 5)
        audit = subprocess.run([harness.TOLLGATE, "audit", "--config", gateway.config_path],
                               capture_output=True, text=True, timeout=60, check=False,
                               env=os.environ | ENVIRONMENT)
        self.assertIn("note: test-1.inflight: 1 request of a process that died has no row yet",
                      audit.stdout)

        gateway = self.start()
        self.end(gateway)
        self.assert_no_table(gateway)
        calls = self.assert_numbered(self.lines(gateway))
        self.assertEqual([row["request_id"] for row in calls], [request_id])
        row = calls[0]
        self.assertEqual((row["outcome"], row["status"], row["billable"], row["recovered"]),
                         ("crash_recovered", 200, True, "test-1"))
        self.assertEqual((row["tenant"], row["model"], row["replica"], row["epoch"]),
                         ("acme", "small", "s1", 2))
        self.assertGreaterEqual(row["output"], received)
        self.assertLess(row["output"], 100)
        self.assertEqual(int(row["cost_pusd"]), cost_of_row(row))

    def stream(self, gateway, prompt, on_data=None, **more):
        conn = wire.H1(gateway.port)
        reply = conn.request("POST", "/v1/chat/completions", bearer(KEY),
                             chat(prompt, stream=True, **more), on_data=on_data)
        conn.close()
        return reply

    def test_an_estimate_after_a_kill_is_within_what_was_asked_for(self):
        gateway = self.start(kind="openai")      # says its count at the end alone
        for _ in range(4):                       # teaches that events bear several tokens
            reply = self.stream(gateway, "[[fake tokens=4000 per_event=5]]")
            self.assertEqual(reply.status, 200, reply)

        def kill_at_the_end(reply):              # two events: 3 and 2 tokens
            if reply.body.count(b'"content":"w') >= 2 and gateway.child.poll() is None:
                gateway.kill()

        reply = self.stream(gateway, "[[fake tokens=50 per_event=3 stall=2]]", kill_at_the_end,
                            max_tokens=5)
        self.assertFalse(reply.complete)
        gateway = self.start(kind="openai")
        self.end(gateway)
        rows = [row for row in self.assert_numbered(self.lines(gateway))
                if row["outcome"] == "crash_recovered"]
        self.assertEqual([(row["source"], row["output"]) for row in rows], [("estimated", 5)])
        self.assertEqual(int(rows[0]["cost_pusd"]), cost_of_row(rows[0]))

    def test_two_processes_of_one_name_run_beside_each_other(self):
        first = self.start()
        ids = [self.ask_once(first)]
        second = self.start()
        ids += [self.ask_once(first), self.ask_once(second)]
        self.assertEqual(sorted(path.name for path in first.journal.glob("*.inflight")),
                         ["test-1.inflight", "test-2.inflight"])
        self.end(first)
        ids.append(self.ask_once(second))
        self.end(second)
        self.assert_no_table(second)
        calls = self.assert_numbered(self.lines(second))
        self.assertEqual(sorted(row["request_id"] for row in calls), sorted(ids))
        self.assertEqual(sorted(row["epoch"] for row in calls), [1, 1, 2, 2])
        self.assertEqual({row["outcome"] for row in calls}, {"ok"})

    def test_a_new_process_starts_beside_the_files_of_a_dead_one(self):
        gateway = self.start()
        self.load_and_kill(gateway, 0.2)
        path = sorted(gateway.journal.glob("*.jsonl"))[-1]
        with open(path, "ab") as file:
            file.write(b'{"v":1,"gateway":"te')
        before = path.read_bytes()
        gateway = self.start()
        self.ask_once(gateway)
        self.end(gateway)
        self.assertEqual(path.read_bytes(), before, "a file of another is never written")
        self.assert_no_table(gateway)
