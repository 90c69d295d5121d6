# SPDX-License-Identifier: Apache-2.0
"""The ledger is the journal as tables: fed while the gateway runs, made anew with equal totals.

For:       `tollgate ledger` beside a running gateway, over a kill -9, without a ledger file, and on
           a damaged journal; anchors in a file.
"""

import json
import os
import pathlib
import sqlite3
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

    def refused(self, gateway, *command, status=1):
        """What a command says on standard error."""
        ended = subprocess.run([harness.TOLLGATE, *command, str(gateway.config_path)],
                               env=os.environ | ENVIRONMENT, capture_output=True, text=True,
                               timeout=60)
        self.assertEqual(ended.returncode, status, ended.stdout + ended.stderr)
        return ended.stderr

    def test_a_mistyped_journal_is_refused_before_anything_is_made(self):
        gateway = self.start()
        self.ask(gateway, 3)
        self.assertTrue(wait_until(lambda: self.totals().startswith("3 calls, "), 20))
        gateway.stop()
        path = pathlib.Path(gateway.config_path)
        good = path.read_text()
        path.write_text(good.replace(f"{self.holder.name}/journal", f"{self.holder.name}/jounal"))
        self.assertNotEqual(good, path.read_text())
        line = next(number for number, text in enumerate(path.read_text().splitlines(), 1)
                    if "jounal" in text)
        for command in (("check",), ("serve", "--config"), ("usage", "--config"),
                        ("ledger", "feed", "--config")):
            with self.subTest(command[0]):
                says = self.refused(gateway, *command)
                if command[0] in ("check", "serve"):
                    for part in (f"{path}:{line}: meter.journal: ", f"{self.holder.name}/jounal",
                                 f"({self.journal})", self.ledger, "tollgate ledger rebuild"):
                        self.assertIn(part, says)
                else:
                    self.assertIn("jounal", says)
        self.assertFalse(pathlib.Path(self.holder.name, "jounal").exists())
        path.write_text(good)
        self.refused(gateway, "check", status=0)

        # The folder itself, under a new name, is the same journal.
        pathlib.Path(self.journal).rename(f"{self.holder.name}/jounal")
        self.assertIn("is not there", self.refused(gateway, "check"))
        self.journal = f"{self.holder.name}/jounal"
        gateway = self.start()
        self.ask(gateway, 1)
        self.assertTrue(wait_until(lambda: self.totals().startswith("4 calls, "), 20))

    def test_a_damaged_ledger_is_set_aside_and_made_anew(self):
        gateway = self.start()
        self.ask(gateway, 3)
        gateway.stop()
        ledger = pathlib.Path(self.ledger)
        for name in ("-wal", "-shm"):
            pathlib.Path(self.ledger + name).unlink(missing_ok=True)
        ledger.write_bytes(b"no database" * 1000)
        says = self.refused(gateway, "serve", "--config")
        self.assertIn(self.ledger, says)
        self.assertIn("tollgate ledger rebuild", says)
        lines, _ = self.run_ledger("rebuild")
        aside = pathlib.Path(self.ledger + ".aside-1")
        self.assertIn(f"kept as {aside}", lines[-1])
        self.assertEqual(aside.read_bytes(), b"no database" * 1000)
        self.assertEqual(self.totals()[:9], "3 calls, ")
        gateway = self.start()
        self.ask(gateway, 1)
        self.assertTrue(wait_until(lambda: self.totals().startswith("4 calls, "), 20))

    def test_a_ledger_that_is_locked_falls_behind_and_catches_up(self):
        gateway = self.start()
        self.ask(gateway, 2)
        self.assertTrue(wait_until(lambda: self.totals().startswith("2 calls, "), 20))

        def metric(name):
            text = gateway.admin("/metrics").body.decode()
            return next(int(line.split()[-1]) for line in text.splitlines()
                        if line.startswith(f"tollgate_{name} "))

        self.assertTrue(wait_until(lambda: metric("ledger_behind_rows") == 0, 20))
        other = sqlite3.connect(self.ledger, isolation_level=None)
        self.addCleanup(other.close)
        other.execute("BEGIN IMMEDIATE")
        for count in (3, 6):
            self.ask(gateway, 3)
            self.assertTrue(wait_until(lambda: metric("ledger_behind_rows") == count, 30))
        self.assertGreater(metric("ledger_errors_total"), 0)
        other.execute("ROLLBACK")
        self.assertTrue(wait_until(lambda: metric("ledger_behind_rows") == 0, 30))
        self.assertLessEqual(metric("ledger_rows_total"), 8)
        self.assertEqual(self.totals()[:9], "8 calls, ")

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
        self.assertIn("after: 1 call,", "\n".join(said))

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
