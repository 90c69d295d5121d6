# SPDX-License-Identifier: Apache-2.0
"""tollgate audit says whether the journal is what was written, and tollgate adjust corrects it.

For:       exit codes, findings with file and byte, an auditor without configuration, a ledger that was
           changed, a gateway that writes meanwhile, drift of a running one.
"""

import json
import os
import pathlib
import re
import shutil
import sqlite3
import subprocess
import tempfile
import threading
import unittest

import harness
import wire
from harness import (ENVIRONMENT, KEY, Fake, Gateway, bearer, chat, model, new_id, tenants,
                     wait_until)


def tollgate(*arguments, environment=None):
    """Exit code, output and complaints of a command."""
    whole = dict(os.environ, **ENVIRONMENT, **(environment or {}))
    done = subprocess.run([harness.TOLLGATE, *map(str, arguments)], env=whole, capture_output=True,
                          text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


class Audit(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.home = pathlib.Path(self.holder.name)
        self.fake = Fake(self.home, "s1")
        self.addCleanup(self.fake.stop)

    def start(self, **more):
        gateway = Gateway({"models": {"small": model(("s1", self.fake.port))},
                           "classes": [{"name": "default", "match": {}}],
                           "tenants": tenants(),
                           "meter": {"journal": str(self.home / "journal"),
                                     "signing_key": str(self.home / "signing.key"),
                                     "anchor": {"file": str(self.home / "anchors")}}} | more,
                          ENVIRONMENT, directory=self.home)
        self.addCleanup(gateway.stop)
        return gateway

    def ask(self, gateway, count=5):
        """Answered requests, the last one's row on disk."""
        conn = wire.H1(gateway.port)
        for number in range(count):
            request_id = new_id()
            reply = conn.request("POST", "/v1/chat/completions",
                                 dict(bearer(KEY), **{"x-request-id": request_id}),
                                 chat("[[fake tokens=5]]", stream=number % 2 == 1))
            self.assertEqual(reply.status, 200)
        conn.close()
        gateway.row_of(request_id)

    def journal_of_two_processes(self):
        """The first one killed; both with rows. The gateway, stopped."""
        gateway = self.start()
        self.ask(gateway)
        gateway.kill()
        gateway = self.start()
        self.ask(gateway)
        self.assertEqual(gateway.stop(), 0)
        return gateway

    def audit(self, gateway, *more, expect=0):
        code, out, err = tollgate("audit", "--config", gateway.config_path, "--json", *more)
        said = json.loads(out) if out else None
        self.assertEqual(code, expect, (out, err))
        self.assertEqual(said["ok"], expect == 0)
        return said

    def findings(self, said):
        return [finding for finding in said["findings"] if finding["kind"] != "note"]

    def test_a_good_journal_is_good(self):
        gateway = self.journal_of_two_processes()
        said = self.audit(gateway)
        self.assertEqual(self.findings(said), [])
        sums = said["sums"]
        self.assertEqual(sums["calls"], 10)
        self.assertEqual(sums["findings"], 0)
        self.assertEqual(sums["rows_after_last_anchor"], 0)
        self.assertGreaterEqual(sums["anchors"], 1)
        self.assertEqual(int(sums["charged_pusd"]),
                         sum(int(row["cost_pusd"]) for row in gateway.calls()))
        code, out, _ = tollgate("audit", "--config", gateway.config_path)
        self.assertEqual(code, 0)
        self.assertIn("good: nothing was found\n", out)
        self.assertIn(f"charged: {sums['charged_usd']} USD\n", out)

    def test_the_signing_key_may_be_replaced(self):
        gateway = self.start()
        self.ask(gateway)
        self.assertEqual(gateway.stop(), 0)
        keys = self.home / "keys"
        keys.mkdir()
        (self.home / "signing.pub").rename(keys / "first.pub")
        (self.home / "signing.key").rename(self.home / "first.key")
        gateway = self.start()
        self.ask(gateway)
        self.assertEqual(gateway.stop(), 0)
        row = next(row for row in gateway.calls() if row["epoch"] == 1)
        code, _, err = tollgate("adjust", f"{row['gateway']}/1/{row['seq']}", "--void", "--by",
                                "ann", "--why", "x", "--config", gateway.config_path)
        self.assertEqual(code, 0, err)
        first, second = keys / "first.pub", self.home / "signing.pub"
        said = self.audit(gateway, "--public-key", first, "--public-key", second)
        self.assertEqual(self.findings(said), [])
        by_heads = [(one["heads"], one["anchors"] > 0) for one in said["sums"]["keys"]]
        self.assertEqual(by_heads, [(1, True), (2, True)])
        shutil.copy(second, keys / "second.pub")
        code, out, _ = tollgate("audit", "--config", gateway.config_path, "--public-key", keys)
        self.assertEqual(code, 0, out)
        self.assertEqual(len(re.findall(r"^key [0-9a-f]{16}: \d heads?, \d+ anchors?, the newest at ",
                                        out, re.M)), 2)
        # A key that nobody gave is no key.
        kinds = {one["kind"] for one in self.findings(self.audit(gateway, expect=1))}
        self.assertEqual(kinds, {"head", "anchor"})
        kinds = {one["kind"] for one in
                 self.findings(self.audit(gateway, "--public-key", first, expect=1))}
        self.assertEqual(kinds, {"head", "anchor"})

    def test_a_changed_byte_is_named_with_file_and_offset(self):
        gateway = self.journal_of_two_processes()
        path = min(gateway.journal.glob("*-1-1.jsonl"))
        data = path.read_bytes()
        lines = data.split(b"\n")
        at = len(lines[0]) + 1 + lines[1].index(b'"tenant":"acme"') + len(b'"tenant":"a')
        path.write_bytes(data[:at] + b"k" + data[at + 1:])
        said = self.audit(gateway, "--no-ledger", expect=1)
        found = self.findings(said)
        self.assertEqual([(one["kind"], one["file"], one["seq"], one["offset"]) for one in found],
                         [("chain", path.name, 3, len(lines[0]) + len(lines[1]) + 2)])
        path.write_bytes(data[:at] + b"\n" + data[at + 1:])
        said = self.audit(gateway, "--no-ledger", expect=1)
        self.assertEqual(self.findings(said)[0]["kind"], "damaged")
        self.assertEqual(self.findings(said)[0]["offset"], len(lines[0]) + 1)

    def test_a_file_that_is_gone_is_named(self):
        gateway = self.journal_of_two_processes()
        path = max(gateway.journal.glob("*.jsonl"))
        path.unlink()
        said = self.audit(gateway, "--no-ledger", expect=1)
        self.assertIn(("missing", path.name),
                      [(one["kind"], one.get("file")) for one in self.findings(said)])

    def test_an_auditor_needs_no_configuration_and_writes_nothing(self):
        gateway = self.journal_of_two_processes()
        elsewhere = self.home / "elsewhere"
        shutil.copytree(gateway.journal, elsewhere, ignore=shutil.ignore_patterns("ledger*"))
        before = sorted(path.name for path in elsewhere.iterdir())
        code, out, err = tollgate("audit", "--journal", elsewhere, "--public-key",
                                  self.home / "signing.pub", "--anchors", self.home / "anchors")
        self.assertEqual(code, 0, (out, err))
        self.assertIn("rows after the last anchor: 0\n", out)
        self.assertEqual(sorted(path.name for path in elsewhere.iterdir()), before)
        code, _, err = tollgate("audit", "--journal", elsewhere)
        self.assertEqual(code, 1)
        self.assertIn("signing.pub", err)

    def test_a_ledger_that_says_something_else_is_found(self):
        gateway = self.journal_of_two_processes()
        self.assertEqual(self.findings(self.audit(gateway)), [])
        path = gateway.journal / "ledger.db"
        good = self.home / "good.db"
        with sqlite3.connect(path) as ledger:
            ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        shutil.copy(path, good)
        for change, says in (
                ("DELETE FROM rows WHERE id = (SELECT min(id) FROM rows)", "lacks this row"),
                ("UPDATE rows SET line = CAST(replace(CAST(line AS TEXT), '\"acme\"', '\"acmo\"')"
                 " AS BLOB) WHERE id = (SELECT max(id) FROM rows)", "another line for this row"),
                ("INSERT INTO rows SELECT id + 1000000, tenant, admitted_us,"
                 " CAST(replace(CAST(line AS TEXT), '\"seq\":2,', '\"seq\":700,') AS BLOB)"
                 " FROM rows WHERE id = (SELECT min(id) FROM rows)", "sums say"),
                ("UPDATE sums SET calls = calls + 1", "sums say")):
            with self.subTest(change):
                for old in gateway.journal.glob("ledger.db*"):
                    old.unlink()
                shutil.copy(good, path)
                ledger = sqlite3.connect(path)
                ledger.execute(change)
                ledger.commit()
                ledger.close()
                found = self.findings(self.audit(gateway, expect=1))
                self.assertEqual({one["kind"] for one in found}, {"ledger"}, found)
                self.assertTrue(any(says in one["says"] for one in found), found)

    def test_a_gateway_that_writes_meanwhile_is_no_finding(self):
        gateway = self.start(meter={"journal": str(self.home / "journal"), "segment_age": "1s",
                                    "anchor_every": "1s",
                                    "anchor": {"file": str(self.home / "anchors")}})
        stop = threading.Event()

        def load():
            while not stop.is_set():
                self.ask(gateway, 10)
        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(500):  # over some files' ends and beginnings
                said = self.audit(gateway)
                self.assertEqual(self.findings(said), [])
                if said["sums"]["files"] >= 4:
                    break
            self.assertGreaterEqual(said["sums"]["files"], 4)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        self.assertEqual(gateway.stop(), 0)
        said = self.audit(gateway)
        self.assertEqual(said["sums"]["calls"], len(gateway.calls()))
        self.assertEqual(said["sums"]["rows_after_last_anchor"], 0)

    def test_a_correction_is_a_row_of_its_own(self):
        gateway = self.start()
        self.ask(gateway)
        row = gateway.calls()[0]
        name = f"{row['gateway']}/{row['epoch']}/{row['seq']}"
        common = ["--by", "anna", "--why", "a dispute", "--config", gateway.config_path]
        code, out, err = tollgate("adjust", name, "--void", *common, "--json")
        self.assertEqual(code, 0, err)
        said = json.loads(out)
        self.assertEqual(said["cost_pusd"], f"-{row['cost_pusd']}")
        adjusts = [one for one in gateway.rows() if one["kind"] == "adjust"]
        self.assertEqual([(one["adjusts"], one["by"], one["tenant"]) for one in adjusts],
                         [(name, "anna", "acme")])
        code, _, err = tollgate("adjust", name, "--void", *common)
        self.assertEqual(code, 1)
        self.assertIn("taken back before", err)
        code, out, err = tollgate("adjust", "--tenant", "acme", "--at", "2026-11-30", "--usd", "-1.50",
                                  *common)
        self.assertEqual(code, 0, err)
        self.assertIn(": -1.5 USD on the invoice of acme for 2026-11", out)
        self.ask(gateway)
        self.assertEqual(gateway.stop(), 0)
        said = self.audit(gateway)
        self.assertEqual(said["sums"]["adjusts"], 2)
        self.assertEqual(said["sums"]["calls"], 10)
        gateway = self.start()  # and the next process takes up from it
        self.ask(gateway, 1)
        self.assertEqual(gateway.stop(), 0)
        self.assertEqual(self.findings(self.audit(gateway)), [])

    def test_drift_of_a_running_gateway_is_an_answer(self):
        gateway = self.start(health={"load_every": "200ms"})
        url = f"http://127.0.0.1:{gateway.admin_port}"
        token = {"TOLLGATE_ADMIN_TOKEN": harness.ADMIN_TOKEN}
        self.ask(gateway, 2)

        def live(*more):
            return tollgate("audit", "--live", url, *more, environment=token)
        self.assertTrue(wait_until(lambda: "drift of 0 prompt and 0 generation" in live()[1], 10, 0.2))
        code, out, _ = live("--json")
        self.assertEqual((code, json.loads(out)["ok"]), (0, True))
        self.assertEqual(json.loads(out)["replicas"][0]["replica"], "s1")
        harness.get(self.fake.port, "/v1/chat/completions",
                    bearer(harness.REPLICA_KEY), "POST", chat("[[fake tokens=7]]"))
        self.assertTrue(wait_until(lambda: "and 7 generation tokens" in live()[1], 10, 0.2))
        self.assertEqual(live()[0], 1)
        code, out, err = tollgate("audit", "--live", url, "--token-env", "NOBODY")
        self.assertEqual(code, 1)
        self.assertIn("401", err)

    def test_used_wrongly(self):
        for arguments in (("audit", "--nonsense"), ("audit", "--config"),
                          ("audit", "--config", "a", "--journal", "b"),
                          ("audit", "--live", "https://127.0.0.1:1"),
                          ("audit", "--live", "127.0.0.1:1"),
                          ("adjust",), ("adjust", "g/1/2", "--void"),
                          ("adjust", "g/1/2", "--by", "a", "--why", "b"),
                          ("adjust", "g/1/2", "--void", "--usd", "1", "--by", "a", "--why", "b"),
                          ("adjust", "--tenant", "t", "--usd", "1", "--by", "a", "--why", "b")):
            self.assertEqual(tollgate(*arguments)[0], 2, arguments)
        code, _, err = tollgate("audit", "--live", "http://192.0.2.1:9")
        self.assertEqual(code, 1)
        self.assertIn("tunnel", err)
