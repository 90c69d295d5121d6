# SPDX-License-Identifier: Apache-2.0
"""Messages and responses before servers that have chat completions alone.

For:       whole answers, streams, tools, errors, cuts and limits through the whole gateway; the
           rules of translation themselves are in the unit tests of translate_*.c.
"""

import json

import harness
from harness import GatewayTest, model

TOOL = {"name": "weather", "description": "now", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}


def named_events(body):
    """(event name, data) of each event; each has both, and the stream ends behind the last."""
    text = bytes(body).decode()
    assert text.endswith("\n\n"), text[-80:]
    found = []
    for block in text[:-2].split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if not lines:
            continue
        assert lines[0].startswith("event: ") and lines[1].startswith("data: "), block
        found.append((lines[0][7:], json.loads(lines[1][6:])))
    return found


class TranslatedAnswers(GatewayTest):
    FAKES = (("tgi", ("--kind", "tgi", "--record")), ("openai", ("--kind", "openai", "--record")),
             ("old", ("--kind", "vllm", "--record")))

    @classmethod
    def configure(cls):
        models = {kind: model((kind, cls.fakes[kind].port), kind=kind) for kind in
                  ("tgi", "openai")}
        models["old"] = model(("old", cls.fakes["old"].port),
                              translate=["messages", "responses"])
        for entry in models.values():
            entry["upstream_model"] = "small"
        return {"models": models, "classes": [{"name": "default", "match": {}}],
                "tenants": harness.tenants(), "limits": {"flight_bytes": "64KiB", "event_bytes": "64KiB"}}

    def messages(self, model_name, text="hello [[fake tokens=5]]", **more):
        return json.dumps({"model": model_name, "max_tokens": 50, "system": "be brief",
                           "messages": [{"role": "user", "content": text}], **more}).encode()

    def responses(self, model_name, text="hello [[fake tokens=5]]", **more):
        return json.dumps({"model": model_name, "input": text, "instructions": "be brief",
                           **more}).encode()

    def sent_to(self, name):
        sent = bytes(harness.get(self.fakes[name].port, "/fake/last").body)
        head, _, body = sent.partition(b"\r\n\r\n")
        return head.decode(), json.loads(body)

    def test_a_message_comes_back_whole(self):
        for protocol, conn in self.clients():
            for name in ("tgi", "openai", "old"):
                with self.subTest(f"{protocol} {name}"):
                    reply, row = self.ask_row(conn, self.messages(name), path="/v1/messages")
                    self.assertEqual(reply.status, 200, reply)
                    answer = reply.json()
                    self.assertEqual((answer["type"], answer["role"], answer["model"]),
                                     ("message", "assistant", name))
                    self.assertEqual(answer["content"][0]["type"], "text")
                    self.assertEqual(answer["stop_reason"], "end_turn")
                    self.assertEqual(answer["usage"]["output_tokens"], 5)
                    self.assertEqual(int(reply.header("content-length")), len(reply.body))
                    self.assertIn("translated", row["flags"])
                    self.assertEqual((row["endpoint"], row["source"]), ("messages", "reported"))
                    self.assertEqual(row["output"], 5)
                    self.assertEqual(row["input"], answer["usage"]["input_tokens"])
                    head, seen = self.sent_to(name)
                    self.assertTrue(head.startswith("POST /v1/chat/completions "))
                    self.assertNotIn("anthropic", head.lower())
                    self.assertEqual(seen["messages"][0], {"role": "system",
                                                           "content": "be brief"})
                    self.assertEqual(seen["model"], "small")

    def test_a_stream_of_a_message_has_every_event_in_order(self):
        for protocol, conn in self.clients():
            for name in ("tgi", "openai", "old"):
                with self.subTest(f"{protocol} {name}"):
                    reply, row = self.ask_row(conn, self.messages(name, stream=True),
                                              path="/v1/messages")
                    events = [event for event in named_events(reply.body) if event[0] != "ping"]
                    names = [event[0] for event in events]
                    self.assertEqual(names[0], "message_start")
                    self.assertEqual(names[-2:], ["message_delta", "message_stop"])
                    self.assertEqual(names[1], "content_block_start")
                    self.assertEqual(names[-3], "content_block_stop")
                    self.assertEqual(set(names[2:-3]), {"content_block_delta"})
                    self.assertEqual(events[-2][1]["usage"]["output_tokens"], 5)
                    self.assertEqual(reply.header("content-type").split(";")[0],
                                     "text/event-stream")
                    self.assertEqual((row["output"], row["source"]), (5, "reported"))
                    self.assertIn("translated", row["flags"])

    def test_a_response_comes_back_whole_and_as_a_stream(self):
        for protocol, conn in self.clients():
            for name in ("tgi", "old"):
                with self.subTest(f"{protocol} {name}"):
                    reply, row = self.ask_row(conn, self.responses(name), path="/v1/responses")
                    answer = reply.json()
                    self.assertEqual((answer["object"], answer["status"]),
                                     ("response", "completed"))
                    self.assertEqual(answer["usage"]["output_tokens"], 5)
                    self.assertEqual(answer["instructions"], "be brief")
                    self.assertEqual((row["output"], row["source"]), (5, "reported"))
                    text = answer["output"][0]["content"][0]["text"]

                    reply, row = self.ask_row(conn, self.responses(name, stream=True),
                                              path="/v1/responses")
                    events = named_events(reply.body)
                    self.assertEqual(events[0][0], "response.created")
                    self.assertEqual(events[-1][0], "response.completed")
                    self.assertEqual([event[1]["sequence_number"] for event in events],
                                     list(range(len(events))))
                    deltas = "".join(data["delta"] for kind, data in events
                                     if kind == "response.output_text.delta")
                    final = events[-1][1]["response"]
                    self.assertEqual(final["output"][0]["content"][0]["text"], deltas)
                    self.assertEqual(deltas, text)
                    self.assertEqual((row["output"], row["source"]), (5, "reported"))

    def test_a_tool_is_called_and_its_result_goes_back(self):
        conn = self.h1()
        for name in ("tgi", "openai"):
            for stream in (False, True):
                with self.subTest(f"{name} {stream}"):
                    body = self.messages(name, "weather?", tools=[TOOL], stream=stream,
                                         tool_choice={"type": "any"})
                    reply = self.ask(conn, body, path="/v1/messages")
                    self.assertEqual(reply.status, 200, reply)
                    if stream:
                        events = named_events(reply.body)
                        start = next(data for kind, data in events
                                     if kind == "content_block_start"
                                     and data["content_block"]["type"] == "tool_use")
                        call = start["content_block"]
                        arguments = json.loads("".join(
                            data["delta"]["partial_json"] for kind, data in events
                            if kind == "content_block_delta"
                            and data["delta"]["type"] == "input_json_delta"))
                        stop = next(data["delta"]["stop_reason"] for kind, data in events
                                    if kind == "message_delta")
                    else:
                        call = next(block for block in reply.json()["content"]
                                    if block["type"] == "tool_use")
                        arguments, stop = call["input"], reply.json()["stop_reason"]
                    self.assertEqual((call["name"], stop), ("weather", "tool_use"))
                    self.assertIsInstance(arguments["city"], str)
        body = json.dumps({"model": "tgi", "max_tokens": 9, "tools": [TOOL], "messages": [
            {"role": "user", "content": "weather?"},
            {"role": "assistant", "content": [
                {"type": "tool_use", "id": "toolu_1", "name": "weather",
                 "input": {"city": "Ulm", "exact": 12345678901234567890}}]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "rain"}]}]}).encode()
        self.assertEqual(self.ask(conn, body, path="/v1/messages").status, 200)
        seen = self.sent_to("tgi")[1]["messages"]
        self.assertEqual(seen[1]["tool_calls"][0]["id"], "toolu_1")
        self.assertIn("12345678901234567890", seen[1]["tool_calls"][0]["function"]["arguments"])
        self.assertEqual((seen[2]["role"], seen[2]["tool_call_id"]), ("tool", "toolu_1"))

    def test_what_cannot_be_translated_is_refused_by_name(self):
        conn = self.h1()
        before = self.fake_posts()
        body = self.messages("tgi", tools=[{"type": "web_search_20250305", "name": "web_search"}])
        reply = self.ask(conn, body, path="/v1/messages")
        self.assertEqual((reply.status, reply.json()["error"]["type"]),
                         (400, "invalid_request_error"))
        reply = self.ask(conn, self.responses("tgi", tools=[{"type": "web_search"}]),
                         path="/v1/responses")
        self.assert_error(reply, 400)
        self.assertEqual(self.fake_posts(), before)

    def test_a_server_that_breaks_off_ends_the_stream_with_an_error_of_the_api(self):
        for protocol, conn in (("h1", self.h1), ("h2", self.h2)):
            for path, body in (("/v1/messages", self.messages), ("/v1/responses", self.responses)):
                with self.subTest(f"{protocol} {path}"):
                    text = "[[fake tokens=30 reset=4 per_event=1]]"
                    reply, row = self.ask_row(conn(), body("tgi", text, stream=True), path=path)
                    self.assertFalse(reply.complete, reply)
                    name, data = named_events(reply.body)[-1]
                    self.assertEqual((name, data["type"]), ("error", "error"))
                    self.assertEqual(row["outcome"], "replica_error")
                    self.assertLessEqual(row["output"], 30)
                    self.assertGreater(row["output"], 0)

    def test_an_error_amidst_the_stream_is_told_in_the_api(self):
        conn = self.h1()
        for path, body, last in (("/v1/messages", self.messages, "error"),
                                 ("/v1/responses", self.responses, "response.failed")):
            with self.subTest(path):
                text = "[[fake tokens=30 error_event=3]]"
                reply, row = self.ask_row(conn, body("tgi", text, stream=True), path=path)
                names = [event[0] for event in named_events(reply.body)]
                self.assertEqual(names[-1], last)
                self.assertEqual(names.count(last), 1)
                self.assertEqual(row["outcome"], "replica_error")

    def test_compressed_and_split_answers_are_translated_all_the_same(self):
        for words in ("gzip=1", "split=1", "split=7 gzip=1", "until_close=1", "chunked_body=1"):
            for stream in (False, True):
                with self.subTest(f"{words} {stream}"):
                    body = self.messages("tgi", f"[[fake tokens=6 {words}]]", stream=stream)
                    reply, row = self.ask_row(self.h1(), body, {"accept-encoding": "gzip"},
                                              path="/v1/messages")
                    self.assertEqual(reply.status, 200, reply)
                    self.assertIsNone(reply.header("content-encoding"))
                    if stream:
                        self.assertEqual(named_events(reply.body)[-1][0], "message_stop")
                    else:
                        self.assertEqual(reply.json()["stop_reason"], "end_turn")
                    self.assertEqual(row["output"], 6)

    def test_a_whole_answer_that_is_too_large_is_an_error(self):
        reply = self.ask(self.h1(), self.messages("tgi", "[[fake tokens=2 big=400000]]"),
                         path="/v1/messages")
        self.assertEqual((reply.status, reply.json()["type"]), (502, "error"))
        self.assertEqual(self.ask(self.h1(), self.messages("tgi"), path="/v1/messages").status, 200)

    def test_a_client_that_leaves_is_billed_what_it_had(self):
        conn = self.h2()
        request_id = harness.new_id()
        body = self.messages("tgi", "[[fake tokens=40 delay_ms=20]]", stream=True)
        stream = conn.start("POST", "/v1/messages",
                            dict(harness.bearer(harness.KEY), **{"x-request-id": request_id}), body)
        conn.wait_until(lambda: b"content_block_delta" in bytes(stream.reply.body))
        conn.reset(stream)
        row = self.gateway.row_of(request_id)
        self.assertEqual(row["outcome"], "client_gone")
        self.assertIn("translated", row["flags"])
        self.assertGreater(row["output"], 0)
        self.assertLess(row["output"], 40)

    def test_what_is_beyond_a_bound_of_ours_does_not_count_against_the_server(self):
        for _ in range(4):
            body = self.messages("old", "[[fake tokens=2 big=200000]]", stream=True)
            self.ask(self.h1(), body, path="/v1/messages")
        models = self.gateway.admin("/replicas").json()["models"]
        replica = next(entry["replicas"][0] for entry in models if entry["model"] == "old")
        self.assertEqual((replica["health"], replica["strikes"]), ("in", 0))
