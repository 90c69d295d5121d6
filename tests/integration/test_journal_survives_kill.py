# SPDX-License-Identifier: Apache-2.0
"""kill -9 at any moment leaves a journal that reads, and the next process goes on beside it.

For:       whole lines only, numbered without a gap, one row an answered request.
"""

import json
import tempfile
import threading
import time
import unittest

import wire
from harness import ENVIRONMENT, KEY, Fake, Gateway, bearer, chat, model, new_id, tenants


class JournalSurvivesKill(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.fake = Fake(self.holder.name, "s1")
        self.addCleanup(self.fake.stop)

    def start(self):
        gateway = Gateway({"models": {"small": model(("s1", self.fake.port))},
                           "classes": [{"name": "default", "match": {}}],
                           "tenants": tenants()}, ENVIRONMENT, directory=self.holder.name)
        self.addCleanup(gateway.stop)
        return gateway

    def load_and_kill(self, gateway, seconds):
        """Requests on four connections until the process is killed; ids that were answered."""
        answered, stop = [], threading.Event()

        def ask(stream):
            conn = wire.H1(gateway.port)
            while not stop.is_set() and conn.closed is None:
                request_id = new_id()
                headers = dict(bearer(KEY), **{"x-request-id": request_id})
                body = chat("[[fake tokens=5]]", stream=stream)
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
        return answered

    def lines(self, gateway):
        """File name to its whole lines; a torn end is allowed in none but the last write."""
        found = {}
        for path in sorted(gateway.journal.glob("*.jsonl")):
            data = path.read_bytes()
            whole, _, torn = data.rpartition(b"\n")
            found[path.name] = [json.loads(line) for line in whole.splitlines()]
            self.assertTrue(torn == b"" or not torn.endswith(b"}"), torn)
        return found

    def test_what_was_written_reads_and_what_follows_has_its_own_file(self):
        answered = []
        files_before = set()
        for seconds in (0.35, 0.2, 0.5):
            gateway = self.start()
            answered += self.load_and_kill(gateway, seconds)
            files = self.lines(gateway)
            self.assertGreater(len(files), len(files_before), "each process writes its own file")
            files_before = set(files)
        rows = [row for many in files.values() for row in many]
        for name, many in files.items():
            numbers = [row["seq"] for row in many]
            self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))), name)
        identities = [(row["gateway"], row["epoch"], row["seq"]) for row in rows]
        self.assertEqual(len(identities), len(set(identities)))
        for row in rows:
            if row["kind"] == "call":
                self.assertIn("ended_us", row)
                self.assertIn("outcome", row)
        ids = [row["request_id"] for row in rows if row.get("request_id")]
        self.assertEqual(len(ids), len(set(ids)), "no request has two rows")
        self.assertGreater(len(answered), 50)
        missing = set(answered) - set(ids)
        self.assertLess(len(missing), len(answered) / 2, "rows are on disk within a moment")

    def test_a_new_process_starts_beside_the_files_of_a_dead_one(self):
        gateway = self.start()
        self.load_and_kill(gateway, 0.2)
        path = sorted(gateway.journal.glob("*.jsonl"))[-1]
        with open(path, "ab") as file:
            file.write(b'{"v":1,"gateway":"te')
        before = path.read_bytes()
        gateway = self.start()
        conn = wire.H1(gateway.port)
        reply = conn.request("POST", "/v1/chat/completions", bearer(KEY),
                             chat("[[fake tokens=2]]"))
        conn.close()
        self.assertEqual(reply.status, 200)
        self.assertEqual(gateway.child.poll(), None)
        gateway.child.terminate()
        self.assertEqual(gateway.wait(5), 0)
        self.assertEqual(path.read_bytes(), before, "a file of another is never written")
