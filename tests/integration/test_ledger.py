# SPDX-License-Identifier: Apache-2.0
"""The ledger is the journal as tables: fed while the gateway runs, made anew with equal totals.

For:       `tollgate ledger` beside a running gateway, over a kill -9, without a ledger file, and on
           a damaged journal; anchors in a file.
"""

import json
import subprocess
import tempfile
import unittest

import harness
import wire
from harness import ENVIRONMENT, KEY, Fake, Gateway, bearer, chat, model, tenants, wait_until

TOKENS = 5


class Ledger(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.fake = Fake(self.holder.name, "s1")
        self.addCleanup(self.fake.stop)
        self.journal = f"{self.holder.name}/journal"
        self.ledger = f"{self.holder.name}/ledger.db"
        self.anchors = f"{self.holder.name}/anchors"

    def start(self):
        gateway = Gateway({"models": {"small": model(("s1", self.fake.port))},
                           "classes": [{"name": "default", "match": {}}],
                           "tenants": tenants(),
                           "meter": {"journal": self.journal, "ledger": f"sqlite:{self.ledger}",
                                     "anchor": {"file": self.anchors}, "anchor_every": "1s"}},
                          ENVIRONMENT, directory=self.holder.name)
        self.addCleanup(gateway.stop)
        return gateway

    def ask(self, gateway, times):
        conn = wire.H1(gateway.port)
        for number in range(times):
            reply = conn.request("POST", "/v1/chat/completions", bearer(KEY),
                                 chat(f"[[fake tokens={TOKENS}]]", stream=number % 2 == 0))
            self.assertEqual(reply.status, 200)
        conn.close()

    def run_ledger(self, verb, status=0):
        """Its lines; what it says of errors."""
        ended = subprocess.run([harness.TOLLGATE, "ledger", verb, "--journal", self.journal,
                                "--ledger", self.ledger], capture_output=True, text=True,
                               timeout=60)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stdout.splitlines(), ended.stderr

    def totals(self, verb="feed"):
        lines, _ = self.run_ledger(verb)
        return next(line for line in lines if line.startswith("after: "))[len("after: "):]

    def test_a_running_gateway_feeds_it(self):
        gateway = self.start()
        self.ask(gateway, 6)
        self.assertTrue(wait_until(lambda: self.totals().startswith("6 calls, "), 20))
        self.assertIn(f" output {6 * TOKENS} ", self.totals())

    def test_it_is_made_anew_with_equal_totals(self):
        gateway = self.start()
        self.ask(gateway, 4)
        gateway.kill()
        gateway = self.start()
        self.ask(gateway, 3)
        self.assertTrue(wait_until(lambda: self.totals().startswith("7 calls, "), 20))
        lines, _ = self.run_ledger("rebuild")  # beside the gateway that feeds it
        self.assertEqual(lines[-1], "equal")
        self.ask(gateway, 1)
        self.assertTrue(wait_until(lambda: self.totals().startswith("8 calls, "), 20))

    def test_a_damaged_line_is_named_and_halts_its_file(self):
        gateway = self.start()
        self.ask(gateway, 3)
        gateway.stop()
        path = next(harness.pathlib.Path(self.journal).glob("*-1-1.jsonl"))
        lines = path.read_bytes().split(b"\n")
        offset = len(lines[0]) + 1 + len(lines[1]) + 1
        lines[2] = lines[2].replace(b'"kind":"call"', b'"kind":"cull"')
        path.write_bytes(b"\n".join(lines))
        harness.pathlib.Path(self.ledger).unlink()
        for name in ("-wal", "-shm"):
            harness.pathlib.Path(self.ledger + name).unlink(missing_ok=True)
        said, errors = self.run_ledger("feed", status=1)
        self.assertIn(f"{path.name}: byte {offset}: ", errors)
        self.assertIn("after: 1 calls", "\n".join(said))

    def test_anchors_name_the_newest_line(self):
        gateway = self.start()
        self.ask(gateway, 2)

        def newest():
            try:
                text = harness.pathlib.Path(self.anchors).read_text()
            except FileNotFoundError:
                return None
            anchors = [json.loads(line) for line in text.splitlines()]
            return anchors[-1] if anchors and anchors[-1]["seq"] >= 3 else None

        anchor = wait_until(newest, 20)
        row = next(row for row in gateway.rows() if row["seq"] == anchor["seq"])
        self.assertEqual((anchor["gateway"], anchor["epoch"]), (row["gateway"], row["epoch"]))


if __name__ == "__main__":
    unittest.main()
