# SPDX-License-Identifier: Apache-2.0
"""tollgate usage says what a journal's rows come to, by any columns, and as FOCUS 1.2.

For:       sums to the last digit in table, JSON and CSV; days of a tenant's zone where clocks change;
           tags, traces, waste, weights and margins; FOCUS lines that keep the rules of
           ../focus/check.py and sum to the invoice; arguments that do not go together.

The journals are written here, with moments of October 2023, so that months are over.
"""

import csv
import datetime
import decimal
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import harness
from harness import ENVIRONMENT, model, tenants

CHECKER = harness.ROOT / "tests" / "focus" / "check.py"
PRICE_FROM_US = 1672531200 * 1000000                    # 2023-01-01
RATES = {"input": 50000, "cached_input": 5000, "cache_write": 50000, "output": 200000,
         "reasoning": 200000}                           # picodollars per token
CLASSES = list(RATES)


def moment(text):
    """Microseconds since 1970 of a UTC moment."""
    at = datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.timezone.utc)
    return int(at.timestamp()) * 1000000


class Journal:
    """Rows of one epoch, as a gateway of the first version left them: without a chain."""

    def __init__(self, directory):
        directory.mkdir()
        self.path = directory / "g1-1-1.jsonl"
        self.seq = 0

    def add(self, kind, row):
        self.seq += 1
        head = {"v": 1, "gateway": "g1", "epoch": 1, "seq": self.seq, "kind": kind}
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(head | row, separators=(",", ":"), ensure_ascii=False) + "\n")

    def call(self, at, tenant="acme", name="small", tokens=(100, 0, 0, 10, 0), **more):
        usage = {name: count for name, count in zip(CLASSES, tokens) if count}
        cost = sum(RATES[name] * count for name, count in usage.items())
        prices = {"from": PRICE_FROM_US} | {name: str(rate) for name, rate in RATES.items()}
        at_us = moment(at)
        self.add("call", {
            "exchange_id": f"{self.seq:032x}", "request_id": f"r{self.seq}", "tenant": tenant,
            "key": "web", "tags": {"team": "search"}, "endpoint": "chat", "class": "default",
            "stream": False, "model_asked": name, "model": name, "replica": "s1", "attempts": 1,
            **usage, "source": "reported", "outcome": "ok", "status": 200, "billable": True,
            "prices": prices, "held_pusd": "0", "cost_pusd": str(cost), "admitted_us": at_us,
            "queue_us": 0, "sent_us": at_us, "ended_us": at_us + 3600 * 1000000, "bytes_in": 10,
            "bytes_out": 20, "why": "test"} | more)

    def adjust(self, at, made, cost_pusd, adjusts=None, tenant="acme", why="test"):
        row = {"adjusts": adjusts} if adjusts else {}
        self.add("adjust", row | {"tenant": tenant, "model": "small", "billable": True,
                                  "cost_pusd": str(cost_pusd), "admitted_us": moment(at),
                                  "at_us": moment(made), "by": "ops", "why": why})


class UsageReports(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.home = pathlib.Path(self.holder.name)
        self.journal = Journal(self.home / "journal")

    def run_usage(self, *arguments, expect=0, period="2023-10"):
        """Output of the command on the journal alone."""
        common = [] if "--config" in arguments else ["--journal", str(self.home / "journal")]
        done = subprocess.run([harness.TOLLGATE, "usage", *common, "--period", period, *arguments],
                              env=dict(os.environ, **ENVIRONMENT), capture_output=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, expect, done.stderr.decode() + done.stdout.decode())
        return done.stdout.decode()

    def usage(self, *arguments, **more):
        return json.loads(self.run_usage("--json", *arguments, **more))

    def configured(self, **tenant):
        """A configuration with the journal, acme in Berlin and two slots."""
        all_tenants = tenants()
        all_tenants["acme"] |= {"zone": "Europe/Berlin"} | tenant
        path = self.home / "tollgate.yaml"
        path.write_text(json.dumps({
            "listen": [{"address": "127.0.0.1:0"}], "models": {"small": model(("s1", 1))},
            "classes": [{"name": "default", "match": {}}], "tenants": all_tenants,
            "meter": {"journal": str(self.home / "journal")}}))
        return "--config", str(path)

    def test_sums_are_exact_in_table_json_and_csv(self):
        self.journal.call("2023-10-02 10:00:00", tokens=(1200000, 30, 4, 1, 2))
        self.journal.call("2023-10-02 11:00:00", tokens=(1, 0, 0, 1, 0))
        self.journal.call("2023-10-30 11:00:00", tenant="globex", name="large", outcome="timeout",
                          billable=False, cost_pusd="0")
        self.journal.call("2023-09-30 23:59:59")
        self.journal.call("2023-11-01 00:00:00")
        found = self.usage()
        self.assertEqual(found["period"], {"from": "2023-10-01T00:00:00Z",
                                           "until": "2023-11-01T00:00:00Z"})
        self.assertEqual(found["zone"], "UTC")
        self.assertEqual([(line["tenant"], line["model"]) for line in found["lines"]],
                         [("acme", "small"), ("globex", "large")])
        # 1200001 × 50000 + 30 × 5000 + 4 × 50000 + 4 × 200000 = 60,001,200,000 pusd
        expected = {"calls": 2, "failed": 0, "input": 1200001, "cached_input": 30, "cache_write": 4,
                    "output": 2, "reasoning": 2, "cost_usd": "0.0600012"}
        self.assertEqual({name: found["lines"][0][name] for name in expected}, expected)
        self.assertEqual(found["lines"][1]["failed"], 1)
        self.assertEqual(found["lines"][1]["cost_usd"], "0")
        self.assertEqual(found["totals"], expected | {"calls": 3, "failed": 1})
        table = self.run_usage().splitlines()
        self.assertEqual(table[-1].split(), ["total", "3", "1", "1200001", "30", "4", "2", "2",
                                             "0.0600012"])
        lines = list(csv.DictReader(io.StringIO(self.run_usage("--csv"), newline="")))
        self.assertEqual(lines[0], {"tenant": "acme", "model": "small"} |
                         {name: str(value) for name, value in expected.items()})

    def test_days_are_those_of_the_tenant_s_zone(self):
        """In Berlin 2023-10-29 has 25 hours: from 22:00 UTC of the day before to 23:00 UTC."""
        for at in ("2023-10-28 21:59:59", "2023-10-28 22:00:00", "2023-10-29 00:30:00",
                   "2023-10-29 01:30:00", "2023-10-29 22:59:59", "2023-10-29 23:00:00"):
            self.journal.call(at)
        config = self.configured()
        found = self.usage(*config, "--tenant", "acme", "--bucket", "day")
        self.assertEqual(found["zone"], "Europe/Berlin")
        self.assertEqual([(line["bucket"], line["calls"]) for line in found["lines"]],
                         [("2023-10-28", 1), ("2023-10-29", 4), ("2023-10-30", 1)])
        found = self.usage(*config, "--tenant", "acme", "--bucket", "hour", period="2023-10-29")
        self.assertEqual([line["bucket"] for line in found["lines"]],
                         ["2023-10-29 00:00:00 +02:00", "2023-10-29 02:00:00 +02:00",
                          "2023-10-29 02:00:00 +01:00", "2023-10-29 23:00:00 +01:00"])
        found = self.usage("--bucket", "month", "--zone", "Asia/Kathmandu", period="2023-10-29")
        self.assertEqual(found["period"]["from"], "2023-10-28T18:15:00Z")
        self.assertEqual(found["totals"]["calls"], 4)

    def test_lines_by_tag_trace_and_what_is_asked_where(self):
        self.journal.call("2023-10-02 10:00:00", tags={"team": "search", "app": "=x"})
        self.journal.call("2023-10-02 10:00:01", tags={"team": "ads"}, trace_id="a" * 32)
        self.journal.call("2023-10-02 10:00:02", tags={"team": "ads"}, trace_id="a" * 32)
        self.assertEqual([(line["tag:team"], line["calls"])
                          for line in self.usage("--by", "tag:team")["lines"]],
                         [("ads", 2), ("search", 1)])
        self.assertEqual([(line["trace"], line["calls"])
                          for line in self.usage("--by", "trace")["lines"]],
                         [(None, 1), ("a" * 32, 2)])
        self.assertEqual(self.usage("--where", "tag:team=ads")["totals"]["calls"], 2)
        self.assertEqual(self.usage("--where", "request=r1", "--where", "tenant=acme")
                         ["totals"]["calls"], 1)
        self.assertEqual(self.usage("--where", "tenant=nobody")["lines"], [])
        self.assertIn("\r\n'=x,1,", self.run_usage("--csv", "--by", "tag:app"))

    def test_waste_margin_and_weights(self):
        self.journal.call("2023-10-02 10:00:00", unit_cost_pusd="10000", wasted=[
            {"replica": "s1", "cause": "timeout", "input": 7, "output": 3}])
        self.journal.call("2023-10-02 11:00:00", tenant="globex")
        config = self.configured()
        waste = self.usage(*config, "--waste")
        self.assertEqual([(line["model"], line["replica"], line["cause"], line["input"],
                           line["output"]) for line in waste["lines"]],
                         [("small", "s1", "timeout", 7, 3)])
        first, second = self.usage(*config, "--margin")["lines"]
        # 100 × 50000 + 10 × 200000 = 7,000,000 pusd; 110 tokens at 10000 cost us 1,100,000
        self.assertEqual((first["cost_usd"], first["own_cost_usd"], first["margin_usd"],
                          first["calls_of_unknown_cost"]), ("0.000007", "0.0000011", "0.0000059", 0))
        self.assertEqual((second["margin_usd"], second["calls_of_unknown_cost"]), (None, 1))
        # Two slots for two hours, busy one hour each: half.
        slots = json.loads((self.home / "tollgate.yaml").read_text())["models"]["small"] \
            ["replicas"][0].get("slots", 1)
        found = self.usage(*config, "--weighted", "--tenant", "acme", "--zone", "UTC",
                           period="2023-10-02")
        busy = decimal.Decimal(2 * 1000000 // (24 * slots)) / 1000000
        self.assertEqual(decimal.Decimal(found["lines"][0]["weighted_tokens"]), 110 * busy)

    def test_focus_keeps_the_rules_and_sums_to_the_invoice(self):
        for hour, tokens in enumerate([(1200000, 30, 4, 1, 2), (7, 0, 0, 3, 0), (7, 0, 0, 3, 0)]):
            self.journal.call(f"2023-10-0{hour + 2} 10:10:00", tokens=tokens)
            self.journal.call(f"2023-10-0{hour + 2} 10:40:00", tokens=tokens, tier="flex")
        self.journal.call("2023-09-30 22:30:00", tokens=(5, 0, 0, 0, 0))  # October in Berlin
        self.journal.call("2023-10-31 23:00:00", tokens=(9, 0, 0, 0, 0))  # November there
        self.journal.adjust("2023-10-02 10:10:00", "2023-10-03 00:00:00", -3000000, "g1/1/1",
                            why="=cut, \"refund\"")
        self.journal.adjust("2023-10-02 10:10:00", "2023-11-03 00:00:00", -2000000, "g1/1/1")
        self.journal.adjust("2023-10-05 10:10:00", "2023-10-06 00:00:00", -1000000)
        spec = importlib.util.spec_from_file_location("focus_check", CHECKER)
        checker = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(checker)
        text = self.run_usage(*self.configured(), "--focus", "--tenant", "acme", "--issuer",
                              "Example Inc")
        lines = list(csv.DictReader(io.StringIO(text, newline="")))
        invoices = {line["InvoiceId"] for line in lines}
        self.assertEqual(invoices, {"acme/2023-09-30T22:00:00Z"})
        # Two calls of each kind of 1200000 × 50000 + 30 × 5000 + 4 × 50000 + 3 × 200000 pusd, four
        # of 950,000, one of 250,000, less 6,000,000: 0.11999995 USD, rounded.
        invoice = {"acme/2023-09-30T22:00:00Z": "0.12"}
        self.assertEqual(checker.check(text, invoice), [])
        self.assertEqual({line["InvoiceIssuerName"] for line in lines}, {"Example Inc"})
        kinds = [(line["ChargeCategory"], line["ChargeClass"], line["BilledCost"],
                  line["ChargeDescription"]) for line in lines if line["ChargeCategory"] != "Usage"]
        self.assertEqual(kinds[:3], [("Adjustment", "", "-0.000003", "'=cut, \"refund\""),
                                     ("Adjustment", "Correction", "-0.000002", "test"),
                                     ("Credit", "", "-0.000001", "test")])
        self.assertEqual(kinds[3][0], "Adjustment")
        usage = [line for line in lines if line["ChargeCategory"] == "Usage"]
        self.assertEqual(sum(int(line["ConsumedQuantity"]) for line in usage),
                         2 * 1200037 + 4 * 10 + 5)
        self.assertEqual(len(usage), 2 * 5 + 2 * 2 * 2 + 1)

    def test_the_checker_of_focus_finds_what_is_broken(self):
        done = subprocess.run(["/usr/bin/python3", str(CHECKER), "--selftest"], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_what_does_not_go_together_is_refused(self):
        for arguments in (["--by", "nothing"], ["--by", "tenant,tenant"], ["--by", ""],
                          ["--by", "tag:a,tag:b"], ["--where", "tenant"], ["--where", "x=1"],
                          ["--bucket", "minute"], ["--json", "--csv"], ["--waste", "--margin"],
                          ["--waste", "--tenant", "acme"], ["--focus", "--by", "tenant"],
                          ["--issuer", "me"], ["--period"], ["--unknown"], ["more"],
                          ["--weighted", "--by", "tenant,key,model,class,tier"],
                          ["--zone", "Mars/Phobos"], ["--period", "2023-13"]):
            self.run_usage(*arguments, expect=2)
        self.run_usage("--journal", str(self.home / "none"), expect=1)
