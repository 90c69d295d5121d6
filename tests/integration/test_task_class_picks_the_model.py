# SPDX-License-Identifier: Apache-2.0
"""A task class picks the model, and header, row and model server agree on what was done.

For:       classes by header, metadata and rule; the reply's x-tollgate-* headers, the journal row
           and the simulated server's own count name the same model, replica and tokens.
"""

import json

import harness
from harness import GatewayTest, Sse, chat, model, tenants

CODE_ASK = json.dumps({
    "model": "small",
    "messages": [{"role": "system", "content": "You write code in C."},
                 {"role": "user", "content": "a queue [[fake tokens=6]]"}],
    "tools": [{"type": "function", "function": {"name": "run", "parameters": {}}}],
}).encode()


class TaskClassPicksTheModel(GatewayTest):
    @classmethod
    def configure(cls):
        return {
            "models": {
                "small": model(("s1", cls.fakes["s1"].port), ("s2", cls.fakes["s2"].port),
                               upstream_model="vendor/small-1b"),
                "large": model(("l1", cls.fakes["l1"].port), aliases=["big", "org/big"]),
            },
            "classes": [
                {"name": "summarise", "match": {"header": {"x-task-class": "summarise"}},
                 "model": "small"},
                {"name": "code", "match": {"system_prompt": "*code*", "tools": True},
                 "model": "large"},
                {"name": "default", "match": {}},
            ],
            "tenants": tenants(),
        }

    def assert_agree(self, reply, row, model_name, class_name):
        """Reply headers, row and the server's log tell one story. Returns the log's entry."""
        self.assertEqual(reply.header("x-tollgate-model"), model_name)
        self.assertEqual(row["model"], model_name)
        self.assertEqual(reply.header("x-tollgate-class"), class_name)
        self.assertEqual(row["class"], class_name)
        self.assertEqual(reply.header("x-tollgate-replica"), row["replica"])
        self.assertTrue(reply.header("x-tollgate-why"))
        self.assertTrue(row["why"])
        self.assertEqual(reply.status, row["status"])
        entry = self.fakes[row["replica"]].served_as(row["exchange_id"])
        self.assertIsNotNone(entry, "the replica named in the row never saw this exchange")
        upstream_names = {"small": "vendor/small-1b", "large": "large"}
        self.assertEqual(entry["model"], upstream_names[model_name])
        return entry

    def assert_tokens(self, row, entry):
        self.assertEqual(row["input"] + row.get("cached_input", 0), entry["prompt_tokens"])
        self.assertEqual(row["output"] + row.get("reasoning", 0), entry["generated"])
        self.assertTrue(row["billable"])
        self.assertEqual(row["outcome"], "ok")

    def test_the_header_sends_a_summary_to_the_small_model(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                reply, row = self.ask_row(conn, chat("sum up [[fake tokens=5]]", "large"),
                                          {"x-task-class": "summarise"})
                self.assertEqual(reply.status, 200, reply)
                entry = self.assert_agree(reply, row, "small", "summarise")
                self.assert_tokens(row, entry)
                self.assertEqual(row["model_asked"], "large")
                self.assertEqual(reply.json()["usage"]["completion_tokens"], row["output"])

    def test_metadata_names_the_class_as_the_header_does(self):
        body = chat("sum up [[fake tokens=2]]", "large", metadata={"task_class": "summarise"})
        reply, row = self.ask_row(self.h1(), body)
        self.assert_agree(reply, row, "small", "summarise")

    def test_a_code_request_goes_to_the_large_model(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                reply, row = self.ask_row(conn, CODE_ASK)
                self.assertEqual(reply.status, 200, reply)
                self.assert_tokens(row, self.assert_agree(reply, row, "large", "code"))

    def test_a_code_prompt_without_tools_is_no_code_request(self):
        body = json.loads(CODE_ASK)
        del body["tools"]
        reply, row = self.ask_row(self.h1(), json.dumps(body).encode())
        self.assert_agree(reply, row, "small", "default")

    def test_a_class_without_a_model_leaves_the_model_asked(self):
        for asked, served in (("small", "small"), ("large", "large"), ("org/big", "large")):
            with self.subTest(asked):
                reply, row = self.ask_row(self.h1(), chat("[[fake tokens=2]]", asked))
                self.assert_agree(reply, row, served, "default")

    def test_a_stream_tells_the_same_story(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                body = chat("[[fake tokens=9 per_event=2]]", stream=True,
                            stream_options={"include_usage": True})
                reply, row = self.ask_row(conn, body)
                self.assertTrue(reply.complete, reply)
                self.assert_tokens(row, self.assert_agree(reply, row, "small", "default"))
                usage = Sse(reply.body).usage()
                self.assertEqual(usage["completion_tokens"], row["output"])
                self.assertEqual(row["output"], 9)
                self.assertTrue(row["stream"])

    def test_a_failed_request_costs_nothing_and_says_so(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                reply, row = self.ask_row(conn, chat("[[fake fail=400]]"))
                self.assertEqual(reply.status, 400)
                self.assert_agree(reply, row, "small", "default")
                self.assertFalse(row["billable"])
                self.assertEqual(int(row.get("cost_pusd", "0")), 0)

    def test_the_cost_is_tokens_times_price_in_picodollars(self):
        reply, row = self.ask_row(self.h1(), chat("[[fake tokens=100 cached=1]]"))
        self.assertEqual(reply.status, 200)
        cost = row["input"] * 50000 + row["cached_input"] * 12500 + row["output"] * 200000
        self.assertEqual(row["cached_input"], 1)
        self.assertEqual(row["cost_pusd"], str(cost))
        self.assertEqual(row["prices"]["output"], "200000")

    def test_the_row_has_the_fields_that_every_reader_needs(self):
        reply, row = self.ask_row(self.h1(), chat("[[fake tokens=3]]"))
        self.assertEqual(row["gateway"], "test")
        self.assertEqual((row["tenant"], row["key"], row["tags"]),
                         ("acme", "web", {"team": "search"}))
        self.assertIn(row["endpoint"], ("chat", "/v1/chat/completions", "chat/completions"))
        self.assertNotIn("stream", row)
        self.assertEqual(row["attempts"], 1)
        self.assertIn(row["source"], ("reported", "running"))
        times = [row[name] for name in ("admitted_us", "sent_us", "first_token_us", "ended_us")]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 1_600_000_000_000_000)
        self.assertGreater(row["bytes_in"], 0)
        self.assertGreaterEqual(row["bytes_out"], len(reply.body))

    def test_rows_are_numbered_without_a_gap(self):
        for _ in range(5):
            self.ask_row(self.h1(), chat("[[fake tokens=1]]"))
        numbers = [row["seq"] for row in self.gateway.rows()]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + len(numbers))))

    def test_a_cut_stream_bills_between_received_and_generated(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                request_id = harness.new_id()
                reply = self.ask(conn, chat("[[fake tokens=300 delay_ms=10]]", stream=True),
                                 {"x-request-id": request_id},
                                 on_data=lambda reply: reply.body.count(b"\n\n") < 12)
                conn.close()
                row = self.gateway.row_of(request_id)
                entry = self.fakes[row["replica"]].served_as(row["exchange_id"])
                received = sum(1 for event in Sse(reply.body).data
                               for choice in event.get("choices", [])
                               if choice["delta"].get("content"))
                self.assertGreater(received, 5)
                self.assertLessEqual(received, row["output"])
                self.assertLessEqual(row["output"], entry["generated"])
                self.assertLess(entry["generated"], 300)
                self.assertEqual(row["outcome"], "client_gone")
                self.assertTrue(row["billable"])

    def test_other_endpoints_are_metered_too(self):
        completion = json.dumps({"model": "small", "prompt": "once [[fake tokens=4]]",
                                 "max_tokens": 9}).encode()
        reply, row = self.ask_row(self.h1(), completion, path="/v1/completions")
        self.assert_tokens(row, self.assert_agree(reply, row, "small", "default"))
        embedding = json.dumps({"model": "small", "input": ["a b c", "d"]}).encode()
        reply, row = self.ask_row(self.h1(), embedding, path="/v1/embeddings")
        self.assertEqual(reply.status, 200, reply)
        entry = self.assert_agree(reply, row, "small", "default")
        self.assertEqual(row["input"], entry["prompt_tokens"])
        self.assertEqual(row.get("output", 0), 0)
