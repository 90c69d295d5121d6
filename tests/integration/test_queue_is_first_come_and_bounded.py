# SPDX-License-Identifier: Apache-2.0
"""A model's slots are handed out first come, first served; the queue has an end and a deadline.

For:       slots per replica, order, the deadline, the bound, a leaver's place, reloads.
"""

import json
import threading
import time

import harness
from harness import KEY, GatewayTest, chat, model, tenants, wait_until
from upstream import Script, Upstream

SERVE_MS, QUEUE_MS = 300, 700


class QueueIsFirstComeAndBounded(GatewayTest):
    FAKES = ()

    @classmethod
    def configure(cls):
        cls.servers = {"s1": Upstream(), "s2": Upstream()}
        for server in cls.servers.values():
            cls.addClassCleanup(server.close)
        ports = {name: server.port for name, server in cls.servers.items()}
        return {
            "models": {"single": model(("s1", ports["s1"]), slots=1),
                       "pair": model(("s1", ports["s1"]), ("s2", ports["s2"]), slots=2),
                       "small": model(("s2", ports["s2"]))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "limits": {"queue": 4},
            "timeouts": {"queue": f"{QUEUE_MS}ms"},
        }

    def load(self, delay_ms=SERVE_MS):
        answer = {"json": {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}},
                  "delay_ms": delay_ms}
        self.scripts = {}
        for name, server in self.servers.items():
            self.scripts[name] = Script([answer], repeat_last=True)
            server.load(self.scripts[name])

    def ask_at_once(self, count, model_name, gap_seconds=0.03, protocols=("h1", "h2")):
        """Requests a moment apart; (index, reply) in the order in which they were answered."""
        answered, lock = [], threading.Lock()

        def one(index, conn):
            reply = self.ask(conn, chat(f"number {index}.", model_name), timeout=10)
            with lock:
                answered.append((index, reply))

        threads = []
        for index in range(count):
            conn = self.h1() if protocols[index % len(protocols)] == "h1" else self.h2()
            threads.append(threading.Thread(target=one, args=(index, conn)))
            threads[-1].start()
            time.sleep(gap_seconds)
        for thread in threads:
            thread.join()
        return answered

    def test_a_slot_is_held_by_one_and_the_others_follow_in_order(self):
        self.load(100)
        answered = self.ask_at_once(5, "single")
        self.assertEqual([reply.status for _, reply in answered], [200] * 5)
        self.assertEqual(self.scripts["s1"].most_at_once, 1)
        order = [json.loads(request.body)["messages"][0]["content"]
                 for request in self.scripts["s1"].requests]
        self.assertEqual(order, [f"number {index}." for index in range(5)])

    def test_who_waits_past_the_deadline_is_refused(self):
        self.load(SERVE_MS)
        answered = self.ask_at_once(5, "single", 0.01)
        statuses = {index: reply.status for index, reply in answered}
        self.assertEqual([statuses[index] for index in range(3)], [200, 200, 200])
        self.assertEqual((statuses[3], statuses[4]), (503, 503))
        for index, reply in answered:
            if reply.status == 503:
                self.assert_error(reply, 503, "queue_timeout")
                self.assertRegex(reply.header("retry-after"), r"^[1-9][0-9]*$")
                self.assertLess(reply.took_ms(), QUEUE_MS + 400, index)

    def test_a_full_queue_sheds_at_once(self):
        self.load(SERVE_MS)
        answered = self.ask_at_once(8, "single", 0.01)
        shed = [reply for _, reply in answered
                if reply.status == 503 and reply.json()["error"]["code"] == "overloaded"]
        self.assertEqual(len(shed), 3, "one served, four wait, three are shed")
        for reply in shed:
            self.assertLess(reply.took_ms(), 250)
            self.assertRegex(reply.header("retry-after"), r"^[1-9][0-9]*$")

    def test_work_is_spread_over_the_replicas(self):
        self.load(150)
        answered = self.ask_at_once(4, "pair", 0.005)
        self.assertEqual([reply.status for _, reply in answered], [200] * 4)
        self.assertEqual([len(script.requests) for script in self.scripts.values()], [2, 2])
        self.assertLessEqual(max(script.most_at_once for script in self.scripts.values()), 2)

    def test_a_queue_holds_up_its_own_model_alone(self):
        self.load(SERVE_MS)
        thread = threading.Thread(target=self.ask_at_once, args=(3, "single", 0.01))
        thread.start()
        wait_until(lambda: self.scripts["s1"].requests, 3)
        self.scripts["s2"].replies[0]["delay_ms"] = 0
        began = time.monotonic()
        self.assertEqual(self.ask(self.h1(), chat()).status, 200)
        self.assertLess(time.monotonic() - began, 0.25 + SERVE_MS / 1000)
        thread.join()

    def test_the_row_tells_how_long_it_waited(self):
        self.load(200)
        threads = [threading.Thread(target=self.ask, args=(self.h1(), chat("a", "single")))]
        threads[0].start()
        wait_until(lambda: self.scripts["s1"].requests, 3)
        _, row = self.ask_row(self.h1(), chat("b", "single"))
        threads[0].join()
        self.assertTrue(100_000 < row["queue_us"] < 400_000, row["queue_us"])
        self.assertGreaterEqual(row["sent_us"], row["admitted_us"] + row["queue_us"] - 2000)

    def test_slots_come_back_after_every_kind_of_ending(self):
        endings = [{"json": {}}, {"status": 500, "json": {}}, {"status": 400, "json": {}},
                   {"status": 0, "end": "rst"}, {"json": {}, "content_length": 99, "end": "fin"},
                   {"framing": "raw", "writes": ["no http\r\n\r\n"]},
                   {"writes": ["data: {}\n\n"], "end": "rst"}]
        for reply in endings:
            for stream in (False, True):
                with self.subTest(reply=str(reply), stream=stream):
                    self.load()
                    self.servers["s1"].load(Script([reply], repeat_last=True))
                    self.ask(self.h1(), chat("x", "single", stream=stream), timeout=5)
        self.load(0)
        for _ in range(3):
            self.assertEqual(self.ask(self.h1(), chat("x", "single")).status, 200)
        replicas = self.gateway.admin("/replicas").text()
        self.assertIn("s1", replicas)

    def test_more_slots_by_reload_let_the_waiting_in(self):
        self.load(400)
        threads = [threading.Thread(target=self.ask, args=(self.h1(), chat("a", "single")))
                   for _ in range(3)]
        for thread in threads:
            thread.start()
        wait_until(lambda: self.scripts["s1"].requests, 3)
        wider = json.loads(json.dumps(self.gateway.config))
        wider["models"]["single"]["replicas"][0]["slots"] = 3
        self.gateway.write_config(wider)
        try:
            self.assertEqual(self.gateway.admin("/reload", "POST").status, 200)
            self.assertTrue(wait_until(lambda: self.scripts["s1"].most_at_once == 3, 0.35),
                            self.scripts["s1"].most_at_once)
        finally:
            for thread in threads:
                thread.join()
            self.gateway.write_config(self.gateway.config)
            self.gateway.admin("/reload", "POST")

    def test_a_leaver_frees_its_place(self):
        self.load(SERVE_MS)
        holder = threading.Thread(target=self.ask, args=(self.h1(), chat("holder", "single")))
        holder.start()
        wait_until(lambda: self.scripts["s1"].requests, 3)
        leavers = [self.h1() for _ in range(4)]
        for conn in leavers:
            conn.request("POST", "/v1/chat/completions", harness.bearer(KEY),
                         chat("leaver", "single"), 0.02)
            conn.close()
        reply = self.ask(self.h2(), chat("last", "single"))
        self.assertEqual(reply.status, 200, "the queue of four was full of leavers")
        holder.join()
        bodies = b"".join(request.body for request in self.scripts["s1"].requests)
        self.assertNotIn(b"leaver", bodies)
