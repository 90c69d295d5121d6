# SPDX-License-Identifier: Apache-2.0
"""What an ask would cost, asked before it is made.

For:       POST /v1/quote: its numbers by hand, its errors, that it costs nothing and asks nobody;
           and that no ask is ever billed more than its quote says at most, for random asks on every
           endpoint against the simulated servers' own counts.
"""

import decimal
import json
import random

import harness
from harness import GatewayTest, bearer, chat, model
from test_every_endpoint import ENDPOINTS, form

SEED = 20260401
ROUNDS = 200
DOLLAR = 10 ** 12

PRICES = [{"from": "2026-01-01", "input": "0.05", "cached_input": "0.0125", "output": "0.20",
           "brackets": [{"above": 300, "input": "0.10", "output": "0.40"}],
           "tiers": {"flex": "0.5", "priority": "2"}}]
WORDS = ("a", "toll", "gate", "é", "漢字", "\n\t\"\\", "🙂", "x" * 40, "", "1,2", "\u0001")


def pusd(usd):
    """Decimal text to whole picodollars."""
    amount = decimal.Decimal(usd) * DOLLAR
    assert amount == int(amount), usd
    return int(amount)


class Quote(GatewayTest):
    FAKES = (("s1", ("--kind", "vllm")), ("l1", ("--kind", "vllm")), ("a1", ("--kind", "vllm")))

    @classmethod
    def configure(cls):
        models = {
            "small": model(("s1", cls.fakes["s1"].port), price=PRICES,
                           part_tokens={"image": 200, "audio": 100000}),
            "large": model(("l1", cls.fakes["l1"].port),
                           price=harness.price("5", "25", "0.5"), fallback=["small"],
                           part_tokens={"image": 200}),
            # As the simulated server counts: nothing of its own but for images.
            "tight": model(("s1", cls.fakes["s1"].port), price=PRICES, upstream_model="small",
                           part_tokens={"image": 100},
                           template_tokens={"fixed": 0, "per_message": 0, "per_tool": 0,
                                            "schema": "100%"}),
            "taught": model(("l1", cls.fakes["l1"].port), upstream_model="large"),
            "open": model(("a1", cls.fakes["a1"].port), upstream_model="small"),
        }
        for key in ("context", "output"):
            del models["open"][key]
        return {"models": models,
                "classes": [{"name": "big", "match": {"tools": True}, "model": "large"},
                            {"name": "default", "match": {}}],
                "tenants": harness.tenants(globex={"models": ["large"]})}

    def quote(self, body, endpoint=None, conn=None, headers=(), **more):
        path = "/v1/quote" + (f"?endpoint={endpoint}" if endpoint else "")
        reply = self.ask(conn or self.h1(), body, headers, path=path, **more)
        if reply.status == 200:
            return reply.json()
        return reply

    def test_the_numbers_are_those_worked_out_by_hand(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                found = self.quote(chat("hello", max_tokens=10), conn=conn)
                # 5 bytes, 64 tokens of the template and 16 of the message; 10 asked for.
                self.assertEqual(found["most"], {"input_tokens": 85, "output_tokens": 10,
                                                 "usd": "0.00000625"})
                self.assertEqual((found["object"], found["endpoint"], found["model"]),
                                 ("quote", "chat", "small"))
                self.assertLessEqual(found["probable"]["output_tokens"], 10)
                self.assertLessEqual(found["probable"]["input_tokens"], 85)
                self.assertNotIn("unbounded_by", found)
                rates = found["price"]
                self.assertEqual((rates["input"], rates["cached_input"], rates["output"]),
                                 ("0.05", "0.0125", "0.2"))
                self.assertEqual(rates["from"], 1767225600000000)

    def test_a_quote_is_free_asks_nobody_and_writes_no_row(self):
        rows, posts = len(self.gateway.rows()), self.fake_posts()
        for _ in range(5):
            self.assertEqual(self.quote(chat("hello"))["model"], "small")
        reply, row = self.ask_row(self.h1(), chat("hello"))
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(row["endpoint"], "chat")
        self.assertEqual(len(self.gateway.rows()), rows + 1)
        self.assertEqual(self.fake_posts(), posts + 1)

    def test_the_tier_is_in_the_quote_and_in_the_bill(self):
        costs = {}
        for tier in ("flex", "default", "priority"):
            body = chat("hello [[fake tokens=7]]", max_tokens=10, service_tier=tier)
            costs[tier] = pusd(self.quote(body)["most"]["usd"])
            reply, row = self.ask_row(self.h1(), body)
            self.assertEqual(reply.status, 200, reply)
            self.assertEqual(row.get("tier", "standard"),
                             "standard" if tier == "default" else tier)
            self.assertLessEqual(int(row["cost_pusd"]), costs[tier])
        self.assertEqual(costs["flex"] * 2, costs["default"])
        self.assertEqual(costs["priority"], costs["default"] * 2)

    def test_class_and_fallback_choose_the_candidates(self):
        found = self.quote(chat("hello", "large", max_tokens=1))
        self.assertEqual([each["model"] for each in found["candidates"]], ["large", "small"])
        self.assertEqual(found["model"], "large")
        self.assertGreater(pusd(found["candidates"][0]["most"]["usd"]),
                           pusd(found["candidates"][1]["most"]["usd"]))
        found = self.quote(chat("hello", "small", tools=[{"type": "function",
                                                          "function": {"name": "f"}}]))
        self.assertEqual((found["class"], found["model"]), ("big", "large"))
        found = self.quote(chat("hello", "auto"))
        self.assertEqual(found["model"], "small")

    def test_what_has_no_bound_says_why_and_has_an_estimate(self):
        found = self.quote(chat("hello", "open"))
        self.assertIsNone(found["most"])
        self.assertIn("output", found["unbounded_by"])
        self.assertGreater(found["probable"]["output_tokens"], 0)
        self.assertEqual(self.quote(chat("hello", "open", max_tokens=3))
                         ["most"]["output_tokens"], 3)
        picture = {"role": "user", "content": [{"type": "image_url", "image_url": {
            "url": "data:image/png;base64,AAAA"}}]}
        body = json.dumps({"model": "open", "max_tokens": 3, "messages": [picture]}).encode()
        self.assertIn("part_tokens", self.quote(body)["unbounded_by"])
        # OpenAI's default where no limit is said.
        body = json.dumps({"model": "open", "prompt": "hello", "n": 2}).encode()
        self.assertEqual(self.quote(body, "completions")["most"]["output_tokens"], 32)

    def test_forms_are_quoted_as_forms(self):
        body = form([("model", "small"), ("file", ("a.wav", b"RIFF" * 100))])
        found = self.quote(body, "transcriptions",
                           headers={"Content-Type": "multipart/form-data; boundary=edge-of-part"})
        self.assertEqual(found["most"]["input_tokens"], 32768)  # the context, not 100,000

    def test_errors_are_those_of_every_endpoint(self):
        conn = self.h1()
        self.assert_error(self.quote(chat("hello"), "nonsense"), 400, "bad_value")
        self.assert_error(self.quote(chat("hello"), "tokenize"), 400, "bad_value")
        self.assert_error(self.quote(chat("hello"), "quote"), 400, "bad_value")
        self.assert_error(self.quote(chat("hello", "nobody")), 404, "model_not_found")
        self.assert_error(self.quote(b"{"), 400, "bad_json")
        self.assert_error(self.quote(chat("hello"), key="sk-wrong"), 401, "invalid_api_key")
        self.assert_error(self.quote(chat("hello"), key=harness.KEY_OTHER), 404, "model_not_found")
        self.assert_error(self.quote(chat("hello", priority=1)), 400, "field_not_allowed")
        self.assert_error(conn.request("GET", "/v1/quote", bearer(harness.KEY), None), 405,
                          "method_not_allowed")
        reply = self.quote(json.dumps({"model": "small", "messages": []}).encode(), "messages")
        self.assertEqual((reply.status, reply.json()["type"]), (400, "error"))
        self.assertEqual(self.quote(chat("hello"), "chat&x=1")["endpoint"], "chat")

    # ---- the bound holds ----

    def text(self, words=12):
        return " ".join(self.dice.choice(WORDS) for _ in range(self.dice.randrange(words)))

    def ids(self):
        return [self.dice.randrange(130000) for _ in range(1 + self.dice.randrange(200))]

    def content(self):
        parts = []
        for _ in range(self.dice.randrange(4)):
            parts.append({"type": "text", "text": self.text()} if self.dice.random() < 0.6 else
                         {"type": "image_url",
                          "image_url": {"url": "data:image/png;base64,AAAA"}})
        return self.text() if self.dice.random() < 0.5 else parts

    def messages(self):
        return [{"role": self.dice.choice(("system", "user", "assistant")),
                 "content": self.content()} for _ in range(1 + self.dice.randrange(5))]

    def random_ask(self):
        """Endpoint, path, members."""
        dice = self.dice
        steer = f"[[fake tokens={dice.randrange(1, 60)} cached={dice.randrange(9)}" \
                f" reasoning={dice.randrange(5)}]]"
        kind = dice.choice(("chat", "chat", "completions", "responses", "messages", "embeddings",
                            "rerank", "score"))
        members = {"model": "tight"}
        if kind in ("chat", "messages"):
            members["messages"] = self.messages() + [{"role": "user", "content": steer}]
            if kind == "chat" and dice.random() < 0.3:
                members["tools"] = [{"type": "function", "function": {
                    "name": "f", "description": self.text(), "parameters": {}}}]
        elif kind == "completions":
            members["prompt"] = dice.choice((
                steer + self.text(), [self.text() + "x" for _ in range(3)], self.ids(),
                [self.ids() for _ in range(2)]))
        elif kind == "responses":
            members["input"] = steer + self.text()
            members["instructions"] = self.text()
        elif kind == "embeddings":
            members["input"] = dice.choice((self.text() + "x", ["one", self.text() + "x"],
                                            self.ids(), [self.ids(), self.ids()]))
        else:
            first, second = {"rerank": ("query", "documents"),
                             "score": ("text_1", "text_2")}[kind]
            members[first] = self.text() + "q"
            members[second] = [self.text() + "d" for _ in range(1 + dice.randrange(5))]
        limit = {"chat": "max_completion_tokens", "completions": "max_tokens",
                 "responses": "max_output_tokens", "messages": "max_tokens"}.get(kind)
        if limit and (kind == "messages" or dice.random() < 0.7):
            members[limit] = dice.randrange(1, 50)
        if kind in ("chat", "completions") and dice.random() < 0.4:
            members["n"] = dice.randrange(1, 4)
        if kind in ("chat", "completions", "responses", "messages"):
            members["stream"] = dice.random() < 0.4
        if kind in ("chat", "completions") and dice.random() < 0.3:
            members["service_tier"] = dice.choice(("flex", "priority", "auto"))
        return kind, members

    def test_no_ask_is_billed_more_than_its_quote(self):
        self.dice = random.Random(SEED)
        conn = self.h1()
        for number in range(ROUNDS):
            kind, members = self.random_ask()
            body = json.dumps(members, ensure_ascii=self.dice.random() < 0.5).encode()
            found = self.quote(body, kind, conn)
            with self.subTest(f"seed {SEED} round {number} {kind}"):
                self.assertIsInstance(found, dict, found)
                reply, row = self.ask_row(conn, body, path=ENDPOINTS[kind][0])
                self.assertEqual(reply.status, 200, f"{members} {reply}")
                most = next(each for each in found["candidates"]
                            if each["model"] == row["model"])["most"]
                prompt = sum(row.get(name, 0) for name in ("input", "cached_input", "cache_write"))
                answer = row.get("output", 0) + row.get("reasoning", 0)
                self.assertLessEqual(prompt, most["input_tokens"], members)
                self.assertLessEqual(answer, most["output_tokens"], members)
                self.assertLessEqual(int(row["cost_pusd"]), pusd(most["usd"]), members)
                self.assertEqual(row["source"], "reported")
                served = self.fakes["l1" if row["model"] == "large" else "s1"].served_as(
                    row["exchange_id"])
                self.assertLessEqual(served["prompt_tokens"], most["input_tokens"], members)
                self.assertLessEqual(served["generated"], most["output_tokens"], members)

    def test_an_estimate_is_never_above_the_quote(self):
        """A model whose servers were seen to put many tokens into an event, and then say nothing."""
        conn = self.h1()
        for _ in range(80):
            self.ask(conn, chat("[[fake tokens=40 per_event=8]]", "small", stream=True))
        body = chat("[[fake tokens=20 no_usage=1]]", "small", stream=True, max_tokens=20)
        most = self.quote(body)["most"]
        reply, row = self.ask_row(conn, body)
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(row["source"], "estimated")
        self.assertEqual(row["output"], most["output_tokens"])
        self.assertLessEqual(int(row["cost_pusd"]), pusd(most["usd"]))

    def test_what_is_probable_comes_to_what_is_usual(self):
        body = chat("x" * 400 + "[[fake tokens=20]]", "taught", max_tokens=500)
        self.assertIsNone(self.quote(chat("hello", "taught"))["estimate_error"]["input"])
        conn = self.h1()
        for _ in range(60):
            self.assertEqual(self.ask(conn, body).status, 200)
        found = self.quote(body)
        usage = self.ask(conn, body).json()["usage"]
        self.assertEqual(found["probable"]["output_tokens"], usage["completion_tokens"])
        self.assertAlmostEqual(found["probable"]["input_tokens"], usage["prompt_tokens"], delta=8)
        self.assertGreaterEqual(found["estimate_error"]["input"], 0)
        self.assertLess(found["estimate_error"]["output"], 1000)
