# SPDX-License-Identifier: Apache-2.0
"""What replicas say of themselves: checks of their health, and their load with its age.

For:       /replicas and /metrics against the servers' own counters, for each kind; servers that
           answer badly, slowly or not at all; a reload in the middle.
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
