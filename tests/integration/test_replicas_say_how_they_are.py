# SPDX-License-Identifier: Apache-2.0
"""What replicas say of themselves: checks of their health, and their load with its age.

For:       /replicas and /metrics against the servers' own counters, for each kind; servers that
           answer badly, slowly or not at all; a reload in the middle; our tokens against theirs,
           after faults, when somebody else uses a server, and when it starts anew.
"""

import os
import signal
import threading
import time

import harness
from harness import GatewayTest, Sse, chat, model, wait_until

KINDS = ("vllm", "sglang", "llamacpp", "tgi", "openai")
LONG_SECONDS = 15


class ReplicasSayHowTheyAre(GatewayTest):
    FAKES = tuple((kind, ("--kind", kind)) for kind in KINDS) + (
        ("old", ("--kind", "vllm", "--old-metrics")),)

    @classmethod
    def configure(cls):
        models = {kind: model((kind, cls.fakes[kind].port), kind=kind) for kind in KINDS}
        models["old"] = model(("old", cls.fakes["old"].port))
        for entry in models.values():
            entry["upstream_model"] = "small"
        return {"models": models, "classes": [{"name": "default", "match": {}}],
                "tenants": harness.tenants(),
                "health": {"load_every": "50ms", "check_every": "50ms", "out_after": 2,
                           "timeout": "300ms"}}

    def replica(self, name):
        models = self.gateway.admin("/replicas").json()["models"]
        return next(entry["replicas"][0] for entry in models if entry["model"] == name)

    def metric(self, family, name):
        text = self.gateway.admin("/metrics").text()
        start = f'tollgate_replica_{family}{{model_id="{name}"'
        return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                     if line.startswith(start)), None)

    def until(self, condition):
        self.assertTrue(wait_until(condition, LONG_SECONDS, 0.02), "it did not come")

    def test_each_kind_tells_its_load_and_its_counters(self):
        for name in ("vllm", "sglang", "llamacpp", "tgi", "old"):
            with self.subTest(name):
                before = self.replica(name)
                reply = self.ask(self.h1(), chat("count me [[fake tokens=7]]", name))
                self.assertEqual(reply.status, 200, reply)
                usage = reply.json()["usage"]
                generated = ((before["engine"] or {}).get("generation_tokens") or 0) + 7
                self.until(lambda: (self.replica(name)["engine"] or {}).get("generation_tokens")
                           == generated)
                engine = self.replica(name)["engine"]
                self.assertLess(engine["age_ms"], LONG_SECONDS * 1000)
                self.assertEqual((engine["running"], engine["waiting"]), (0, 0))
                self.assertGreaterEqual(engine["prompt_tokens"], usage["prompt_tokens"])
                self.assertEqual(self.metric("engine_generation_tokens_total", name), generated)
                self.assertIsNotNone(self.metric("engine_age_ms", name))

    def test_what_runs_is_seen_running(self):
        def hold():
            self.ask(self.h1(timeout=LONG_SECONDS),
                     chat("[[fake tokens=60 delay_ms=20]]", "vllm", stream=True))
        thread = threading.Thread(target=hold)
        thread.start()
        self.until(lambda: self.replica("vllm")["engine"]["running"] == 1)
        thread.join()
        self.until(lambda: self.replica("vllm")["engine"]["running"] == 0)

    def test_a_kind_without_metrics_is_not_asked(self):
        self.assertIsNone(self.replica("openai")["engine"])
        self.assertIsNone(self.metric("engine_running", "openai"))

    def test_a_failing_check_counts_against_a_replica_and_a_good_one_for_it(self):
        fake = self.fakes["sglang"]
        harness.get(fake.port, "/fake/set?health=503", method="POST")
        try:
            self.until(lambda: self.replica("sglang")["health"] != "in")
        finally:
            harness.get(fake.port, "/fake/set?health=200", method="POST")
        self.until(lambda: self.replica("sglang")["health"] == "in")

    def test_age_grows_when_a_replica_falls_silent(self):
        fake = self.fakes["tgi"]
        self.until(lambda: self.replica("tgi")["engine"] is not None)
        os.kill(fake.child.pid, signal.SIGSTOP)
        try:
            self.until(lambda: self.replica("tgi")["engine"]["age_ms"] > 1000)
        finally:
            os.kill(fake.child.pid, signal.SIGCONT)
        self.until(lambda: self.replica("tgi")["engine"]["age_ms"] < 1000)

    def test_reloads_while_replicas_are_asked_lose_nothing(self):
        for _ in range(20):
            self.assertEqual(self.gateway.admin("/reload", "POST").status, 200)
            time.sleep(0.02)
        self.until(lambda: (self.replica("vllm")["engine"] or {"age_ms": 9e9})["age_ms"] < 1000)
        reply = self.ask(self.h1(), chat("still there", "vllm", stream=True))
        self.assertTrue(Sse(reply.body).done, reply)


class TokensAreHeldAgainstTheEngines(GatewayTest):
    """One server for each test, so that nobody's tokens are another test's drift."""
    NAMES = ("whole", "faults", "shared", "anew", "cost")
    FAKES = tuple((name, ("--kind", "vllm")) for name in NAMES)

    @classmethod
    def configure(cls):
        models = {name: model((name, cls.fakes[name].port), upstream_model="small")
                  for name in cls.NAMES}
        models["cost"]["replicas"][0]["usd_per_hour"] = "0.36"
        return {"models": models, "classes": [{"name": "default", "match": {}}],
                "tenants": harness.tenants(),
                "health": {"load_every": "30ms", "check_every": "0s"}}

    def account(self, name):
        models = self.gateway.admin("/replicas").json()["models"]
        return next(entry["replicas"][0]["account"] for entry in models if entry["model"] == name)

    def until(self, condition):
        self.assertTrue(wait_until(condition, LONG_SECONDS, 0.02), "it did not come")

    def drift(self, name):
        account = self.account(name)
        return account["drift_prompt_tokens"], account["drift_generation_tokens"]

    def compared(self, name):
        self.until(lambda: self.account(name)["drift_age_ms"] is not None)

    def caught_up(self, name):
        """The account, once the engine's newest counters are in it."""
        def same():
            counters, account = self.fakes[name].counters(), self.account(name)
            return (account["engine_prompt_tokens"] == counters["prompt_tokens"] and
                    account["engine_generation_tokens"] == counters["generated_tokens"])
        self.until(same)
        return self.account(name)

    def test_our_tokens_are_the_engines(self):
        self.compared("whole")
        for _, conn in self.clients():
            for stream in (False, True):
                for count in (1, 3):
                    reply = self.ask(conn, chat("count [[fake tokens=9 cached=2]]", "whole",
                                                stream=stream, n=count))
                    self.assertEqual(reply.status, 200, reply)
        self.until(lambda: self.account("whole")["generation_tokens"] == 2 * 2 * (9 + 27))
        account = self.caught_up("whole")
        self.assertEqual(account["prompt_tokens"], self.fakes["whole"].counters()["prompt_tokens"])
        self.until(lambda: self.drift("whole") == (0, 0))
        text = self.gateway.admin("/metrics").text()
        self.assertIn('tollgate_replica_drift_tokens{model_id="whole",replica="whole",'
                      'kind="generation"} 0', text)

    def test_our_tokens_are_the_engines_after_faults(self):
        """Streams that break off and answers that never begin: what was made is counted, whoever
        pays for it."""
        self.compared("faults")
        conn = self.h1()
        for directive in ("tokens=20 reset=7", "tokens=20 fin=7", "tokens=20 error_event=7",
                          "tokens=20 split=3", "tokens=20 gzip=1", "tokens=5"):
            self.ask(conn, chat(f"[[fake {directive}]]", "faults", stream=True))
        for directive in ("fail=500", "fail=429", "tokens=5"):
            self.ask(conn, chat(f"[[fake {directive}]]", "faults"))
        self.until(lambda: self.fakes["faults"].counters()["running"] == 0)
        account = self.caught_up("faults")
        counters = self.fakes["faults"].counters()
        self.assertEqual((account["prompt_tokens"], account["generation_tokens"]),
                         (counters["prompt_tokens"], counters["generated_tokens"]))
        self.until(lambda: self.drift("faults") == (0, 0))

    def test_somebody_else_on_a_server_is_seen(self):
        self.compared("shared")
        reply = harness.get(self.fakes["shared"].port, "/v1/chat/completions",
                            harness.bearer(harness.REPLICA_KEY), "POST",
                            chat("not by us [[fake tokens=13]]"))
        self.assertEqual(reply.status, 200, reply)
        self.until(lambda: self.drift("shared") == (reply.json()["usage"]["prompt_tokens"], 13))

    def test_a_server_that_starts_anew_is_compared_anew(self):
        self.compared("anew")
        self.ask(self.h1(), chat("[[fake tokens=50]]", "anew"))
        self.until(lambda: self.account("anew")["engine_generation_tokens"] == 50)
        port = self.fakes["anew"].port
        self.fakes["anew"].stop()
        type(self).fakes["anew"] = harness.Fake(self.holder.name, "anew", "--kind", "vllm",
                                                port=port)
        self.addClassCleanup(self.fakes["anew"].stop)
        self.until(lambda: self.account("anew")["engine_restarts"] == 1)
        self.until(lambda: self.drift("anew") == (0, 0))
        self.until(lambda: self.ask(self.h1(), chat("[[fake tokens=5]]", "anew")).status == 200)
        self.until(lambda: self.account("anew")["engine_generation_tokens"] == 55)
        self.until(lambda: self.drift("anew") == (0, 0))
        self.assertEqual(self.account("anew")["engine_restarts"], 1)

    def test_what_a_token_costs_us_is_in_the_row(self):
        self.assertIsNone(self.account("cost")["unit_cost_pusd"])
        self.ask(self.h1(), chat("[[fake tokens=50]]", "cost"))
        self.until(lambda: self.account("cost")["tokens_per_hour"] is not None)
        _, row = self.ask_row(self.h1(), chat("[[fake tokens=50]]", "cost"))
        account = self.account("cost")
        # 0.36 USD an hour, over the tokens of an hour; of the first five minutes, at the rate of them.
        self.assertEqual(account["tokens_per_hour"] % 12, 0)
        self.assertGreater(int(row["unit_cost_pusd"]), 0)
        self.assertAlmostEqual(account["unit_cost_pusd"],
                               360_000_000_000 / account["tokens_per_hour"], delta=1)
        self.assertIsNone(self.account("whole")["unit_cost_pusd"])
