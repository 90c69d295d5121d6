# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 is refused, never repaired, when it is not exactly what it claims to be.

For:       request smuggling, framing, limits of sizes and time, pipelining; after each refusal
           nothing has been forwarded.
"""

import time

import harness
import wire
from harness import KEY, GatewayTest, chat, model, tenants
from upstream import Script, Upstream

ANSWER = {"json": {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
                   "choices": [{"index": 0, "finish_reason": "stop",
                                "message": {"role": "assistant", "content": "ok"}}],
                   "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}}}
BODY = chat("raw")
GOOD = (b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + KEY.encode()
        + b"\r\nContent-Type: application/json\r\n")
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
SMUGGLED = b"GET /v1/models HTTP/1.1\r\nHost: h\r\n\r\n"


def head(*lines):
    """A good head with more lines, ended."""
    return GOOD + b"".join(lines) + b"\r\n"


def with_length(text):
    return head(b"Content-Length: " + text + b"\r\n") + BODY


def with_coding(*texts):
    coded = wire.chunked(BODY, 7)
    return head(*[b"Transfer-Encoding: " + text + b"\r\n" for text in texts]) + coded


def with_chunks(raw):
    return head(CHUNKED) + raw


def first_line(line):
    return line + b"\r\n" + head(LENGTH).split(b"\r\n", 1)[1] + BODY


WHOLE = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
N = len(BODY)
SIZE = b"%d" % N
HEX = b"%x" % N

REFUSED = {
    "length and chunked": head(LENGTH, CHUNKED) + WHOLE,
    "chunked and length": head(CHUNKED, LENGTH) + WHOLE,
    "two equal lengths": head(LENGTH, LENGTH) + BODY,
    "two different lengths": head(LENGTH, b"Content-Length: 3\r\n") + BODY,
    "length list": with_length(SIZE + b", " + SIZE),
    "length empty": with_length(b""),
    "length signed": with_length(b"+" + SIZE),
    "length negative": with_length(b"-1"),
    "length hexadecimal": with_length(b"0x" + HEX),
    "length underscored": with_length(b"1_0"),
    "length with a blank inside": with_length(b"1 0"),
    "length of 20 digits": with_length(b"0" * 18 + SIZE),
    "length beyond 64 bits": with_length(b"18446744073709551616"),
    "coding with a comma before": with_coding(b",chunked"),
    "coding twice in one": with_coding(b"chunked, chunked"),
    "coding in two headers": with_coding(b"chunked", b"chunked"),
    "coding xchunked": with_coding(b"xchunked"),
    "coding identity": with_coding(b"identity"),
    "coding gzip, chunked": with_coding(b"gzip, chunked"),
    "coding empty": with_coding(b""),
    "coding with a vertical tab": with_coding(b"\x0bchunked"),
    "chunked on HTTP/1.0": (b"POST /v1/chat/completions HTTP/1.0\r\n"
                            + head(CHUNKED).split(b"\r\n", 1)[1] + WHOLE),
    "chunk size empty": with_chunks(b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk size signed": with_chunks(b"+" + WHOLE),
    "chunk size 0x": with_chunks(b"0x" + WHOLE),
    "chunk size with a blank before": with_chunks(b" " + WHOLE),
    "chunk size with a blank behind": with_chunks(HEX + b" \r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk size underscored": with_chunks(b"0_" + WHOLE),
    "chunk size of 17 digits": with_chunks(b"0" * 17 + WHOLE),
    "chunk size overflowing": with_chunks(b"ffffffffffffffff\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk data without CRLF": with_chunks(HEX + b"\r\n" + BODY + b"0\r\n\r\n"),
    "chunk data ended by LF": with_chunks(HEX + b"\r\n" + BODY + b"\n0\r\n\r\n"),
    "chunk data ended by two other bytes": with_chunks(HEX + b"\r\n" + BODY + b"xx0\r\n\r\n"),
    "chunk line ended by LF": with_chunks(HEX + b"\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk line with a bare CR": with_chunks(HEX + b"\r" + BODY + b"\r\n0\r\n\r\n"),
    "chunk extension with a CR": with_chunks(HEX + b";a\rb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk extension with a LF": with_chunks(HEX + b";a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk extension over 1 KiB": with_chunks(HEX + b";" + b"a" * 1100 + b"\r\n" + BODY
                                              + b"\r\n0\r\n\r\n"),
    "chunk extensions over 1 KiB in sum": with_chunks(
        b"".join(b"1;" + b"a" * 200 + b"\r\n%c\r\n" % byte for byte in BODY) + b"0\r\n\r\n"),
    "bare LF in the head": GOOD + b"A: b\n" + LENGTH + b"\r\n" + BODY,
    "bare CR in the head": GOOD + b"A: b\rc\r\n" + LENGTH + b"\r\n" + BODY,
    "head of LFs only": head(LENGTH).replace(b"\r\n", b"\n") + BODY,
    "request line ended by LF": first_line(b"POST /v1/chat/completions HTTP/1.1").replace(
        b"\r\n", b"\n", 1),
    "blank before the colon": head(b"Content-Length : %d\r\n" % N) + BODY,
    "tab before the colon": head(b"A\t: b\r\n", LENGTH) + BODY,
    "blank before a name": head(b" A: b\r\n", LENGTH) + BODY,
    "line folding": head(b"A: b\r\n c\r\n", LENGTH) + BODY,
    "line folding with a tab": head(b"A: b\r\n\tc\r\n", LENGTH) + BODY,
    "empty name": head(b": b\r\n", LENGTH) + BODY,
    "no colon": head(b"Ab\r\n", LENGTH) + BODY,
    "name with a blank": head(b"A b: c\r\n", LENGTH) + BODY,
    "name with a brace": head(b"A{: c\r\n", LENGTH) + BODY,
    "name with a high byte": head(b"A\xa0: c\r\n", LENGTH) + BODY,
    "NUL in a value": head(b"A: b\x00c\r\n", LENGTH) + BODY,
    "NUL in a name": head(b"A\x00: c\r\n", LENGTH) + BODY,
    "control byte in a value": head(b"A: b\x08c\r\n", LENGTH) + BODY,
    "high bytes in a value": head(b"A: caf\xc3\xa9\r\n", LENGTH) + BODY,
    "length with a high blank before": with_length(b"\xa0" + SIZE),
    "length with NEL behind": with_length(SIZE + b"\x85"),
    "no Host": head(LENGTH).replace(b"Host: h\r\n", b"") + BODY,
    "two Hosts": head(b"Host: h\r\n", LENGTH) + BODY,
    "Host with a blank": head(LENGTH).replace(b"Host: h", b"Host: h i") + BODY,
    "Host with a path": head(LENGTH).replace(b"Host: h", b"Host: h/i") + BODY,
    "Host with user": head(LENGTH).replace(b"Host: h", b"Host: u@h") + BODY,
    "absolute form not matching Host": first_line(
        b"POST http://other/v1/chat/completions HTTP/1.1"),
    "version 1.32": first_line(b"POST /v1/chat/completions HTTP/1.32"),
    "version 1.2": first_line(b"POST /v1/chat/completions HTTP/1.2"),
    "version 2.0": first_line(b"POST /v1/chat/completions HTTP/2.0"),
    "version in lower case": first_line(b"POST /v1/chat/completions http/1.1"),
    "version with a blank behind": first_line(b"POST /v1/chat/completions HTTP/1.1 "),
    "no version": first_line(b"POST /v1/chat/completions"),
    "two blanks": first_line(b"POST  /v1/chat/completions HTTP/1.1"),
    "tab in the request line": first_line(b"POST\t/v1/chat/completions HTTP/1.1"),
    "method with a colon": first_line(b"PO:ST /v1/chat/completions HTTP/1.1"),
    "path without slash": first_line(b"POST v1/chat/completions HTTP/1.1"),
    "path with a control byte": first_line(b"POST /v1/chat/completions\x01 HTTP/1.1"),
    "path with a high byte": first_line(b"POST /v1/chat/completions\xff HTTP/1.1"),
    "two leading CRLFs": b"\r\n\r\n" + head(LENGTH) + BODY,
    "leading blank": b" " + head(LENGTH) + BODY,
    "garbage": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    "CONNECT": b"CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n",
    "Expect something else": head(b"Expect: 200-ok\r\n", LENGTH) + BODY,
    "trailer with a bare LF": with_chunks(HEX + b"\r\n" + BODY + b"\r\n0\r\nA: b\n\r\n"),
    "trailer without a colon": with_chunks(HEX + b"\r\n" + BODY + b"\r\n0\r\nAb\r\n\r\n"),
}

ACCEPTED = {
    "plain": head(LENGTH) + BODY,
    "one leading CRLF": b"\r\n" + head(LENGTH) + BODY,
    "chunked": with_chunks(WHOLE),
    "header name in upper case": head(b"transfer-ENCODING: chunked\r\n") + WHOLE,
    "chunks of one byte": head(CHUNKED) + wire.chunked(BODY, 1),
    "chunk extension": with_chunks(HEX + b";a=b\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk size with zeros": with_chunks(b"000" + HEX + b"\r\n" + BODY + b"\r\n00\r\n\r\n"),
    "chunk size in upper case": with_chunks(HEX.upper() + b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "trailers": with_chunks(HEX + b"\r\n" + BODY + b"\r\n0\r\nA: b\r\n\r\n"),
    "no blank behind colons": head(LENGTH).replace(b": ", b":") + BODY,
    "tabs around values": head(b"A:\t b \t\r\n", LENGTH) + BODY,
    "absolute form matching Host": first_line(b"POST http://h/v1/chat/completions HTTP/1.1"),
    "Expect 100-continue": head(b"Expect: 100-Continue\r\n", LENGTH) + BODY,
    "Upgrade is ignored": head(b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
                               b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n", LENGTH) + BODY,
}


class Http1IsStrict(GatewayTest):
    FAKES = ()

    @classmethod
    def configure(cls):
        cls.server = Upstream()
        cls.addClassCleanup(cls.server.close)
        return {
            "models": {"small": model(("s1", cls.server.port))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "limits": {"body_bytes": "64KiB"},
            "timeouts": {"head": "400ms", "body_progress": "400ms", "body": "1500ms",
                         "idle_h1": "1500ms"},
        }

    def setUp(self):
        self.script = Script([ANSWER], repeat_last=True)
        self.server.load(self.script)

    def play(self, raw):
        """Send exact bytes; the first reply and whether the connection closed soon after."""
        conn = self.h1(timeout=3)
        conn.send(raw)
        reply = conn.read_reply("POST", 3)
        return conn, reply

    def test_what_is_not_exactly_http_is_refused_and_closed(self):
        for why, raw in REFUSED.items():
            with self.subTest(why):
                self.script.requests.clear()
                conn, reply = self.play(raw + SMUGGLED)
                if reply.status is not None:
                    self.assertIn(reply.status, (400, 404, 405, 408, 413, 417, 501, 505), reply)
                    self.assert_error(reply, reply.status)
                self.assertTrue(conn.wait_closed(2000), "the connection stays open")
                self.assertNotIn(b"HTTP/1.1 200", bytes(conn.buffer))
                self.assertEqual(bytes(conn.buffer), b"", "a second answer came")
                self.assertEqual(self.script.requests, [], "it was forwarded")
        self.assert_alive_here()

    def assert_alive_here(self):
        self.assertTrue(self.gateway.running())
        self.assertEqual(self.ask(self.h1(), chat()).status, 200)

    def test_what_is_unusual_but_right_is_served(self):
        for why, raw in ACCEPTED.items():
            with self.subTest(why):
                before = len(self.script.requests)
                _, reply = self.play(raw)
                self.assertEqual(reply.status, 200, reply)
                self.assertTrue(reply.complete)
                self.assertEqual(self.script.requests[before].body, BODY)

    def test_every_split_of_a_request_means_the_same(self):
        for why in ("plain", "trailers", "chunk extension", "chunks of one byte"):
            raw = ACCEPTED[why]
            conn = self.h1()
            for at in range(1, len(raw), 1 if len(raw) < 500 else 7):
                conn.send(raw[:at])
                time.sleep(0.001)
                conn.send(raw[at:])
                reply = conn.read_reply("POST", 3)
                self.assertEqual(reply.status, 200, f"{why}, split at {at}: {reply}")
        self.assertEqual({request.body for request in self.script.requests}, {BODY})

    def test_a_request_byte_by_byte_is_read(self):
        conn = self.h1()
        for byte in ACCEPTED["trailers"]:
            conn.send(bytes([byte]))
        self.assertEqual(conn.read_reply("POST", 3).status, 200)

    def test_pipelined_requests_are_answered_in_order(self):
        bodies = [chat(f"number {number}") for number in range(8)]
        requests = b"".join(GOOD + b"x-request-id: p-%d\r\nContent-Length: %d\r\n\r\n%s"
                            % (number, len(body), body) for number, body in enumerate(bodies))
        conn = self.h1()
        conn.send(requests)
        for number in range(8):
            reply = conn.read_reply("POST", 5)
            self.assertEqual((reply.status, reply.header("x-request-id")), (200, f"p-{number}"))
        self.assertEqual([request.body for request in self.script.requests], bodies)

    def test_a_refusal_keeps_a_well_framed_connection_usable(self):
        conn = self.h1()
        self.assert_error(self.ask(conn, b"no json"), 400)
        self.assert_error(conn.request("GET", "/v1/models"), 401)
        if conn.closed is None:
            self.assertEqual(self.ask(conn, chat()).status, 200)

    def test_http_1_0_is_served_and_closed(self):
        raw = head(LENGTH).replace(b"HTTP/1.1", b"HTTP/1.0") + BODY
        conn, reply = self.play(raw)
        self.assertEqual(reply.status, 200, reply)
        self.assertIsNone(reply.header("transfer-encoding"), "HTTP/1.0 knows no chunks")
        self.assertTrue(conn.wait_closed(2000))
        self.assertEqual(reply.json(), ANSWER["json"])

    def test_a_stream_for_http_1_0_ends_with_the_connection(self):
        event = {"text": 'data: {"id":"x","choices":[{"index":0,"delta":{"content":"b"}}]}\n\n'}
        self.server.load(Script([{"writes": [event, {"text": "data: [DONE]\n\n"}]}]))
        body = chat(stream=True)
        raw = head(b"Content-Length: %d\r\n" % len(body)).replace(b"HTTP/1.1", b"HTTP/1.0") + body
        conn, reply = self.play(raw)
        self.assertEqual(reply.status, 200)
        self.assertIsNone(reply.header("transfer-encoding"))
        self.assertTrue(bytes(reply.body).endswith(b"data: [DONE]\n\n"))

    def test_connection_close_is_obeyed(self):
        conn, reply = self.play(head(b"Connection: close\r\n", LENGTH) + BODY)
        self.assertEqual(reply.status, 200)
        self.assertTrue(conn.wait_closed(2000))
        self.assertEqual((reply.header("connection") or "").lower(), "close")

    def test_head_has_the_headers_and_no_body(self):
        conn = self.h1()
        reply = conn.request("HEAD", "/livez")
        self.assertIn(reply.status, (200, 405))
        self.assertEqual(bytes(conn.buffer), b"")
        after = self.h1() if conn.closed or conn.wait_closed(100) else conn
        self.assertEqual(after.request("GET", "/livez").status, 200)

    def test_a_continue_comes_before_the_body_only_when_it_is_wanted(self):
        conn = self.h1()
        conn.send(head(b"Expect: 100-continue\r\n", LENGTH))
        self.assertTrue(conn.wait_for(b"HTTP/1.1 100", 1000))
        conn.send(BODY)
        reply = conn.read_reply("POST", 3)
        self.assertEqual((reply.interim, reply.status), ([100], 200))
        conn = self.h1()
        conn.send(head(b"Expect: 100-continue\r\nContent-Length: 70000\r\n"))
        reply = conn.read_reply("POST", 3)
        self.assertEqual((reply.interim, reply.status), ([], 413), "no body is asked for")
        conn = self.h1()
        conn.send(head(b"Expect: 100-continue\r\n", LENGTH).replace(KEY.encode(), b"wrong"))
        self.assertEqual(conn.read_reply("POST", 3).status, 401)

    def test_a_body_too_large_is_refused_before_it_is_read(self):
        conn = self.h1()
        conn.send(head(b"Content-Length: 65537\r\n"))
        self.assert_error(conn.read_reply("POST", 3), 413)
        conn = self.h1()
        conn.send(head(CHUNKED) + b"10000\r\n" + b"x" * 65536 + b"\r\n1\r\n")
        self.assert_error(conn.read_reply("POST", 3), 413)
        self.assertTrue(conn.wait_closed(2000))
        body = chat("x" * 65000)
        self.assertEqual(self.ask(self.h1(), body).status, 200)
        self.assertEqual(len(self.script.requests), 1)

    def test_heads_are_bounded_in_bytes_fields_and_path(self):
        long_value = head(b"A: " + b"x" * 70000 + b"\r\n", LENGTH) + BODY
        many = head(*[b"A%d: b\r\n" % number for number in range(120)], LENGTH) + BODY
        path = first_line(b"POST /" + b"p" * 9000 + b" HTTP/1.1")
        for why, raw, status in (("one large field", long_value, 431), ("120 fields", many, 431),
                                 ("a long path", path, 414)):
            with self.subTest(why):
                conn, reply = self.play(raw)
                self.assert_error(reply, status)
                self.assertTrue(conn.wait_closed(2000))
        fields = head(*[b"A%d: b\r\n" % number for number in range(90)], LENGTH) + BODY
        self.assertEqual(self.play(fields)[1].status, 200)
        value = head(b"A: " + b"x" * 50000 + b"\r\n", LENGTH) + BODY
        self.assertEqual(self.play(value)[1].status, 200)
        self.assertEqual(len(self.script.requests), 2)

    def assert_ended_in_time(self, conn, seconds):
        began = time.monotonic()
        reply = conn.read_reply("POST", seconds + 3)
        if reply.status is not None:
            self.assert_error(reply, 408)
        self.assertTrue(conn.wait_closed(1000), "a slow client is let go")
        self.assertLess(time.monotonic() - began, seconds + 1)
        self.assertEqual(self.script.requests, [])

    def test_a_head_that_never_ends_is_let_go(self):
        conn = self.h1()
        conn.send(GOOD)
        self.assert_ended_in_time(conn, 0.4)

    def test_a_head_that_drips_is_let_go(self):
        conn = self.h1()
        deadline = time.monotonic() + 1.2
        for byte in GOOD[:200]:
            conn.send(bytes([byte]))
            if conn.closed or time.monotonic() > deadline:
                break
            time.sleep(0.05)
        self.assert_ended_in_time(conn, 0.4)

    def test_a_body_that_stops_is_let_go(self):
        conn = self.h1()
        conn.send(head(LENGTH) + BODY[:10])
        self.assert_ended_in_time(conn, 0.4)

    def test_a_body_that_drips_is_let_go(self):
        conn = self.h1()
        conn.send(head(b"Content-Length: 60000\r\n"))
        deadline = time.monotonic() + 3
        while conn.closed is None and time.monotonic() < deadline:
            conn.send(b"x")
            if conn.wait_for(b"HTTP/1.1 408", 100):
                break
        self.assertLess(time.monotonic(), deadline, "1.5 s for a whole body are over")
        self.assert_ended_in_time(conn, 0.4)

    def test_an_idle_connection_is_closed_quietly(self):
        conn = self.h1()
        self.assertEqual(self.ask(conn, chat()).status, 200)
        self.assertTrue(conn.wait_closed(4000))
        self.assertEqual(bytes(conn.buffer), b"")

    def test_a_silent_connection_is_closed(self):
        self.assertTrue(self.h1().wait_closed(4000))

    def test_the_answer_has_one_framing_and_no_hop_headers(self):
        hops = {"Connection": "keep-alive, X-Hop", "Keep-Alive": "timeout=5", "X-Hop": "1",
                "Upgrade": "h2c", "Proxy-Connection": "x", "Server": "uvicorn",
                "X-Request-Id": "theirs"}
        self.server.load(Script([dict(ANSWER, headers=hops)]))
        reply = self.ask(self.h1(), chat(), {"x-request-id": "ours"})
        names = [name for name, _ in reply.headers]
        for name in ("keep-alive", "x-hop", "upgrade", "proxy-connection"):
            self.assertNotIn(name, names)
        self.assertEqual(len(names), len(set(names)), names)
        self.assertEqual(reply.header("x-request-id"), "ours")
        self.assertEqual(reply.header("content-length"), str(len(reply.body)))

    def test_connections_of_one_address_are_bounded(self):
        gateway = harness.Gateway(dict({key: self.gateway.config[key] for key in (
            "models", "classes", "tenants")}, limits={"conns_per_ip": 10}), harness.ENVIRONMENT)
        try:
            conns = [wire.H1(gateway.port, timeout=3) for _ in range(10)]
            for conn in conns:
                self.assertEqual(conn.request("GET", "/livez").status, 200)
            extra = wire.H1(gateway.port, timeout=3)
            self.assertIn(extra.request("GET", "/livez").status, (None, 429, 503))
            conns.pop().close()
            self.assertTrue(harness.wait_until(
                lambda: harness.get(gateway.port, "/livez").status == 200, 3, 0.1))
            for conn in conns + [extra]:
                conn.close()
        finally:
            gateway.stop()
