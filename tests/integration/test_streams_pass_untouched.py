# SPDX-License-Identifier: Apache-2.0
"""A stream reaches the client byte for byte, but for what the client did not ask for.

For:       identical bytes, usage asked for and cut out, every split, errors in the middle, sizes.
"""

import base64
import json
import zlib

import harness
from harness import GatewayTest, Sse, chat, model, tenants
from upstream import Script, Upstream


def event(content, usage=None, **more):
    """One event as a vLLM server writes it."""
    whole = {"id": "chatcmpl-9", "object": "chat.completion.chunk", "created": 1, "model": "m",
             "choices": [{"index": 0, "delta": {"content": content}, "finish_reason": None}]}
    whole.update(more)
    if usage:
        whole["usage"] = usage
    return "data: " + json.dumps(whole, ensure_ascii=False) + "\n\n"


def usage(output, prompt=11):
    return {"prompt_tokens": prompt, "total_tokens": prompt + output, "completion_tokens": output}


LAST = event("", usage(3), choices=[])
DONE = "data: [DONE]\n\n"
RUNNING = [event("na\u00efve ", usage(1)), ": ping\n\n", event("\u65e5\u672c", usage(2)),
           "event: message\nid: 4\n" + event("\U0001f680 end", usage(3)), "retry: 10\n\n"]
WITHOUT_USAGE = [event("na\u00efve "), ": ping\n\n", event("\u65e5\u672c"),
                 "event: message\nid: 4\n" + event("\U0001f680 end"), "retry: 10\n\n"]
ALL_USAGE = {"include_usage": True, "continuous_usage_stats": True}


class StreamsPassUntouched(GatewayTest):
    FAKES = (("l1", ()),)

    @classmethod
    def configure(cls):
        cls.server = Upstream()
        cls.addClassCleanup(cls.server.close)
        return {
            "models": {"small": model(("s1", cls.server.port)),
                       "open": model(("o1", cls.server.port), kind="openai"),
                       "large": model(("l1", cls.fakes["l1"].port))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "limits": {"event_bytes": "64KiB"},
        }

    def load(self, *writes, **more):
        self.script = Script([dict({"writes": list(writes)}, **more)], repeat_last=True)
        self.server.load(self.script)

    def stream(self, conn, options=None, model_name="small"):
        more = {} if options is None else {"stream_options": options}
        return self.ask_row(conn, chat("s", model_name, stream=True, **more))

    def test_all_bytes_pass_when_the_client_asked_for_all_usage(self):
        text = "".join(RUNNING) + LAST + DONE
        for protocol, conn in self.clients():
            for split in (None, 1, 7, 64):
                with self.subTest(protocol=protocol, split=split):
                    self.load(text, **({"wire_split": split} if split else {}))
                    reply, row = self.stream(conn, ALL_USAGE)
                    self.assertTrue(reply.complete, reply)
                    self.assertEqual(bytes(reply.body).decode(), text)
                    self.assertEqual((row["input"], row["output"]), (11, 3))

    def test_only_usage_is_cut_out_for_a_client_that_did_not_ask(self):
        for protocol, conn in self.clients():
            for split in (None, 1, 13):
                with self.subTest(protocol=protocol, split=split):
                    self.load("".join(RUNNING) + LAST + DONE,
                              **({"wire_split": split} if split else {}))
                    reply, row = self.stream(conn)
                    seen = Sse(reply.body)
                    self.assertIsNone(seen.usage())
                    self.assertNotIn(b'"usage"', reply.body)
                    self.assertEqual(seen.text(), "na\u00efve \u65e5\u672c\U0001f680 end")
                    self.assertEqual([entry["choices"] for entry in seen.data if not
                                      entry["choices"]], [])
                    self.assertTrue(seen.done)
                    self.assertEqual((row["input"], row["output"], row["source"] in
                                      ("running", "reported")), (11, 3, True))
                    expected = "".join(WITHOUT_USAGE) + DONE
                    self.assertEqual(bytes(reply.body).decode(), expected)

    def test_the_last_usage_alone_is_left_when_only_that_was_asked_for(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load("".join(RUNNING) + LAST + DONE)
                reply, _ = self.stream(conn, {"include_usage": True})
                seen = Sse(reply.body)
                shown = [entry for entry in seen.data if entry.get("usage")]
                self.assertEqual(len(shown), 1)
                self.assertEqual(shown[0]["choices"], [])
                self.assertEqual(shown[0]["usage"], usage(3))

    def test_usage_is_asked_for_in_the_way_of_each_kind(self):
        expected = {"small": {"include_usage": True, "continuous_usage_stats": True},
                    "open": {"include_usage": True}}
        for name, options in expected.items():
            for asked in (None, {}, {"include_usage": False}, {"include_obfuscation": False}):
                with self.subTest(model=name, asked=asked):
                    self.load(event("x"), LAST, DONE)
                    self.stream(self.h1(), asked, name)
                    sent = json.loads(self.script.requests[-1].body)["stream_options"]
                    self.assertEqual(sent, dict(asked or {}, **options))

    def test_a_plain_answer_passes_byte_for_byte(self):
        text = ('{"id" : "x",\n "choices":[{"message":{"content":"\\u00e9"}}],\t"n":1.50,'
                '"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}\n')
        for framing in ("length", "chunked", "close"):
            for protocol, conn in self.clients():
                with self.subTest(protocol=protocol, framing=framing):
                    self.load(text, framing=framing, headers={"content-type": "application/json"})
                    reply, row = self.ask_row(conn, chat())
                    self.assertEqual((bytes(reply.body), reply.complete), (text.encode(), True))
                    self.assertEqual((row["input"], row["output"]), (4, 2))

    def test_a_large_plain_answer_passes_whole(self):
        big = {"id": "x", "choices": [{"message": {"content": "y" * 3_000_000}}],
               "usage": {"prompt_tokens": 4, "completion_tokens": 2}}
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.server.load(Script([{"json": big}]))
                reply, row = self.ask_row(conn, chat())
                self.assertEqual(reply.json(), big)
                self.assertEqual(row["output"], 2)
                self.assertGreater(row["bytes_out"], 3_000_000)

    def test_an_error_event_of_the_server_passes_and_is_no_success(self):
        text = (event("par", usage(1)) + 'data: {"error":{"message":"engine","type":"E",'
                '"param":null,"code":500}}\n\n' + DONE)
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load(text)
                reply, row = self.stream(conn)
                self.assertEqual(Sse(reply.body).error()["message"], "engine")
                self.assertEqual(row["outcome"], "replica_error")

    def test_a_cut_stream_ends_in_an_error_event_and_broken_framing(self):
        half = 'data: {"id":"chatcmpl-9","cho'
        for end in ("fin", "rst"):
            for protocol, conn in self.clients():
                with self.subTest(protocol=protocol, end=end):
                    self.load(event("whole", usage(1)), {"text": half, "delay_ms": 50}, end=end)
                    reply, row = self.stream(conn)
                    seen = Sse(reply.body)
                    self.assertEqual(reply.status, 200)
                    self.assertFalse(reply.complete, "it must not look like a good end")
                    self.assertEqual(set(seen.error()), {"message", "type", "param", "code"})
                    self.assertFalse(seen.done)
                    self.assertEqual(seen.text(), "whole")
                    self.assertNotIn(b'"cho\n', reply.body)
                    self.assertEqual(seen.rest, "")
                    self.assertEqual((row["outcome"], row["output"]), ("replica_error", 1))
                    if protocol == "h2":
                        self.assertIsNotNone(reply.reset_code)

    def test_a_stream_that_ends_cleanly_without_done_is_visibly_cut(self):
        """A whole chunked body that lacks [DONE] is the server's failure, not a short answer."""
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load(event("part", usage(1)), end="fin", terminate=True)
                reply, _ = self.stream(conn)
                self.assertFalse(reply.complete and Sse(reply.body).error() is None)

    def test_an_event_over_the_limit_ends_the_stream_with_an_error(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load(event("ok", usage(1)), event("x" * 70000), DONE)
                reply, row = self.stream(conn)
                self.assertEqual(Sse(reply.body).error()["code"], "event_too_large")
                self.assertFalse(reply.complete)
                self.assertEqual(row["output"], 1)
                self.load(event("x" * 60000, usage(1)), LAST, DONE)
                self.assertTrue(self.stream(self.h1())[0].complete)

    def test_events_are_passed_on_at_once(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load(event("a"), {"text": event("b"), "delay_ms": 300},
                          {"text": LAST + DONE, "delay_ms": 300})
                reply, _ = self.stream(conn)
                times = [when for when, _ in reply.arrivals]
                self.assertGreater(times[-1] - times[0], 0.5)

    def test_a_compressed_stream_is_metered_and_fits_its_head(self):
        for accept in ("gzip", "identity"):
            for protocol, conn in self.clients():
                with self.subTest(protocol=protocol, accept=accept):
                    self.load(*RUNNING, LAST, DONE, gzip=True)
                    request_id = harness.new_id()
                    reply = self.ask(conn, chat(stream=True, stream_options=ALL_USAGE),
                                     {"accept-encoding": accept, "x-request-id": request_id})
                    self.assertEqual(reply.decoded().decode(), "".join(RUNNING) + LAST + DONE)
                    if accept == "identity":
                        self.assertIsNone(reply.header("content-encoding"))
                    row = self.gateway.row_of(request_id)
                    self.assertEqual(row["output"], 3)

    def test_a_decompression_bomb_is_bounded(self):
        packer = zlib.compressobj(9, wbits=zlib.MAX_WBITS | 16)
        data = packer.compress(b"data: " + b"x" * 50_000_000) + packer.flush()
        before_kib = self.gateway.resident_kib()
        self.load({"b64": base64.b64encode(data).decode()},
                  headers={"content-type": "text/event-stream", "content-encoding": "gzip"})
        reply = self.ask(self.h1(), chat(stream=True), {"accept-encoding": "identity"})
        self.assertFalse(reply.complete and reply.status == 200 and not Sse(reply.body).error())
        self.assertLess(self.gateway.resident_kib() - before_kib, harness.MEMORY_SLACK_KIB)

    def test_usage_in_all_its_shapes_is_read(self):
        shapes = [
            ({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15,
              "prompt_tokens_details": {"cached_tokens": 4},
              "completion_tokens_details": {"reasoning_tokens": 2}},
             {"input": 6, "cached_input": 4, "output": 3, "reasoning": 2}),
            ({"prompt_tokens": 10, "completion_tokens": 0, "total_tokens": 10,
              "prompt_tokens_details": None}, {"input": 10, "output": 0}),
            ({"total_tokens": 3, "completion_tokens": 1, "prompt_tokens": 2},
             {"input": 2, "output": 1}),
        ]
        for shape, expected in shapes:
            with self.subTest(str(shape)):
                self.server.load(Script([{"json": {"choices": [], "usage": shape}}]))
                _, row = self.ask_row(self.h1(), chat())
                for name, count in expected.items():
                    self.assertEqual(row.get(name, 0), count, name)
                self.assertIn(row["source"], ("reported", "running"))

    def test_usage_that_contradicts_itself_is_flagged(self):
        shape = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4,
                 "prompt_tokens_details": {"cached_tokens": 9}}
        self.server.load(Script([{"json": {"choices": [], "usage": shape}}]))
        _, row = self.ask_row(self.h1(), chat())
        self.assertIn("usage_suspect", row["flags"])
        self.assertGreaterEqual(row.get("input", 0), 0)

    def test_no_usage_at_all_is_estimated_and_says_so(self):
        for protocol, conn in self.clients():
            with self.subTest(protocol):
                self.load(event("some words here"), event(" and more of them"), DONE)
                _, row = self.stream(conn)
                self.assertEqual(row["source"], "estimated")
                self.assertGreater(row["input"], 0)
                self.assertTrue(1 <= row["output"] <= 40, row)

    def test_a_stream_from_the_simulated_server_agrees_with_its_count(self):
        for members in ("tokens=50", "tokens=40 per_event=7", "tokens=20 split=3",
                        "tokens=10 no_usage=1", "tokens=30 gzip=1", "tokens=5 interim=1"):
            for protocol, conn in self.clients():
                with self.subTest(protocol=protocol, members=members):
                    reply, row = self.ask_row(conn, chat(f"[[fake {members}]]", "large",
                                                         stream=True))
                    self.assertTrue(reply.complete, reply)
                    entry = self.fakes["l1"].served_as(row["exchange_id"])
                    self.assertEqual(entry["ending"], "complete")
                    if "no_usage" in members:
                        self.assertEqual(row["source"], "estimated")
                    else:
                        self.assertEqual(row["output"], entry["generated"])

    def test_two_choices_are_summed_and_the_prompt_counts_once(self):
        _, row = self.ask_row(self.h1(), chat("[[fake tokens=8]]", "large", stream=True, n=2))
        entry = self.fakes["l1"].served_as(row["exchange_id"])
        self.assertEqual((row["output"], row["input"]),
                         (entry["generated"], entry["prompt_tokens"]))
        self.assertEqual(row["output"], 16)
