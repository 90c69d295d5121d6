# SPDX-License-Identifier: Apache-2.0
"""Usage and costs over HTTP: OpenAI's endpoints for a tenant's own key, /usage for the operator.

For:       every number against the journal's rows; buckets, groups, filters, pages; what is refused;
           nobody sees another tenant.
"""

import decimal
import json
import pathlib
import subprocess
import time

import harness
from harness import (ADMIN_TOKEN, ENVIRONMENT, KEY, KEY_OTHER, Gateway, GatewayTest, bearer, chat, get,
                     model, tenants, wait_until)

DAY = 86400
DOLLAR = decimal.Decimal(10 ** 12)
USAGE = "/v1/organization/usage/completions"
COSTS = "/v1/organization/costs"


class UsageApi(GatewayTest):
    FAKES = (("s1", ()), ("l1", ()))

    @classmethod
    def configure(cls):
        home = pathlib.Path(cls.holder.name)
        return {
            "models": {"small": model(("s1", cls.fakes["s1"].port)),
                       "large": model(("l1", cls.fakes["l1"].port),
                                      price=harness.price("5", "25", "0.5"))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "meter": {"journal": str(home / "rows"), "ledger": f"sqlite:{home / 'ledger.db'}"},
        }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gateway.journal = pathlib.Path(cls.holder.name) / "rows"
        test = cls()
        conn = test.h1()
        for tokens in (3, 5, 7):
            test.ask_row(conn, chat(f"hello there [[fake tokens={tokens}]]"))
        test.ask_row(conn, chat("hello", model_name="large", max_tokens=4))
        embeddings = json.dumps({"model": "small", "input": "hello"}).encode()
        test.ask_row(conn, embeddings, path="/v1/embeddings")
        test.ask_row(conn, chat("not yours [[fake tokens=9]]"), key=KEY_OTHER)
        test.ask_row(conn, chat("[[fake status=400]]"))  # has a row, and is not billed
        test.doCleanups()
        cls.calls = cls.gateway.calls()
        wait_until(lambda: cls.fed() >= len(cls.calls), 20)

    @classmethod
    def fed(cls):
        reply = cls.gateway.admin("/usage?by=tenant")
        return reply.json()["totals"]["calls"] if reply.status == 200 else 0

    def show(self, path, key=KEY, **params):
        """The answer with exact decimals, and its whole status checked."""
        params.setdefault("start_time", self.today())
        query = "&".join(f"{name}={value}" for name, values in params.items()
                         for value in (values if isinstance(values, list) else [values]))
        reply = self.h1().request("GET", f"{path}?{query}", bearer(key))
        self.assertEqual(reply.status, 200, reply)
        return json.loads(bytes(reply.body), parse_float=decimal.Decimal)

    @staticmethod
    def today():
        return int(time.time()) // DAY * DAY - DAY  # midnight may pass while we run

    def mine(self, tenant="acme", endpoint=None):
        return [row for row in self.calls if row["tenant"] == tenant and row["billable"]
                and (endpoint is None or row["endpoint"] == endpoint)]

    def results(self, page):
        return [result for bucket in page["data"] for result in bucket["results"]]

    def assert_sums(self, result, rows):
        of = lambda *names: sum(row.get(name, 0) for row in rows for name in names)
        self.assertEqual(result["object"], "organization.usage.completions.result")
        self.assertEqual(result["num_model_requests"], len(rows))
        self.assertEqual(result["input_tokens"], of("input", "cached_input", "cache_write"))
        self.assertEqual(result["input_cached_tokens"], of("cached_input"))
        self.assertEqual(result["output_tokens"], of("output", "reasoning"))

    def test_usage_is_the_sum_of_the_tenants_own_chat_rows(self):
        page = self.show(USAGE)
        self.assertEqual(page["object"], "page")
        self.assertEqual((page["has_more"], page["next_page"]), (False, None))
        results = self.results(page)
        self.assertEqual(len(results), 1)
        self.assert_sums(results[0], self.mine(endpoint="chat"))
        for name in ("project_id", "user_id", "api_key_id", "model", "batch", "service_tier"):
            self.assertIsNone(results[0][name], name)
        self.assert_sums(self.results(self.show(USAGE, KEY_OTHER))[0], self.mine("globex"))

    def test_costs_are_exact_and_of_all_endpoints(self):
        for key, tenant in ((KEY, "acme"), (KEY_OTHER, "globex")):
            results = self.results(self.show(COSTS, key))
            self.assertEqual(len(results), 1)
            amount = results[0]["amount"]
            self.assertEqual(amount["currency"], "usd")
            self.assertEqual(amount["value"] * DOLLAR,
                             sum(int(row["cost_pusd"]) for row in self.mine(tenant)))

    def test_groups_sum_up_to_the_whole(self):
        page = self.show(USAGE, group_by=["model", "api_key_id"])
        found = {result["model"]: result for result in self.results(page)}
        self.assertEqual(set(found), {"small", "large"})
        for name, result in found.items():
            self.assertEqual(result["api_key_id"], "web")
            self.assert_sums(result, [row for row in self.mine(endpoint="chat")
                                      if row["model"] == name])
        page = self.show(USAGE, **{"group_by[]": "project_id,batch,service_tier,user_id"})
        result = self.results(page)[0]
        self.assertEqual((result["project_id"], result["batch"], result["service_tier"],
                          result["user_id"]), ("acme", False, "default", None))
        lines = {result["line_item"]: result["amount"]["value"]
                 for result in self.results(self.show(COSTS, group_by="line_item"))}
        for name in ("small", "large"):
            self.assertEqual(lines[name] * DOLLAR,
                             sum(int(row["cost_pusd"]) for row in self.mine()
                                 if row["model"] == name))

    def test_filters_leave_out_what_they_do_not_name(self):
        large = [row for row in self.mine() if row["model"] == "large"]
        self.assert_sums(self.results(self.show(USAGE, models="large"))[0], large)
        both = self.show(USAGE, **{"models%5B%5D": ["large", "small"]})
        self.assert_sums(self.results(both)[0], self.mine(endpoint="chat"))
        self.assert_sums(self.results(self.show(USAGE, models=["large", "other"]))[0], large)
        for nothing in ({"models": "other"}, {"api_key_ids": "old"}, {"user_ids": "u"},
                        {"project_ids": "globex"}, {"batch": "true"},
                        {"api_key_ids": ["old", "older"]}):
            self.assertEqual(self.results(self.show(USAGE, **nothing)), [], nothing)
        self.assertEqual(len(self.results(self.show(USAGE, project_ids="acme", batch="false"))), 1)

    def test_pages_follow_one_another_without_gap_or_overlap(self):
        whole = self.show(USAGE, start_time=self.today() - 9 * DAY, limit=31)
        pages, page = [], {"next_page": None, "has_more": True}
        while page["has_more"]:
            more = {"page": page["next_page"]} if page["next_page"] else {}
            page = self.show(USAGE, start_time=self.today() - 9 * DAY, limit=3, **more)
            self.assertLessEqual(len(page["data"]), 3)
            pages += page["data"]
        self.assertEqual(pages, whole["data"])
        self.assertIn(len(pages), (11, 12))
        for before, after in zip(pages, pages[1:]):
            self.assertEqual(before["end_time"], after["start_time"])
            self.assertEqual(before["start_time"] % DAY, 0)

    def test_narrow_buckets_come_to_the_same_and_edges_are_as_asked(self):
        for width, seconds, limit in (("1h", 3600, 168), ("1m", 60, 1440)):
            start = int(time.time()) - 1000 * seconds // 60
            page = self.show(USAGE, bucket_width=width, start_time=start, limit=limit)
            total = sum(result["num_model_requests"] for result in self.results(page))
            self.assertEqual(total, len(self.mine(endpoint="chat")), width)
            for bucket in page["data"][1:]:
                self.assertEqual(bucket["end_time"] - bucket["start_time"], seconds)
                self.assertEqual(bucket["start_time"] % seconds, 0)
        first = min(row["admitted_us"] for row in self.mine()) // 10 ** 6
        page = self.show(USAGE, start_time=first - 100, end_time=first)
        self.assertEqual(self.results(page), [])
        self.assertEqual((page["data"][0]["start_time"], page["data"][-1]["end_time"]),
                         (first - 100, first))

    def test_what_cannot_be_meant_is_refused_by_name(self):
        start = f"start_time={self.today()}"
        for path, query, param in (
                (USAGE, "", "start_time"), (USAGE, "start_time=yesterday", "start_time"),
                (USAGE, "start_time=-1", "start_time"), (USAGE, f"{start}&{start}", "start_time"),
                (USAGE, f"{start}&end_time=5", "end_time"), (USAGE, f"{start}&limit=0", "limit"),
                (USAGE, f"{start}&limit=32", "limit"), (COSTS, f"{start}&limit=181", "limit"),
                (USAGE, f"{start}&bucket_width=1w", "bucket_width"),
                (COSTS, f"{start}&bucket_width=1h", "bucket_width"),
                (USAGE, f"{start}&group_by=colour", "group_by"),
                (COSTS, f"{start}&group_by=model", "group_by"),
                (USAGE, f"{start}&page=3", "page"), (USAGE, f"{start}&page=page_1", "page"),
                (USAGE, f"{start}&batch=maybe", "batch"), (USAGE, f"{start}&model=x", "model"),
                (USAGE, f"{start}&models=%zz", None), (USAGE, f"{start}&models=%00", None),
                (USAGE, start + "&models=x" * 65, "models")):
            reply = self.h1().request("GET", f"{path}?{query}", bearer(KEY))
            self.assert_error(reply, 400, "bad_value")
            self.assertEqual(reply.json()["error"]["param"], param, query)

    def test_keys_and_methods_are_asked_for(self):
        query = f"?start_time={self.today()}"
        self.assert_error(self.h1().request("GET", USAGE + query, {}), 401)
        self.assert_error(self.h1().request("POST", USAGE + query, bearer(KEY), b"{}"), 405)
        for _, conn in self.clients():
            self.assertEqual(conn.request("GET", COSTS + query, bearer(KEY)).status, 200)
            self.assertEqual(conn.request("HEAD", COSTS + query, bearer(KEY)).status, 200)

    def test_clients_that_leave_take_nothing_with_them(self):
        for _ in range(40):
            conn = self.h1()
            conn.send(f"GET {USAGE}?start_time={self.today()} HTTP/1.1\r\nhost: x\r\n"
                      f"authorization: Bearer {KEY}\r\n\r\n".encode())
            conn.close()
        self.assertTrue(self.results(self.show(USAGE)))

    def test_the_operator_sees_what_the_command_prints(self):
        for query, arguments in (
                ("", []), ("?by=model,tier&period=month", ["--by", "model,tier"]),
                ("?by=key&tenant=acme&bucket=day", ["--by", "key", "--tenant", "acme",
                                                    "--bucket", "day"]),
                ("?zone=Europe/Berlin&by=endpoint", ["--zone", "Europe/Berlin", "--by",
                                                     "endpoint"])):
            shown = self.gateway.admin("/usage" + query)
            self.assertEqual(shown.status, 200, shown)
            printed = subprocess.run(
                [harness.TOLLGATE, "usage", "--json", "--config", str(self.gateway.config_path),
                 *arguments], env=ENVIRONMENT, capture_output=True, timeout=60, check=True)
            self.assertEqual(shown.json(), json.loads(printed.stdout), query)

    def test_the_operators_page_checks_its_token_and_its_parameters(self):
        self.assertEqual(self.gateway.admin("/usage", token=None).status, 401)
        self.assertEqual(self.gateway.admin("/usage", method="POST").status, 405)
        for query in ("?by=colour", "?period=soon", "?zone=Mars", "?bucket=minute", "?x=1",
                      "?by=model&by=key", "?by=model,model"):
            self.assertEqual(self.gateway.admin("/usage" + query).status, 400, query)
        self.assertEqual(self.h1().request("GET", "/usage", bearer(KEY)).status, 404)

    def test_a_gateway_without_a_ledger_says_so(self):
        config = self.configure()
        del config["meter"]
        gateway = Gateway(config, ENVIRONMENT)
        try:
            query = f"?start_time={self.today()}"
            self.assert_error(get(gateway.port, USAGE + query, bearer(KEY)), 404, "no_ledger")
            self.assert_error(get(gateway.port, COSTS + query, bearer(KEY)), 404, "no_ledger")
            self.assertEqual(get(gateway.admin_port, "/usage", bearer(ADMIN_TOKEN)).status, 404)
        finally:
            self.assertEqual(gateway.stop(), 0, gateway.last_words)
