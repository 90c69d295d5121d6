# SPDX-License-Identifier: Apache-2.0
"""What the bill says when servers, tenants and their questions do their worst.

For:       usage that says half or the impossible; names that are no text; moments far away; prices
           that end; too few descriptors.
"""

import datetime
import json
import pathlib
import re
import resource
import subprocess
import tempfile
import time
import unittest

import harness
from harness import ENVIRONMENT, KEY, GatewayTest, bearer, chat, model, tenants, wait_until
from test_attack_on_bounds_and_memory import RawServer, read_request, whole

USAGE = "/v1/organization/usage/completions"
TEXT = "hello there, my friend"


def answer(usage):
    choice = {"index": 0, "finish_reason": "stop",
              "message": {"role": "assistant", "content": TEXT}}
    return whole(json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m",
                             "choices": [choice], "usage": usage}).encode())


def stream(usage):
    events = [{"choices": [{"index": 0, "delta": {"content": word}}]} for word in TEXT.split()]
    events.append({"choices": [], "usage": usage})
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
    body = "".join(lines).encode()
    return (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: %d\r\n\r\n"
            % len(body)) + body


class Billing(GatewayTest):
    FAKES = ()

    @classmethod
    def configure(cls):
        def behave(conn):
            while read_request(conn):
                conn.sendall(cls.server.reply)
        cls.server = RawServer()
        cls.server.behave = behave
        cls.addClassCleanup(cls.server.close)
        home = pathlib.Path(cls.holder.name)
        return {
            "models": {"small": model(("s1", cls.server.port), price=harness.price("1", "4"))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "health": {"out_after": 1000, "check_every": "0s"},
            "meter": {"journal": str(home / "rows"), "ledger": f"sqlite:{home / 'ledger.db'}"},
        }

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gateway.journal = pathlib.Path(cls.holder.name) / "rows"

    def rows_of(self, usage):
        """The row of a plain answer with this usage, and that of a stream."""
        for reply, streams in ((answer(usage), False), (stream(usage), True)):
            self.server.reply = reply
            got, row = self.ask_row(self.h1(), chat(TEXT, stream=streams))
            self.assertEqual((got.status, row["billable"]), (200, True))
            yield row
            self.assertEqual(int(row["cost_pusd"]),
                             1_000_000 * row["input"] + 4_000_000 * row["output"])

    def test_what_a_server_leaves_out_is_estimated_and_not_given_away(self):
        for usage, said, left_out in (({"prompt_tokens": 9}, ("input", 9), "output"),
                                      ({"completion_tokens": 9}, ("output", 9), "input"),
                                      ({"prompt_tokens": 9, "completion_tokens": None},
                                       ("input", 9), "output")):
            for row in self.rows_of(usage):
                with self.subTest(usage=usage, endpoint=row.get("stream")):
                    self.assertEqual(row["source"], "estimated")
                    self.assertEqual(row[said[0]], said[1])
                    self.assertGreater(row[left_out], 0)
                    self.assertLessEqual(row[left_out], len(TEXT))

    def test_vectors_have_no_output_to_estimate(self):
        self.server.reply = whole(b'{"object":"list","data":[],"usage":{"prompt_tokens":5}}')
        body = json.dumps({"model": "small", "input": "hello"}).encode()
        _, row = self.ask_row(self.h1(), body, path="/v1/embeddings")
        self.assertEqual((row["source"], row["input"]), ("reported", 5))
        self.assertNotIn("output", row)

    def test_more_than_any_call_can_have_is_charged_and_flagged(self):
        for tokens, suspect in ((2 ** 31 - 1, False), (2 ** 31, True), (2 ** 40, True)):
            for row in self.rows_of({"prompt_tokens": tokens, "completion_tokens": 1,
                                     "total_tokens": tokens + 1}):
                with self.subTest(tokens=tokens):
                    self.assertEqual((row["input"], row["output"]), (tokens, 1))
                    self.assertEqual("usage_suspect" in row.get("flags", ()), suspect)

    def test_sums_past_64_bits_are_reported(self):
        most = 2 ** 53
        self.server.reply = answer({"prompt_tokens": most, "completion_tokens": 0,
                                    "total_tokens": most})
        conn = self.h1()
        before = len(self.gateway.calls())
        for _ in range(1025):
            got = conn.request("POST", "/v1/chat/completions", bearer(KEY), chat(TEXT))
            self.assertEqual(got.status, 200)
        conn.close()
        self.assertTrue(wait_until(lambda: len(self.gateway.calls()) >= before + 1025, 20))
        for arguments in (("usage", "--json"), ("usage",), ("ledger", "feed")):
            code, said = self.run_command(*arguments)
            self.assertEqual(code, 0, said)
            found = [int(number) for number in re.findall(r"\d{19,}", said)]
            self.assertTrue(found and max(found) >= 1025 * most, said)
        reply = self.h1().request("GET", f"{USAGE}?start_time=1&bucket_width=1d&limit=31",
                                  bearer(KEY))
        self.assertLess(reply.status, 500, reply.body)

    def test_what_cannot_be_a_count_is_estimated_and_flagged(self):
        for tokens in (2 ** 53 + 1, 2 ** 63, 10 ** 40, "12", {"prompt_tokens": 7}, [7], True):
            for row in self.rows_of({"prompt_tokens": tokens, "completion_tokens": 3}):
                with self.subTest(tokens=tokens):
                    self.assertEqual((row["source"], row["output"]), ("estimated", 3))
                    self.assertIn(row["input"], range(1, len(TEXT) + 20))
                    self.assertIn("usage_suspect", row["flags"])

    def test_an_error_is_text_whatever_the_parameters_name_is(self):
        for name in ("%ff", "%c3", "a%0a", "%22%5c"):
            reply = self.h1().request("GET", f"{USAGE}?start_time=1&{name}=1", bearer(KEY))
            self.assert_error(reply, 400)
            bytes(reply.body).decode("utf-8")

    def run_command(self, *arguments):
        done = subprocess.run([harness.TOLLGATE, *arguments, "--config", self.gateway.config_path],
                              env=ENVIRONMENT, capture_output=True, timeout=60)
        return done.returncode, done.stdout.decode() + done.stderr.decode()

    def test_a_charge_of_any_month_is_in_the_audit_s_sums(self):
        for at, status in (("9999-12-31", 0), ("1970-01-01", 0), ("2150-06-01", 0),
                           ("1969-12-31", 1), ("9223372036854", 1)):
            code, said = self.run_command("adjust", "--tenant", "acme", "--at", at, "--usd", "1",
                                          "--by", "anna", "--why", "a test", "--amend")
            self.assertEqual(code, status, (at, said))
        code, said = self.run_command("audit")
        self.assertEqual(code, 0, said)
        self.assertIn("3 adjusts", said)


class AStartWithFewDescriptors(unittest.TestCase):
    def test_it_says_what_it_could_not_open(self):
        """Its limit is raised by one until it starts."""
        with tempfile.TemporaryDirectory(prefix="tollgate-test-") as home:
            path = pathlib.Path(home) / "tollgate.yaml"
            path.write_text(json.dumps({
                "listen": [{"address": "127.0.0.1:0"}], "workers": 2,
                "meter": {"journal": f"{home}/rows", "ledger": f"sqlite:{home}/ledger.db"},
                "models": {"small": model(("s1", 1))},
                "classes": [{"name": "default", "match": {}}], "tenants": tenants()}))
            for most in range(5, 40):
                with open(f"{home}/output", "w+b") as output:
                    child = subprocess.Popen(
                        [harness.TOLLGATE, "serve", "--config", str(path)], env=ENVIRONMENT,
                        stdout=output, stderr=subprocess.STDOUT, preexec_fn=lambda: (
                            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))))
                    said = lambda: pathlib.Path(f"{home}/output").read_text()
                    started = lambda: '"event":"ready"' in said()
                    harness.wait_until(lambda: started() or child.poll() is not None, 10)
                    if child.poll() is None:
                        child.terminate()
                        self.assertEqual(child.wait(10), 0, said())
                        return
                    self.assertIn('"level":"error"', said(), f"{most} descriptors")
            self.fail("it has not started")


class APriceThatEnds(GatewayTest):
    FAKES = (("s1", ()),)

    @classmethod
    def configure(cls):
        cls.ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=3)
        port = cls.fakes["s1"].port
        ending = [dict(harness.price()[0], until=cls.ends.strftime("%Y-%m-%dT%H:%M:%SZ"))]
        return {
            "models": {"small": model(("s1", port), price=ending),
                       "with-more": model(("s2", port), price=ending, fallback=["large"]),
                       "large": model(("s3", port))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
        }

    def test_its_model_is_refused_from_then_on_and_not_served_for_nothing(self):
        conn = self.h1()
        _, row = self.ask_row(conn, chat())
        self.assertGreater(int(row["cost_pusd"]), 0)
        left = self.ends - datetime.datetime.now(datetime.timezone.utc)
        time.sleep(max(0.0, left.total_seconds()) + 0.05)
        self.assert_error(self.ask(conn, chat()), 503)
        _, row = self.ask_row(conn, chat(model_name="with-more"))
        self.assertEqual(row["model"], "large")
        self.assertGreater(int(row["cost_pusd"]), 0)
        self.assertEqual(len(self.gateway.calls()), 2)
