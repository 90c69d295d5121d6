# SPDX-License-Identifier: Apache-2.0
"""From a request to an invoice line, and to a dispute settled: invoice, why, adjust, rerate.

For:       what these commands print about the calls of a running gateway, and about journals made by
           hand: sums, months of a zone whose clocks change, discounts, drafts.
"""

import csv
import datetime
import decimal
import io
import json
import pathlib
import subprocess
import tempfile
import unittest
from collections import Counter
from decimal import Decimal
from random import Random

import harness
from harness import ENVIRONMENT, KEY_OTHER, GatewayTest, chat, model, new_id, tenants, wait_until

DOLLAR = Decimal(10 ** 12)
CENT = Decimal("0.01")
STEPS = [{"from": "2026-01-01", "input": "1", "output": "4", "bracket_mode": "marginal",
          "brackets": [{"above": 20, "input": "3", "output": "4"}], "tiers": {"flex": "0.5"}}]


def run(*arguments, status=0):
    """What a command prints."""
    done = subprocess.run([harness.TOLLGATE, *map(str, arguments)], env=ENVIRONMENT,
                          capture_output=True, timeout=60)
    assert done.returncode == status, (arguments, done)
    return done.stdout.decode() if status == 0 else done.stderr.decode()


def rounded(amount):
    return amount.quantize(CENT, decimal.ROUND_HALF_EVEN)


class Checks(unittest.TestCase):
    def assert_sums(self, invoice):
        """Each line and the whole are rounded once, and the lines sum to the whole."""
        lines = [line for line in invoice["lines"] if line["kind"] != "rounding"]
        for line in lines:
            self.assertEqual(Decimal(line["usd"]), rounded(Decimal(line["exact_usd"])), line)
            if line["kind"] == "tokens":
                self.assertEqual(Decimal(line["exact_usd"]) * 10 ** 6,
                                 line["tokens"] * Decimal(line["usd_per_million"]), line)
        exact = sum((Decimal(line["exact_usd"]) for line in lines), Decimal(0))
        self.assertEqual(Decimal(invoice["exact_usd"]), exact)
        self.assertEqual(Decimal(invoice["total_usd"]), rounded(exact))
        self.assertEqual(sum(Decimal(line["usd"]) for line in invoice["lines"]), rounded(exact))
        ids = [line["id"] for line in invoice["lines"]]
        self.assertEqual(len(set(ids)), len(ids))


class OfARunningGateway(GatewayTest, Checks):
    FAKES = (("s1", ()), ("l1", ()))

    @classmethod
    def configure(cls):
        home = pathlib.Path(cls.holder.name)
        return {
            "models": {"small": model(("s1", cls.fakes["s1"].port), price=harness.price("5", "25")),
                       "large": model(("l1", cls.fakes["l1"].port), price=STEPS)},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(acme={"zone": "Europe/Berlin"}),
            "meter": {"journal": str(home / "rows")},
        }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gateway.journal = pathlib.Path(cls.holder.name) / "rows"
        test = cls()
        conn = test.h1()
        cls.rows = []
        for body in (chat("hello [[fake tokens=40]]"), chat("hello [[fake tokens=7]]", stream=True),
                     chat("many words " * 20 + "[[fake tokens=9]]", model_name="large"),
                     chat("words " * 30 + "[[fake tokens=9]]", model_name="large",
                          service_tier="flex")):
            cls.rows.append(test.ask_row(conn, body)[1])
        test.ask_row(conn, chat("not yours [[fake tokens=9]]"), key=KEY_OTHER)
        test.doCleanups()

    def config(self):
        return ("--config", self.gateway.config_path)

    def invoice(self, *more):
        return json.loads(run("invoice", "acme", "month", "--json", *self.config(), *more))

    def test_an_invoice_sums_up_the_rows_of_its_tenant(self):
        invoice = self.invoice()
        self.assert_sums(invoice)
        self.assertEqual(invoice["zone"], "Europe/Berlin")
        self.assertIs(invoice["closed"], False)
        rows = [row for row in self.gateway.calls() if row["tenant"] == "acme" and row["billable"]]
        charged = sum(int(row["cost_pusd"]) for row in rows)
        tokens = [line for line in invoice["lines"] if line["kind"] == "tokens"]
        self.assertEqual(sum(Decimal(line["exact_usd"]) for line in tokens) * DOLLAR, charged)
        self.assertEqual(sum(line["tokens"] for line in tokens),
                         sum(row.get(name, 0) for row in rows for name in
                             ("input", "cached_input", "cache_write", "output", "reasoning")))
        self.assertIn(20, {line["above"] for line in tokens if line["model"] == "large"})
        self.assertIn("flex", {line["tier"] for line in tokens})
        self.assertEqual({line["id"] for line in tokens},
                         {line["id"] for line in self.invoice()["lines"]
                          if line["kind"] == "tokens"})

    def test_text_and_page_show_the_same_and_say_draft(self):
        invoice = self.invoice()
        text = run("invoice", "acme", "month", *self.config())
        page = run("invoice", "acme", "month", "--html", *self.config())
        for shown in (text, page):
            self.assertIn("DRAFT", shown)
            self.assertIn(invoice["total_usd"], shown)
            for line in invoice["lines"]:
                self.assertIn(line["id"], shown)
                self.assertIn(line["exact_usd"], shown)
        for foreign in ("<script", "http:", "https:", "src=", "url(", "@import"):
            self.assertNotIn(foreign, page)

    def test_focus_charges_sum_to_the_total(self):
        printed = run("invoice", "acme", "month", "--focus", *self.config())
        head, *lines = [line.split(",") for line in printed.strip().splitlines()]
        billed = head.index("BilledCost")
        self.assertEqual(sum(Decimal(line[billed].strip('"')) for line in lines),
                         Decimal(self.invoice()["total_usd"]))

    def test_why_leads_from_a_request_to_its_invoice_lines(self):
        invoice = {line["id"]: line for line in self.invoice()["lines"]}
        for row in self.rows:
            for name in ("request_id", "exchange_id"):
                found = json.loads(run("why", row[name], "--json", *self.config()))
                self.assertEqual(len([one for one in found if one["kind"] == "call"]), 1)
                call = found[0]
                self.assertEqual(call["row"], f"test/{row['epoch']}/{row['seq']}")
                self.assertEqual(call["outcome"], row["outcome"])
                self.assertEqual(call["source"], row["source"])
                self.assertEqual(sum(Decimal(charge["usd"]) for charge in call["charges"]),
                                 Decimal(call["cost_usd"]))
                self.assertEqual(Decimal(call["cost_usd"]) * DOLLAR, int(row["cost_pusd"]))
                for charge in call["charges"]:
                    line = invoice[charge["invoice_line"]["id"]]
                    self.assertEqual(line["class"], charge["class"])
                    self.assertEqual(line["usd"], charge["invoice_line"]["usd"])
                    self.assertGreaterEqual(line["tokens"], charge["tokens"])
            text = run("why", row["request_id"], *self.config())
            self.assertIn("the model server's own", text)
            self.assertIn("invoice line", text)
        self.assertIn("no row", run("why", "nobody", *self.config(), status=1))

    def test_a_dispute_is_settled_by_a_line_of_its_own(self):
        request = new_id()
        self.ask(self.h1(), chat("too dear [[fake tokens=30]]"), {"x-request-id": request})
        row = self.gateway.row_of(request)
        row_id = f"test/{row['epoch']}/{row['seq']}"
        before = self.invoice()
        made = json.loads(run("adjust", row_id, "--void", "--by", "ann", "--why", "a <test>",
                              "--json", *self.config()))
        after = self.invoice()
        self.assert_sums(after)
        line = next(line for line in after["lines"] if line["id"] == made["id"])
        self.assertEqual((line["kind"], line["what"], line["model"]), ("adjust", "a <test>", "small"))
        self.assertEqual(Decimal(line["exact_usd"]) * DOLLAR, -int(row["cost_pusd"]))
        self.assertEqual(Decimal(after["exact_usd"]) * DOLLAR,
                         Decimal(before["exact_usd"]) * DOLLAR - int(row["cost_pusd"]))
        found = json.loads(run("why", request, "--json", *self.config()))
        self.assertEqual([one["kind"] for one in found], ["call", "adjust"])
        self.assertEqual((found[1]["adjusts"], found[1]["by"], found[1]["why"]),
                         (row_id, "ann", "a <test>"))
        self.assertEqual(found[1]["invoice_line"]["id"], made["id"])
        page = run("invoice", "acme", "month", "--html", *self.config())
        self.assertIn("a &lt;test&gt;", page)
        self.assertNotIn("<test>", page)

    def rerate(self, config):
        path = pathlib.Path(self.holder.name) / "other.yaml"
        path.write_text(json.dumps(config))
        arguments = ("rerate", "--prices", path, "--tenant", "acme", *self.config())
        return json.loads(run(*arguments, "--json")), run(*arguments)

    def test_the_same_prices_change_nothing_and_others_show_the_difference(self):
        same, text = self.rerate(self.gateway.config)
        self.assertEqual(same["totals"]["differing"], 0)
        self.assertEqual(Decimal(same["totals"]["difference_usd"]), 0)
        self.assertEqual(Decimal(same["totals"]["was_usd"]) * DOLLAR,
                         sum(int(row["cost_pusd"]) for row in self.gateway.calls()
                             if row["tenant"] == "acme" and row["billable"]))
        self.assertIn("changes nothing", text)
        other = json.loads(json.dumps(self.gateway.config))
        other["models"]["small"]["price"][0] = {"from": "2026-01-01", "input": "10",
                                                "cached_input": "0.025", "output": "50"}
        dearer, text = self.rerate(other)
        for line in dearer["lines"]:
            self.assertEqual(Decimal(line["would_be_usd"]),
                             Decimal(line["was_usd"]) * (2 if line["model"] == "small" else 1))
            self.assertEqual(line["differing"], line["calls"] if line["model"] == "small" else 0)
        self.assertIn("differs", text)
        del other["models"]["large"]
        unpriced, text = self.rerate(other)
        large = next(line for line in unpriced["lines"] if line["model"] == "large")
        self.assertEqual((large["unpriced"], large["differing"]), (large["calls"], 0))
        self.assertIn("no price", text)


class OfJournalsMadeByHand(Checks):
    """Rows of the first version, which needs no chain: months that are over."""

    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.home = pathlib.Path(self.holder.name)
        (self.home / "rows").mkdir()
        self.lines = []

    def call(self, admitted_s, tokens, price="2000000", **more):
        row = {"v": 1, "gateway": "g1", "epoch": 1, "seq": len(self.lines) + 1, "kind": "call",
               "exchange_id": f"{len(self.lines):032x}", "request_id": f"r{len(self.lines)}",
               "tenant": "acme", "model": "small", "input": tokens, "source": "reported",
               "outcome": "ok", "status": 200, "billable": True,
               "prices": {"from": 0, "input": price, "cached_input": price, "cache_write": price,
                          "output": price, "reasoning": price},
               "cost_pusd": str(tokens * int(price)), "admitted_us": admitted_s * 10 ** 6}
        self.lines.append(row | more)

    def invoice(self, period, zone="UTC", volume=None):
        (self.home / "rows" / "g1-1-1.jsonl").write_text(
            "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in self.lines))
        price = {"from": "1970-01-01", "input": "2", "output": "2"} | ({"volume": volume}
                                                                        if volume else {})
        path = self.home / "tollgate.yaml"
        path.write_text(json.dumps({
            "gateway": "g1", "listen": [{"address": "127.0.0.1:0"}],
            "meter": {"journal": str(self.home / "rows")},
            "models": {"small": model(("s1", 1), price=[price])},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(acme={"zone": zone})}))
        found = json.loads(run("invoice", "acme", period, "--json", "--config", path))
        self.assert_sums(found)
        return found

    def test_months_begin_and_end_where_the_tenants_clocks_say(self):
        # October 2025 in Berlin: clocks go back on the 26th; New York changes in November.
        for zone, first, last in (("Europe/Berlin", 1759269600, 1761951599),
                                  ("America/New_York", 1759291200, 1761969599),
                                  ("UTC", 1759276800, 1761955199)):
            self.lines = []
            for at, tokens in ((first - 1, 1), (first, 10), (last, 100), (last + 1, 1000)):
                self.call(at, tokens)
            for period, tokens in (("2025-10", 110), ("2025-09", 1), ("2025-11", 1000)):
                found = self.invoice(period, zone)
                self.assertEqual(found["lines"][0]["tokens"], tokens, (zone, period))
                self.assertIs(found["closed"], True)
            (self.home / "rows" / "ledger.db").unlink()

    def test_halves_are_rounded_to_the_even_cent_and_the_rest_is_a_line(self):
        # 2500 tokens at 2 USD per million: half a cent on each of three lines.
        self.call(1759300000, 2500)
        self.call(1759300000, 2500, tier="flex")
        self.call(1759300000, 2500, tier="priority")
        found = self.invoice("2025-10")
        self.assertEqual([line["usd"] for line in found["lines"]], ["0.00"] * 3 + ["0.02"])
        self.assertEqual((found["lines"][3]["kind"], found["exact_usd"], found["total_usd"]),
                         ("rounding", "0.015", "0.02"))

    def test_a_volume_discount_is_of_whole_months_alone(self):
        # 1.5 million tokens, 3 USD; 10 % off the half million beyond the first.
        self.call(1759300000, 900000)
        self.call(1759400000, 600000, tier="flex")
        self.call(1762000000, 100)
        volume = [{"above": 1000000, "factor": "0.9"}]
        for period, discount in (("2025-10", "-0.1"), ("2025", "-0.1"), ("2025-10-01", None)):
            found = self.invoice(period, volume=volume)
            volumes = [line for line in found["lines"] if line["kind"] == "volume"]
            self.assertEqual([line["exact_usd"] for line in volumes],
                             [discount] if discount else [], period)

    def test_what_was_charged_otherwise_than_its_tokens_come_to_is_named(self):
        self.call(1759300000, 1000)
        self.call(1759300001, 1000, cost_pusd="5")
        found = self.invoice("2025-10")
        self.assertEqual(Decimal(found["exact_usd"]), Decimal("0.002") + 5 / DOLLAR)
        self.assertEqual([line["id"] for line in found["lines"] if line["kind"] == "adjust"],
                         ["g1/1/2"])

    def test_random_months_come_to_the_sum_of_their_rows(self):
        """Against a model that prices a prompt token by token."""
        order, rates = ("cached_input", "cache_write", "input"), ("input", "cached_input",
                                                                  "cache_write", "output",
                                                                  "reasoning")
        for seed in range(5):
            random = Random(seed)
            self.lines, wanted = [], Counter()
            tariffs = []
            for number in range(6):
                tariff = {"from": number} | {name: str(random.randrange(9 * 10 ** 6))
                                             for name in rates}
                if number % 2:
                    tariff["steps"] = [{"above": above} | {name: str(random.randrange(10 ** 7))
                                                           for name in rates}
                                       for above in (50, 120)]
                tariffs.append(tariff)
            for number in range(300):
                tariff, usage = random.choice(tariffs), {}
                for name in rates:
                    usage[name] = random.choice((0, random.randrange(90)))
                model_name, tier = random.choice(("small", "large")), random.choice((None, "flex"))
                cost, place = 0, 0
                for name in order + ("output", "reasoning"):
                    for _ in range(usage[name]):
                        place += 1
                        at = tariff
                        for step in tariff.get("steps", ()) if name in order else ():
                            at = step if place > step["above"] else at
                        cost += int(at[name])
                        wanted[model_name, tier or "standard", name, at.get("above", 0)] += 1
                self.call(1759300000 + 1000 * number, 0, model=model_name, prices=tariff,
                          cost_pusd=str(cost), **usage | ({"tier": tier} if tier else {}))
            found = self.invoice("2025-10")
            shown = Counter()
            for line in found["lines"]:
                if line["kind"] == "tokens":
                    shown[line["model"], line["tier"], line["class"], line["above"]] += \
                        line["tokens"]
            self.assertEqual(shown, wanted)
            self.assertEqual(Decimal(found["exact_usd"]) * DOLLAR,
                             sum(int(row["cost_pusd"]) for row in self.lines))
            (self.home / "rows" / "ledger.db").unlink()

    def test_why_says_in_words_what_a_row_means(self):
        self.call(1759300000, 1000, source="estimated", recovered="g1-7", outcome="crash_recovered",
                  flags=["usage_suspect", "novel"], attempts=2,
                  wasted=[{"replica": "s2", "cause": "timeout", "input": 5, "output": 3}])
        self.call(1759300001, 9, billable=False, trace_id="ab" * 16, request_id="\u001b[2J",
                  outcome="client_gone")
        self.invoice("2025-10")
        path = self.home / "tollgate.yaml"
        text = run("why", "r0", "--config", path)
        for said in ("call g1/1/1", "estimated from the bytes", "process g1-7 died", "novel",
                     "usage_suspect: the model server's numbers", "s2 (timeout)", "input 5",
                     "1000 × 2 USD per million = 0.002 USD", "invoice line"):
            self.assertIn(said, text)
        text = run("why", "ab" * 16, "--config", path)
        self.assertIn("not billed", text)
        self.assertNotIn("\u001b", text)
        self.assertNotIn("invoice", text)

    def test_a_tenant_without_rows_owes_nothing(self):
        self.call(1759300000, 1000, tenant="globex")
        found = self.invoice("2025-10")
        self.assertEqual((found["lines"], found["total_usd"]), ([], "0.00"))
        self.assertIn("PERIOD", run("invoice", "acme", status=2))
        self.assertIn("ID", run("why", status=2))
        self.assertIn("--prices", run("rerate", status=2))

    def test_a_draft_says_why_it_is_one_and_when_it_closes(self):
        self.call(1759300000, 1000)
        self.assertEqual((self.invoice("2025-10")["state"], self.invoice("2025-10")["closes"]),
                         ("closed", "2025-11-02T00:00:00Z"))
        config = ("--config", self.home / "tollgate.yaml")
        tomorrow = datetime.datetime.now(datetime.timezone.utc).date() + datetime.timedelta(days=1)
        for period, state, said in (
                ("today", "running", "DRAFT: the period is still open"),
                ("yesterday", "grace", "DRAFT: the period is over, but late rows may come until it "
                                       f"closes at {tomorrow} 00:00:00 +00:00")):
            self.assertEqual(self.invoice(period)["state"], state)
            self.assertIn(said, run("invoice", "acme", period, *config))
            self.assertIn(said, run("invoice", "acme", period, "--html", *config))
        self.assertNotIn("DRAFT", run("invoice", "acme", "2025-10", *config))

    def test_a_tenant_that_nothing_knows_is_refused_and_the_nearest_named(self):
        self.call(1759300000, 1000, tenant="globex")
        self.invoice("2025-10")
        config = ("--config", self.home / "tollgate.yaml")
        for meant, name in (("acme", "amce"), ("globex", "globx"), (None, "initech")):
            said = run("invoice", name, "2025-10", *config, status=2)
            self.assertIn(f"no tenant {name}", said)
            self.assertEqual("did you mean" in said, meant is not None, said)
            self.assertIn(meant or name, said)
            for command in (("usage",), ("rerate", "--prices", config[1])):
                self.assertIn(f"no tenant {name}", run(*command, "--tenant", name, *config,
                                                       status=2))
        # Known to the books alone, with rows in another period: an invoice of nothing.
        self.assertIn("total 0.00 USD", run("invoice", "globex", "2025-08", *config))
        self.assertIn("total 0.00 USD",
                      run("invoice", "globex", "2025-08", "--journal", self.home / "rows"))

    def make_key(self):
        key = self.home / "rows" / "signing.key"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True,
                       timeout=60)
        key.chmod(0o600)

    def test_what_comes_to_light_of_a_closed_month_is_for_the_invoice_of_this_one(self):
        self.call(1759300000, 1000, tenant="acme")
        self.invoice("2025-10")
        self.make_key()
        more = ("--by", "ann", "--why", "late", "--config", self.home / "tollgate.yaml")

        said = run("adjust", "g1/1/1", "--usd", "-0.001", *more)
        this_month = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m}"
        self.assertIn(f"of acme for {this_month}: the month of its row is closed", said)

        self.assertEqual(self.invoice("2025-10")["exact_usd"], "0.002", "it has been sent")
        found = self.invoice("month")
        self.assertEqual((found["exact_usd"], found["lines"][0]["what"]), ("-0.001", "late"))
        rows = json.loads(run("why", "g1/1/1", "--json", *more[4:]))
        self.assertEqual(rows[1]["corrects"], "2025-10-01T06:26:40Z")
        self.assertEqual(rows[1]["invoice"]["from"], found["period"]["from"])
        for period, classes in (("month", {"Correction"}), ("2025-10", {""})):
            lines = csv.DictReader(io.StringIO(run("usage", "--focus", "--period", period,
                                                   "--tenant", "acme", *more[4:])))
            self.assertEqual({line["ChargeClass"] for line in lines}, classes, period)
            lines = csv.DictReader(io.StringIO(run("invoice", "acme", period, "--focus",
                                                   *more[4:])))
            self.assertEqual({line["ChargeClass"] for line in lines if line["x_JournalRow"]},
                             classes - {""}, period)

        # A credit of its own has to name a month that is open, or say that it means it.
        credit = ("adjust", "--tenant", "acme", "--at", "2025-10-02", "--usd", "-5", *more)
        self.assertIn("is closed", run(*credit, status=1))
        self.assertIn("for 2025-10, which was closed: send it anew", run(*credit, "--amend"))
        run("adjust", "g1/1/1", "--void", "--amend", *more)
        lines = csv.DictReader(io.StringIO(run("invoice", "acme", "2025-10", "--focus",
                                               *more[4:])))
        self.assertEqual({(line["ChargeCategory"], line["ChargeClass"]) for line in lines
                          if line["x_JournalRow"]},
                         {("Credit", "Correction"), ("Adjustment", "Correction")})
        self.assertEqual(self.invoice("2025-10")["exact_usd"], "-4.999")
        self.assertEqual(self.invoice("month")["exact_usd"], "-0.001")

    def test_a_credit_goes_to_a_tenant_that_something_knows(self):
        self.call(1759300000, 1000, tenant="globex")
        self.invoice("2025-10")
        config = ("--config", self.home / "tollgate.yaml")
        self.make_key()
        more = ("--at", "2025-10-02", "--amend", "--usd", "-5", "--by", "ann", "--why", "late",
                *config)
        for meant, name in (("acme", "acne"), ("globex", "globexx")):
            said = run("adjust", "--tenant", name, *more, status=2)
            self.assertIn(f"no tenant {name}", said)
            self.assertIn(f"did you mean {meant}?", said)
            self.assertIn("--force", said)
        self.assertEqual(len(list((self.home / "rows").glob("*.jsonl"))), 1, "nothing was booked")
        for name in ("acme", "globex"):
            self.assertIn("-5 USD", run("adjust", "--tenant", name, *more))
        self.assertIn("-5 USD", run("adjust", "--tenant", "initech", "--force", *more))
        self.assertIn("total -5.00 USD", run("invoice", "initech", "2025-10", *config))
