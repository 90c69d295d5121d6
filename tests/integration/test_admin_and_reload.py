# SPDX-License-Identifier: Apache-2.0
"""The operator sees the state, and swaps the configuration without anybody noticing.

For:       the admin listener, its token, metrics, readiness, and reloads good and bad.
"""

import json
import re
import signal
import threading
import time

import harness
from harness import ADMIN_TOKEN, KEY, KEY_OTHER, REPLICA_KEY, GatewayTest, chat, model, tenants
from harness import wait_until

SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\.)*",?)*\})? '
                    r'(-?[0-9.]+(?:e[+-]?[0-9]+)?|[+-]Inf|NaN)( \d+)?$')


def read_prometheus(text):
    """Sample name with labels to value. Fails on anything that is not text format 0.0.4."""
    samples, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types, f"two TYPE lines for {name}"
            types[name] = kind
        elif not line.startswith("#") and line:
            found = SAMPLE.match(line)
            assert found, f"not a sample: {line!r}"
            key = found.group(1) + (found.group(2) or "")
            assert key not in samples, f"twice: {key}"
            samples[key] = float(found.group(3))
            family = re.sub(r"_(bucket|sum|count)$", "", found.group(1))
            assert found.group(1) in types or family in types, f"no TYPE for {key}"
    return samples


class AdminAndReload(GatewayTest):
    FAKES = (("s1", ()), ("l1", ()))

    @classmethod
    def configure(cls):
        return {
            "models": {"small": model(("s1", cls.fakes["s1"].port)),
                       "large": model(("l1", cls.fakes["l1"].port))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
        }

    def tearDown(self):
        self.gateway.write_config(self.gateway.config)
        self.gateway.admin("/reload", "POST")

    def metric(self, part):
        """The sum of all samples whose name contains part."""
        samples = read_prometheus(self.gateway.admin("/metrics").text())
        return sum(value for name, value in samples.items() if part in name)

    def reload(self, config):
        self.gateway.write_config(config)
        return self.gateway.admin("/reload", "POST")

    def changed(self, change):
        config = json.loads(json.dumps(self.gateway.config))
        change(config)
        return config

    def test_the_process_is_alive_and_ready(self):
        for path in ("/livez", "/readyz"):
            self.assertEqual(harness.get(self.gateway.admin_port, path).status, 200)
            self.assertEqual(harness.get(self.gateway.port, path).status, 200)

    def test_a_token_guards_all_but_health(self):
        for path, method in (("/metrics", "GET"), ("/config", "GET"), ("/replicas", "GET"),
                             ("/reload", "POST")):
            for token in (None, "wrong", ADMIN_TOKEN + "x", KEY):
                with self.subTest(path=path, token=token):
                    reply = self.gateway.admin(path, method, token)
                    if path == "/metrics" and token is None and reply.status == 200:
                        continue
                    self.assertIn(reply.status, (401, 403))
        self.assertEqual(self.gateway.admin("/nothing").status, 404)
        self.assertIn(self.gateway.admin("/reload", "GET").status, (404, 405))
        self.assertEqual(self.gateway.admin("/v1/models").status, 404)

    def test_metrics_are_prometheus_text_and_count(self):
        reply = self.gateway.admin("/metrics")
        self.assertIn("text/plain", reply.header("content-type"))
        before = self.metric("journal_rows_total")
        for _ in range(3):
            self.ask_row(self.h1(), chat("[[fake tokens=2]]"))
        self.assertTrue(wait_until(lambda: self.metric("journal_rows_total") >= before + 3, 3))
        text = self.gateway.admin("/metrics").text()
        for secret in (KEY, REPLICA_KEY, ADMIN_TOKEN):
            self.assertNotIn(secret, text)
        self.assertGreater(self.metric("requests_total"), 0)

    def test_gauges_go_back_to_nothing(self):
        self.ask(self.h1(), chat("[[fake tokens=2]]"))
        self.assertTrue(wait_until(lambda: self.metric("exchanges_open") <= 1, 3))
        self.assertEqual(self.metric("bodies_bytes"), 0)

    def test_replicas_are_listed_with_their_state(self):
        reply = self.gateway.admin("/replicas")
        self.assertEqual(reply.status, 200)
        text = json.dumps(reply.json())
        for part in ("s1", "l1", "small", "large", f"127.0.0.1:{self.fakes['s1'].port}"):
            self.assertIn(part, text)
        self.assertNotIn(REPLICA_KEY, text)

    def test_the_configuration_is_shown_without_secrets(self):
        reply = self.gateway.admin("/config")
        self.assertEqual(reply.status, 200)
        text = reply.text()
        self.assertIn("small", text)
        self.assertIn("***", text)
        for secret in (KEY, KEY_OTHER, REPLICA_KEY, ADMIN_TOKEN):
            self.assertNotIn(secret, text)

    def test_a_reload_takes_over_for_new_requests(self):
        def add(config):
            config["models"]["small"]["aliases"] = ["nickname"]
            config["tenants"]["globex"]["keys"] = [{"id": "new", "key": "sk-brand-new"}]
        self.assertEqual(self.ask(self.h1(), chat("x", "nickname")).status, 404)
        kept = self.h1()
        self.assertEqual(self.ask(kept, chat("[[fake tokens=1]]")).status, 200)
        self.assertEqual(self.reload(self.changed(add)).status, 200)
        self.assertEqual(self.ask(kept, chat("[[fake tokens=1]]", "nickname")).status, 200)
        self.assertEqual(self.ask(self.h2(), chat("[[fake tokens=1]]"), key="sk-brand-new").status,
                         200)
        self.assertEqual(self.ask(self.h1(), chat(), key=KEY_OTHER).status, 401)

    def test_a_reload_names_what_needs_a_restart(self):
        def move(config):
            config["listen"] = [{"address": "127.0.0.1:1"}]
            config["limits"] = {"in_flight": 100}
        reply = self.reload(self.changed(move))
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.json()["needs_restart"], "listen limits.in_flight")
        self.assertNotIn("needs_restart", self.reload(self.changed(lambda config: None)).json())

    def test_the_signal_reloads_as_the_request_does(self):
        def add(config):
            config["models"]["small"]["aliases"] = ["by-signal"]
        self.gateway.write_config(self.changed(add))
        self.gateway.child.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(
            lambda: self.ask(self.h1(), chat("[[fake tokens=1]]", "by-signal")).status == 200, 3))

    def test_a_bad_file_changes_nothing_and_says_why(self):
        def spoil(config):
            config["models"]["small"]["pricee"] = 1
            config["timeouts"] = {"head": "soon"}
        before = self.metric("reloads_refused_total")
        reply = self.reload(self.changed(spoil))
        self.assertIn(reply.status, (400, 409, 422))
        text = reply.text()
        self.assertIn("pricee", text)
        self.assertIn("price", text)
        self.assertIn("head", text)
        self.assertEqual(self.ask(self.h1(), chat("[[fake tokens=1]]")).status, 200)
        self.assertEqual(self.metric("reloads_refused_total"), before + 1)
        self.gateway.config_path.write_text("models: [")
        self.gateway.child.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        self.assertEqual(self.ask(self.h1(), chat("[[fake tokens=1]]")).status, 200)
        self.assertEqual(self.metric("reloads_refused_total"), before + 2)

    def test_counters_and_running_requests_survive_a_reload(self):
        rows_before = self.metric("journal_rows_total")
        replies = []
        thread = threading.Thread(target=lambda: replies.append(self.ask_row(
            self.h1(), chat("[[fake tokens=10 delay_ms=50]]", stream=True))))
        thread.start()
        time.sleep(0.2)

        def rename(config):
            config["models"]["tiny"] = config["models"].pop("small")
        self.assertEqual(self.reload(self.changed(rename)).status, 200)
        thread.join()
        reply, row = replies[0]
        self.assertTrue(reply.complete)
        self.assertEqual((row["model"], row["output"]), ("small", 10))
        self.assertGreaterEqual(self.metric("journal_rows_total"), rows_before + 1)
        self.assertEqual(self.ask(self.h1(), chat()).status, 404)

    def test_many_reloads_under_load_lose_nothing(self):
        statuses, stop = [], threading.Event()

        def load(conn):
            while not stop.is_set():
                statuses.append(self.ask(conn, chat("[[fake tokens=2]]")).status)

        threads = [threading.Thread(target=load, args=(conn,))
                   for conn in (self.h1(), self.h1(), self.h2(), self.h2())]
        for thread in threads:
            thread.start()
        for _ in range(20):
            self.assertEqual(self.gateway.admin("/reload", "POST").status, 200)
            time.sleep(0.02)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertGreater(len(statuses), 20)
        self.assertEqual(set(statuses), {200})

    def test_the_access_log_has_one_json_line_a_request(self):
        request_id = harness.new_id()
        self.ask(self.h1(), chat("[[fake tokens=3]]"), {"x-request-id": request_id})

        def mine():
            return [line for line in self.gateway.access.read_text().splitlines()
                    if request_id in line]
        lines = wait_until(mine, 3)
        self.assertEqual(len(lines), 1)
        line = json.loads(lines[0])
        text = json.dumps(line)
        for part in ("small", "s1", "acme", "200"):
            self.assertIn(part, text)


class NotReady(GatewayTest):
    FAKES = ()

    @classmethod
    def configure(cls):
        dead = harness.free_ports(2)
        return {"models": {"small": model(("d1", dead[0]), ("d2", dead[1]))},
                "classes": [{"name": "default", "match": {}}], "tenants": tenants(),
                "health": {"check_every": "100ms", "most_out": "100%"}}

    def test_alive_but_with_no_replica_it_is_asked_all_the_same(self):
        self.assertEqual(harness.get(self.gateway.port, "/livez").status, 200)
        reply = self.ask(self.h1(), chat())
        self.assertIn(reply.status, (502, 503))
        self.assert_error(reply, reply.status)
