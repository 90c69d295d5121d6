#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shows that the case runner can fail.

For:       a runner that passes whatever happens proves nothing: each promise of README.md is
           played once as it should be (no difference found) and then with a wrong expectation
           (a difference found). No gateway: the client talks straight to a scripted server.
Used by:   make test.
"""

import copy
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

import schema
from check import check_block, match
from client import Player
from run import KEYS, NAMES, ORDINARY, Outcome, chosen, fill, load_cases
from upstream import Script, Upstream
import suite


def event(text, **more):
    """One SSE event as a write."""
    return {"text": f"data: {text}\n\n", **more}


def delta(content, index=0, finish="null"):
    return event('{"id":"c1","choices":[{"index":%d,"delta":{"content":"%s"},'
                 '"finish_reason":%s}]}' % (index, content, finish))


USAGE = event('{"id":"c1","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}')
DONE = event("[DONE]")
STREAM_ASK = {"body": {"model": "m", "stream": True, "messages": [], "seed": 7}}
ROW = {"kind": "call", "tenant": "a", "billable": True, "input": 2, "cached_input": 1,
       "output": 1, "reasoning": 1, "source": "running"}


def play(client, replies, rows=(), log_text="", **server):
    """The outcome of steps played straight against one scripted server."""
    upstream = Upstream()
    try:
        upstream.load(Script(replies, **server))
        outcome = Outcome()
        names = {"HOST": f"127.0.0.1:{upstream.port}", "KEY_A": KEYS["KEY_A"]}
        steps = client if isinstance(client, list) else [client]
        outcome.steps = Player(upstream.port, KEYS).play(fill(steps, names))
        script = upstream.load(Script())
        outcome.requests["a"] = script.requests
        outcome.most_at_once["a"] = script.most_at_once
        outcome.rows, outcome.log_text = list(rows), log_text
        return outcome
    finally:
        upstream.close()


class RunnerCanFail(unittest.TestCase):
    def assert_holds(self, expected, outcome):
        self.assertEqual(check_block(expected, outcome), [])

    def assert_fails(self, expected, outcome):
        self.assertNotEqual(check_block(expected, outcome), [], expected)

    def assert_each_can_fail(self, right, wrong, outcome, wrap):
        """right holds as a whole; each member of wrong alone does not."""
        self.assert_holds(wrap(right), outcome)
        for name, values in wrong.items():
            for value in values:
                self.assert_fails(wrap({name: value}), outcome)

    def test_a_stream_is_read_as_the_standard_says(self):
        outcome = play(STREAM_ASK, [{"writes": [
            {"text": ": hello\r\n\r"}, {"text": "\n"}, dict(delta("na\u00efve "), delay_ms=1),
            delta("b", 1), dict(delta("end", finish='"stop"'), delay_ms=80), USAGE, DONE]}])
        right = {"content": {"0": "na\u00efve end", "1": "b"}, "finish_reason": {"0": "stop"},
                 "usage": {"prompt_tokens": 3}, "empty_choices_events": 1, "done": True,
                 "error": False, "one_id": True, "min_spread_ms": 60, "failure_visible": False,
                 "content_length": {"0": 9}, "tool_calls": {}}
        wrong = {"content": [{"0": "naive end"}], "finish_reason": [{"0": "length"},
                                                                     {"$empty": True}],
                 "usage": ["absent", {"prompt_tokens": 4}], "empty_choices_events": [0],
                 "done": [False], "error": [True, {"message": "x"}], "one_id": [False],
                 "min_spread_ms": [5000], "failure_visible": [True],
                 "content_length": [{"0": 10}], "tool_calls": [{"0": []}]}
        self.assert_each_can_fail(right, wrong, outcome,
                                  lambda block: {"client": {"stream": block}})

    def test_a_stream_that_is_no_proper_stream_fails(self):
        bad = {
            "neither JSON nor [DONE]": [event("hello")],
            "data after [DONE]": [DONE, delta("x")],
            "a replacement character": [delta("\ufffd")],
            "broken UTF-8": [{"hex": "646174613a207b7dff0a0a"}],
            "half an event at the end": [delta("x"), {"text": "data: {\"id\""}],
        }
        for why, writes in bad.items():
            with self.subTest(why):
                outcome = play(STREAM_ASK, [{"writes": writes}])
                self.assert_fails({"client": {"stream": {}}}, outcome)

    def test_a_cut_message_is_not_complete(self):
        cut = play(STREAM_ASK, [{"writes": [delta("x")], "end": "fin"}])
        self.assert_holds({"client": {"complete": False, "stream": {"failure_visible": True}}}, cut)
        self.assert_fails({"client": {"complete": True}}, cut)
        reset = play({"body": {}}, [{"json": {}, "content_length": 50, "end": "rst"}])
        self.assert_fails({"client": {"complete": True}}, reset)

    def test_a_plain_answer_is_checked_member_by_member(self):
        outcome = play({"body": {}}, [{"status": 429, "headers": {"Retry-After": "30"}, "json": {
            "error": {"message": "busy", "type": "t", "code": 7}}}])
        right = {"status": 429, "headers": {"retry-after": "30", "x-none": {"$absent": True}},
                 "json": {"error": {"code": 7}}, "error_shape": True, "complete": True,
                 "body_contains": ["busy"], "body_lacks": ["idle"], "max_ms": 5000, "interim": []}
        wrong = {"status": [200, {"$in": [400, 500]}], "headers": [{"retry-after": "31"},
                                                                    {"x-none": "1"}],
                 "json": [{"error": {"code": True}}, {"error": {"code": 8}}, {"choices": []}],
                 "error_shape": [False], "complete": [False], "body_contains": ["idle"],
                 "body_lacks": [["busy"]], "max_ms": [0], "interim": [[100]]}
        self.assert_each_can_fail(right, wrong, outcome, lambda block: {"client": block})

    def test_compressed_answers_are_unpacked_by_what_their_head_says(self):
        zipped = {"gzip": True, "framing": "length", "json": {"a": 1}}
        self.assert_holds({"client": {"json": {"a": 1}}}, play({"body": {}}, [zipped]))
        mislabelled = dict(zipped, headers={"content-encoding": "identity"})
        self.assert_fails({"client": {"json": {"a": 1}}}, play({"body": {}}, [mislabelled]))

    def test_requests_upstream_are_counted_and_compared(self):
        outcome = play([dict(STREAM_ASK, chunk_body=7)] * 2, [{"json": {}}], repeat_last=True)
        right = {"requests": 2, "requests_equal_statuses": 200, "max_concurrent": 1,
                 "request": [{"headers": {"authorization": "Bearer sk-bench-a"},
                              "json": {"stream": True}, "same_members": ["messages", "seed"]}],
                 "each": {"body_contains": ["messages"], "body_lacks": ["prompt"]}}
        wrong = {"requests": [1, {"$gte": 3}], "requests_equal_statuses": [429],
                 "max_concurrent": [0],
                 "request": [[{"headers": {"authorization": "Bearer x"}}], [{"json": {"n": 1}}],
                             [{"same_members": ["absent"]}], [{}, {}, {}],
                             [{"aborted_within_ms": 1000}]],
                 "each": [{"body_contains": ["prompt"]}, {"body_lacks": ["messages"]}]}
        self.assert_each_can_fail(right, wrong, outcome, lambda block: {"upstream": {"a": block}})

    def test_a_changed_number_is_not_the_same_member(self):
        outcome = play({"body_text": '{"seed":1.0}'}, [{"json": {}}])
        outcome.requests["a"][0].body = b'{"seed":1}'
        self.assert_fails({"upstream": {"a": {"request": [{"same_members": ["seed"]}]}}}, outcome)

    def test_a_client_that_leaves_is_seen_upstream(self):
        writes = [delta("x"), delta("y")] + [dict(delta("z"), delay_ms=50)] * 40
        outcome = play(dict(STREAM_ASK, abort={"after_events": 2}), [{"writes": writes}])
        for _ in range(100):
            if outcome.requests["a"][0].aborted_at:
                break
            __import__("time").sleep(0.02)
        right = {"upstream": {"a": {"request": [{"aborted_within_ms": 1000}]}}}
        self.assert_holds(right, outcome)
        outcome.requests["a"][0].aborted_at += 2
        self.assert_fails(right, outcome)

    def test_statuses_are_counted_over_repetitions(self):
        replies = [{"json": {}}, {"json": {}}, {"status": 429, "json": {}}]
        outcome = play({"body": {}, "times": 3}, replies)
        block = {"statuses": {"200": 2, "429": 1}, "statuses_only": True}
        self.assert_holds({"client": block}, outcome)
        self.assert_fails({"client": dict(block, statuses={"200": 3})}, outcome)
        self.assert_fails({"client": dict(block, statuses={"200": 2})}, outcome)
        self.assert_fails({"client": dict(block, rejected={"error_shape": True})}, outcome)

    def test_raw_steps_count_answers_and_see_the_close(self):
        raw = {"transport": "raw-h1", "body_text": "{}", "idle_ms": 300, "raw": [
            "POST / HTTP/1.1\r\nHost: ${HOST}\r\nContent-Length: ${BODYLEN}\r\n\r\n",
            {"text": "${BODY}"}, {"wait_for": "HTTP/1.1 200", "max_ms": 1000}, {"wait_ms": 1}]}
        kept = play(raw, [{"json": {}, "interim": ["HTTP/1.1 103 Early\r\n\r\n"]}])
        right = {"responses": 1, "closed": False, "waited_for": True, "interim": [103]}
        wrong = {"responses": [2], "closed": [True], "waited_for": [False], "interim": [[]]}
        self.assert_each_can_fail(right, wrong, kept, lambda block: {"client": block})
        closed = play(raw, [{"json": {}, "end": "fin"}])
        self.assert_holds({"client": {"closed": True}}, closed)

    def test_rows_are_summed_over_the_billable_ones(self):
        free = dict(ROW, billable=False, source="estimated", tenant="b")
        outcome = play({"body": {}}, [{"json": {}}], rows=[ROW, free])
        right = {"records": 2, "billable": 1, "prompt_tokens": 3, "completion_tokens": 2,
                 "cached_tokens": 1, "source": "upstream", "tenants": 1}
        wrong = {"records": [1], "billable": [2], "prompt_tokens": [2, 6],
                 "completion_tokens": [1], "cached_tokens": [0], "source": ["estimate"],
                 "tenants": [2]}
        self.assert_each_can_fail(right, wrong, outcome, lambda block: {"meter": block})

    def test_logs_and_alternatives_can_fail(self):
        outcome = play({"body": {}}, [{"json": {}}], log_text="key=sk-secret")
        self.assert_fails({"logs": {"absent": ["sk-secret"]}}, outcome)
        self.assert_fails({"logs": {"present": ["other"]}}, outcome)
        holds, fails = {"client": {"status": 200}}, {"client": {"status": 400}}
        self.assert_holds({"any_of": [fails, holds]}, outcome)
        self.assert_fails({"any_of": [fails, fails]}, outcome)

    def test_operators_say_what_they_say(self):
        table = [("$in", [1, 2], 2, 3), ("$gte", 2, 2, 1), ("$lte", 2, 2, 3), ("$re", "^a", "ab", "b"),
                 ("$contains", "a", "ab", "b"), ("$lacks", "a", "b", "ab"), ("$not", 1, 2, 1),
                 ("$type", "string", "a", 1), ("$present", True, 1, None),
                 ("$empty", True, [], 0)]
        for name, operand, good, bad in table:
            with self.subTest(name):
                self.assertEqual(match({"v": {name: operand}}, {"v": good}, ""), [])
                wrong = {} if name == "$present" else {"v": bad}
                self.assertNotEqual(match({"v": {name: operand}}, wrong, ""), [])
        self.assertNotEqual(match({"$absent": True}, 1, ""), [])
        self.assertNotEqual(match(1, True, ""), [])
        self.assertNotEqual(match([1], [1, 2], ""), [])

    def test_an_unknown_member_fails_wherever_it_stands(self):
        good = {"id": "S", "title": "t", "why": "w", "kind": "unary",
                "client": [{"body": {}, "read": {"pause_after_bytes": 1},
                            "abort": {"after_ms": 5}, "raw": [{"text": "x"}]}],
                "upstream": {"a": {"replies": [{"json": {}, "writes": [{"text": "x"}]}]}},
                "expect": {"client": {"status": 200, "stream": {"done": True}},
                           "upstream": {"a": {"request": [{"json": {}}], "each": {}}},
                           "meter": {"records": 1}, "logs": {"absent": []},
                           "any_of": [{"client": {"status": {"$in": [200]}}}]}}
        schema.check_case(good)
        places = [[], ["client", 0], ["client", 0, "read"], ["client", 0, "abort"],
                  ["client", 0, "raw", 0], ["upstream"], ["upstream", "a"],
                  ["upstream", "a", "replies", 0], ["upstream", "a", "replies", 0, "writes", 0],
                  ["expect"], ["expect", "client"], ["expect", "client", "stream"],
                  ["expect", "upstream"], ["expect", "upstream", "a"],
                  ["expect", "upstream", "a", "request", 0], ["expect", "upstream", "a", "each"],
                  ["expect", "meter"], ["expect", "logs"], ["expect", "any_of", 0],
                  ["expect", "any_of", 0, "client"],
                  ["expect", "any_of", 0, "client", "status"]]
        for place in places:
            with self.subTest(place=place):
                case = copy.deepcopy(good)
                where = case
                for step in place:
                    where = where[step]
                where["$surprise" if place[-1:] == ["status"] else "surprise"] = 1
                with self.assertRaises(schema.Unknown):
                    schema.check_case(case)

    def test_the_cases_of_this_folder_are_all_known(self):
        cases = load_cases()
        self.assertEqual(len(cases), 24)
        play_now, left_out = chosen(cases, [])
        self.assertEqual([name[:2] for name, _ in left_out if not cases[name].get("slow")],
                         ["22", "23"])
        self.assertEqual(len(play_now) + len(left_out), 24)
        self.assertIn("bench-small", NAMES["MODEL"])
        self.assertEqual(ORDINARY["json"]["model"], NAMES["MODEL"])


if __name__ == "__main__":
    sys.exit(suite.run(unittest.defaultTestLoader.loadTestsFromTestCase(RunnerCanFail)))
