# SPDX-License-Identifier: Apache-2.0
"""HTTP/2 is strict about messages and bounded in everything a client can make it hold.

For:       malformed requests, floods, bombs, windows and drains; after each the process lives,
           nothing malformed was forwarded and other connections go on.
"""

import threading
import time

import hpack
import hyperframe.frame as frames

import harness
from harness import KEY, MEMORY_SLACK_KIB, GatewayTest, chat, model, tenants, wait_until
from upstream import Script, Upstream

PROTOCOL_ERROR, FLOW_CONTROL_ERROR, ENHANCE_YOUR_CALM = 1, 3, 11
ANSWER = {"json": {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
                   "choices": [{"index": 0, "finish_reason": "stop",
                                "message": {"role": "assistant", "content": "ok"}}],
                   "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}}}
BODY = chat("frames")
SETTINGS = frames.SettingsFrame


def fields(*more, without=(), path="/v1/chat/completions", method="POST", authority="h"):
    """Header pairs of a good request, some left out, more behind."""
    pairs = [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path),
             ("authorization", f"Bearer {KEY}"), ("content-type", "application/json")]
    return [pair for pair in pairs if pair[0] not in without] + list(more)


MALFORMED = {
    "upper-case name": fields(("X-Trace", "a")),
    "connection": fields(("connection", "close")),
    "keep-alive": fields(("keep-alive", "1")),
    "proxy-connection": fields(("proxy-connection", "close")),
    "transfer-encoding": fields(("transfer-encoding", "chunked")),
    "upgrade": fields(("upgrade", "h2c")),
    "te other than trailers": fields(("te", "gzip")),
    "no method": fields(without=(":method",)),
    "no scheme": fields(without=(":scheme",)),
    "no path": fields(without=(":path",)),
    "neither authority nor host": fields(without=(":authority",)),
    "two paths": [(":path", "/v1/models")] + fields(),
    "pseudo header behind a field": fields((":path", "/v1/models")),
    "unknown pseudo header": [(":colour", "red")] + fields(),
    "response pseudo header": [(":status", "200")] + fields(),
    "empty path": fields(path=""),
    "path without slash": fields(path="v1/chat/completions"),
    "host differing from authority": fields(("host", "other")),
    "two hosts": fields(("host", "h"), ("host", "h")),
    "empty name": fields(("", "a")),
    "name with a blank": fields(("a b", "c")),
    "name with a colon": fields(("a:b", "c")),
    "CR in a value": fields(("a", "b\rc")),
    "LF in a value": fields(("a", "b\nc")),
    "NUL in a value": fields(("a", "b\0c")),
    "content-length not a number": fields(("content-length", "ten")),
    "two content-lengths": fields(("content-length", str(len(BODY))), ("content-length", "1")),
    "content-length too small": fields(("content-length", str(len(BODY) - 1))),
    "content-length too large": fields(("content-length", str(len(BODY) + 1))),
    "content-length negative": fields(("content-length", "-1")),
}


class Http2IsBounded(GatewayTest):
    FAKES = ()

    @classmethod
    def configure(cls):
        cls.server = Upstream()
        cls.addClassCleanup(cls.server.close)
        return {
            "models": {"small": model(("s1", cls.server.port), slots=1000)},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "limits": {"body_bytes": "256KiB", "streams_per_conn": 20},
            "timeouts": {"body_progress": "500ms", "head": "1s", "write_progress": "1500ms"},
        }

    def setUp(self):
        self.script = Script([ANSWER], repeat_last=True)
        self.server.load(self.script)

    def assert_lives(self):
        self.assertTrue(self.gateway.running(), "the gateway is gone")
        reply = self.ask(self.h2(), chat())
        self.assertEqual(reply.status, 200, reply)

    def assert_serves(self, conn, stream):
        """An ordinary request on this very connection."""
        conn.send_headers(stream, fields())
        conn.send_data(stream, BODY, True)
        conn.wait_until(lambda: stream in conn.ended, 3)
        self.assertEqual(conn.statuses.get(stream), 200, (conn.resets, conn.goaways, conn.closed))

    def test_malformed_requests_are_refused_and_never_forwarded(self):
        for why, headers in MALFORMED.items():
            with self.subTest(why):
                self.script.requests.clear()
                conn = self.raw_h2()
                conn.send_headers(1, headers)
                conn.send_data(1, BODY, True)
                conn.wait_until(lambda: conn.over(1), 3)
                refused = (1 in conn.resets or any(code for code, _ in conn.goaways)
                           or 400 <= conn.statuses.get(1, 0) < 500)
                self.assertTrue(refused, (conn.statuses, conn.resets, conn.goaways, conn.closed))
                self.assertEqual(self.script.requests, [], "it was forwarded")
                if not conn.goaways and conn.closed is None:
                    self.assert_serves(conn, 3)
                conn.close()
        self.assert_lives()

    def test_trailers_are_taken_and_pseudo_headers_in_them_are_not(self):
        conn, body = self.raw_h2(), chat("with trailers")

        def mine():
            return [request for request in self.script.requests if request.body == body]

        conn.send_headers(1, fields())
        conn.send_data(1, body)
        conn.send_headers(1, [("x-checksum", "1")], end_stream=True)
        conn.wait_until(lambda: 1 in conn.ended, 3)
        self.assertEqual(conn.statuses.get(1), 200)
        self.assertNotIn("x-checksum", mine()[0].headers)
        conn.send_headers(3, fields())
        conn.send_data(3, body)
        conn.send_headers(3, [(":path", "/x")], end_stream=True)
        conn.wait_until(lambda: conn.over(3), 3)
        self.assertNotEqual(conn.statuses.get(3), 200)
        self.assertEqual(len(mine()), 1)
        self.assert_lives()

    def test_a_message_that_ends_in_an_empty_frame_is_whole(self):
        conn = self.raw_h2()
        conn.send_headers(1, fields(("content-length", str(len(BODY)))))
        for byte in BODY:
            conn.send_data(1, bytes([byte]))
        conn.send_data(1, b"", True)
        conn.wait_until(lambda: 1 in conn.ended, 3)
        self.assertEqual(conn.statuses.get(1), 200)
        self.assertEqual(self.script.requests[0].body, BODY)

    def test_the_stream_limit_is_announced_and_kept(self):
        hold = Script([dict(ANSWER, delay_ms=600)], repeat_last=True)
        self.server.load(hold)
        conn = self.raw_h2()
        conn.wait_until(lambda: conn.peer_settings, 3)
        self.assertEqual(conn.peer_settings[SETTINGS.MAX_CONCURRENT_STREAMS], 20)
        self.assertLessEqual(conn.peer_settings.get(SETTINGS.HEADER_TABLE_SIZE, 4096), 4096)
        conn.wait_until(lambda: conn.settings_acks, 3)
        time.sleep(0.05)
        streams = list(range(1, 61, 2))
        for stream in streams:
            conn.send_headers(stream, fields())
            conn.send_data(stream, BODY, True)
        conn.wait_until(lambda: all(conn.over(stream) for stream in streams), 5)
        conn.wait_until(lambda: len(conn.ended) + len(conn.resets) >= len(streams), 3)
        self.assertLessEqual(len(hold.requests), 20)
        if not conn.goaways:
            self.assertEqual(sum(status == 200 for status in conn.statuses.values()), 20)
        self.server.load(self.script)
        self.assert_lives()

    def test_a_bomb_of_tiny_indexed_fields_is_refused_cheaply(self):
        """One byte on the wire is one field of the table: the decoded sum must be bounded."""
        before_kib = self.gateway.resident_kib()
        for number in range(10):
            conn = self.raw_h2()
            encoder = hpack.Encoder()
            block = encoder.encode(fields(("x-a", "y" * 3000)), huffman=False)
            block += bytes([0x80 | 62]) * 12000
            pieces = [block[at:at + 16000] for at in range(0, len(block), 16000)]
            conn.send(conn.headers_frame(1, None, True, len(pieces) == 1, block=pieces[0]))
            for piece in pieces[1:]:
                more = frames.ContinuationFrame(1, data=piece)
                if piece is pieces[-1]:
                    more.flags.add("END_HEADERS")
                conn.send(more)
            conn.wait_until(lambda: conn.over(1), 3)
            self.assertNotEqual(conn.statuses.get(1), 200)
            if 1 in conn.statuses:
                self.assertEqual(conn.statuses[1], 431)
            if not conn.goaways and conn.closed is None and number == 0:
                conn.encoder = hpack.Encoder()
                conn.encoder.header_table_size = 0
                self.assert_serves(conn, 3)
        self.assertLess(self.gateway.resident_kib() - before_kib, MEMORY_SLACK_KIB)
        self.assert_lives()

    def test_large_headers_are_refused_by_size_and_by_count(self):
        for why, extra in (("bytes", [("x-a", "y" * 60000), ("x-b", "y" * 30000)]),
                           ("fields", [(f"x-{number}", "1") for number in range(120)]),
                           ("cookie parts", [("cookie", f"a{n}=1") for n in range(120)])):
            with self.subTest(why):
                conn = self.raw_h2()
                block = conn.encoder.encode(fields(*extra), huffman=False)
                pieces = [block[at:at + 16000] for at in range(0, len(block), 16000)]
                conn.send(conn.headers_frame(1, None, False, len(pieces) == 1, block=pieces[0]))
                for piece in pieces[1:]:
                    more = frames.ContinuationFrame(1, data=piece)
                    if piece is pieces[-1]:
                        more.flags.add("END_HEADERS")
                    conn.send(more)
                conn.wait_until(lambda: conn.over(1), 3)
                self.assertTrue(conn.statuses.get(1) == 431 or 1 in conn.resets or conn.goaways,
                                (conn.statuses, conn.closed))
        self.assertEqual(self.script.requests, [])
        self.assert_lives()

    def test_a_flood_of_continuations_ends_the_connection(self):
        conn = self.raw_h2()
        conn.send(conn.headers_frame(1, fields(), False, end_headers=False))
        for _ in range(200):
            conn.send(frames.ContinuationFrame(1, data=b""))
            if conn.closed:
                break
        self.assertTrue(conn.wait_until(lambda: conn.goaways or conn.closed, 3))
        self.assertEqual(self.script.requests, [])
        self.assert_lives()

    def test_rapid_resets_are_bounded(self):
        slow = Script([dict(ANSWER, delay_ms=100)], repeat_last=True)
        self.server.load(slow)
        conn = self.raw_h2()
        for number in range(1500):
            stream = 1 + 2 * number
            conn.send_headers(stream, fields())
            conn.send_data(stream, BODY, True)
            conn.send_reset(stream)
            if conn.closed or conn.goaways:
                break
        ended = conn.wait_until(lambda: conn.goaways or conn.closed, 5)
        self.assertTrue(ended, "1500 resets in a row were accepted")
        if conn.goaways:
            self.assertIn(conn.goaways[-1][0], (ENHANCE_YOUR_CALM, PROTOCOL_ERROR, 2))
        self.assertLess(len(slow.requests), 1200)
        self.server.load(self.script)
        self.assert_lives()

    def test_resets_that_the_client_provokes_are_bounded(self):
        """WINDOW_UPDATE of 0 makes the server reset the stream: that counts as well."""
        conn = self.raw_h2()
        for number in range(1500):
            stream = 1 + 2 * number
            conn.send_headers(stream, fields())
            update = frames.WindowUpdateFrame(stream, window_increment=1).serialize()
            conn.write(update[:9] + b"\0\0\0\0")
            if conn.closed or conn.goaways:
                break
        self.assertTrue(conn.wait_until(lambda: conn.goaways or conn.closed, 5))
        self.assertEqual(self.script.requests, [])
        self.assert_lives()

    def test_floods_of_control_frames_do_not_kill_the_process(self):
        ping = frames.PingFrame(0, opaque_data=b"12345678").serialize()
        settings = frames.SettingsFrame(0, settings={SETTINGS.INITIAL_WINDOW_SIZE: 65535}).serialize()
        priority = frames.PriorityFrame(3, depends_on=1, stream_weight=1).serialize()
        empty = frames.DataFrame(1, data=b"").serialize()
        before_kib = self.gateway.resident_kib()
        for why, frame in (("ping", ping), ("settings", settings), ("priority", priority),
                           ("empty data", empty)):
            with self.subTest(why):
                conn = self.raw_h2()
                conn.send_headers(1, fields())
                for _ in range(20):
                    conn.write(frame * 1000)
                    if conn.closed:
                        break
                time.sleep(0.1)
                conn.close()
                self.assert_lives()
        self.assertLess(self.gateway.resident_kib() - before_kib, MEMORY_SLACK_KIB)

    def test_a_flood_whose_answers_are_not_read_is_bounded(self):
        before_kib = self.gateway.resident_kib()
        conn = self.raw_h2()
        conn.sock.settimeout(2)
        ping = frames.PingFrame(0, opaque_data=b"12345678").serialize()
        try:
            for _ in range(300):
                conn.write(ping * 1000)
                if conn.closed:
                    break
        except OSError:
            pass
        self.assertLess(self.gateway.resident_kib() - before_kib, MEMORY_SLACK_KIB)
        conn.close()
        self.assert_lives()

    def test_errors_of_windows_are_refused(self):
        for why, stream in (("connection", 0), ("stream", 1)):
            with self.subTest(why):
                conn = self.raw_h2()
                conn.send_headers(1, fields())
                for _ in range(2):
                    conn.send(frames.WindowUpdateFrame(stream, window_increment=2 ** 31 - 1))
                ended = conn.wait_until(lambda: conn.goaways or 1 in conn.resets, 3)
                self.assertTrue(ended)
        self.assert_lives()

    def test_data_beyond_the_window_is_refused(self):
        conn = self.raw_h2()
        conn.send_headers(1, fields())
        for _ in range(400):
            conn.write(frames.DataFrame(1, data=b"x" * 16384).serialize())
            if conn.closed:
                break
        ended = conn.wait_until(lambda: conn.goaways or 1 in conn.resets
                                or conn.statuses.get(1) == 413, 3)
        self.assertTrue(ended, (conn.statuses, conn.closed))
        self.assertEqual(self.script.requests, [])
        self.assert_lives()

    def test_small_windows_are_obeyed_and_all_arrives(self):
        text = "z" * 50000
        big = {"json": {"choices": [{"message": {"content": text}}],
                        "usage": {"prompt_tokens": 1, "completion_tokens": 1}}}
        self.server.load(Script([big], repeat_last=True))
        for window in (1, 100, 4096):
            with self.subTest(window):
                conn = self.h2(settings={SETTINGS.INITIAL_WINDOW_SIZE: window}, timeout=20)
                if window == 1:
                    stream = conn.start("POST", "/v1/chat/completions", harness.bearer(KEY), BODY,
                                        pause_after_bytes=1)
                    wait_until(lambda: stream.reply.body, 3)
                    time.sleep(0.1)
                    self.assertEqual(len(stream.reply.body), 1)
                    with conn.changed:
                        conn.state.increment_flow_control_window(60000, stream.number)
                    conn.resume(stream)
                    reply = conn.wait(stream)
                else:
                    reply = self.ask(conn, BODY)
                self.assertTrue(reply.complete, reply)
                self.assertEqual(reply.json()["choices"][0]["message"]["content"], text)

    def test_a_window_that_grows_by_settings_goes_on(self):
        conn = self.raw_h2(settings={SETTINGS.INITIAL_WINDOW_SIZE: 0})
        conn.send_headers(1, fields())
        conn.send_data(1, BODY, True)
        conn.wait_until(lambda: 1 in conn.statuses, 3)
        time.sleep(0.1)
        self.assertNotIn(1, conn.bodies)
        conn.send(frames.SettingsFrame(0, settings={SETTINGS.INITIAL_WINDOW_SIZE: 65535}))
        self.assertTrue(conn.wait_until(lambda: 1 in conn.ended, 3))

    def test_a_stream_that_takes_nothing_is_ended(self):
        """No window for write_progress: the stream's memory is given back."""
        conn = self.raw_h2(settings={SETTINGS.INITIAL_WINDOW_SIZE: 0})
        conn.send_headers(1, fields())
        conn.send_data(1, BODY, True)
        ended = conn.wait_until(lambda: 1 in conn.resets or conn.goaways, 5)
        self.assertTrue(ended, "it is held for ever")
        self.assert_lives()

    def test_a_body_that_stops_is_let_go(self):
        conn = self.raw_h2()
        conn.send_headers(1, fields())
        conn.send_data(1, BODY[:5])
        conn.wait_until(lambda: conn.over(1), 3)
        self.assertTrue(conn.statuses.get(1) == 408 or 1 in conn.resets or conn.goaways)
        self.assertEqual(self.script.requests, [])

    def test_a_body_too_large_is_refused_early(self):
        conn = self.raw_h2()
        conn.send_headers(1, fields(("content-length", str(300 * 1024))))
        conn.wait_until(lambda: conn.over(1), 3)
        self.assertEqual(conn.statuses.get(1), 413)
        conn = self.h2()
        reply = conn.request("POST", "/v1/chat/completions", harness.bearer(KEY),
                             b"x" * (300 * 1024))
        self.assertEqual(reply.status, 413, reply)
        self.assertEqual(self.ask(conn, chat("y" * 200000)).status, 200)

    def test_a_window_is_given_back_over_many_uploads(self):
        conn = self.h2(timeout=20)
        for _ in range(30):
            self.assertEqual(self.ask(conn, chat("y" * 200000)).status, 200)

    def test_frames_that_break_the_protocol_end_the_connection_only(self):
        table = {
            "bad preface": None,
            "frame over the size limit": b"\x00\x50\x00\x00\x00\x00\x00\x00\x01" + b"x" * 0x5000,
            "data on stream 0": frames.DataFrame(1, data=b"x").serialize()[:5] + b"\0\0\0\0x",
            "even stream": b"\0\0\x01\x01\x05\0\0\0\x02\x82",
            "ping of 7 bytes": b"\0\0\x07\x06\0\0\0\0\0" + b"1234567",
            "settings with a rest": b"\0\0\x05\x04\0\0\0\0\0" + b"12345",
            "bad huffman": b"\0\0\x04\x01\x05\0\0\0\x01" + b"\x40\x82\xff\xff",
            "push promise": b"\0\0\x04\x05\x04\0\0\0\x01" + b"\0\0\0\x02",
        }
        for why, raw in table.items():
            with self.subTest(why):
                conn = self.raw_h2()
                if raw is None:
                    conn.close()
                    plain = self.h1()
                    plain.send(b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n")
                    self.assertTrue(plain.wait_closed(3000))
                else:
                    conn.write(raw)
                    self.assertTrue(conn.wait_until(lambda: conn.goaways or conn.closed, 3))
        self.assert_lives()

    def test_unknown_frames_and_settings_are_ignored(self):
        conn = self.raw_h2(settings={0x99: 7})
        conn.write(b"\0\0\x03\xfa\0\0\0\0\0abc")
        self.assert_serves(conn, 1)

    def test_a_ping_is_answered(self):
        conn = self.raw_h2()
        conn.send(frames.PingFrame(0, opaque_data=b"12345678"))
        self.assertTrue(conn.wait_until(lambda: conn.ping_acks == 1, 3))

    def test_authority_and_an_equal_host_are_fine(self):
        conn = self.raw_h2()
        for stream, headers in ((1, fields(("host", "h"))),
                                (3, fields(("host", "h"), without=(":authority",))),
                                (5, fields(("te", "trailers"))),
                                (7, fields(("cookie", "a=1"), ("cookie", "b=2")))):
            conn.send_headers(stream, headers)
            conn.send_data(stream, BODY, True)
            conn.wait_until(lambda: stream in conn.ended, 3)
            self.assertEqual(conn.statuses.get(stream), 200, headers)

    def test_many_streams_at_once_are_all_answered(self):
        conn = self.h2(timeout=20)
        replies = []

        def one():
            for _ in range(10):
                replies.append(self.ask(conn, chat()))

        threads = [threading.Thread(target=one) for _ in range(15)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([reply.status for reply in replies], [200] * 150)

    def test_no_hop_header_reaches_the_client(self):
        hops = {"Connection": "keep-alive, X-Hop", "Keep-Alive": "timeout=5", "X-Hop": "1",
                "Upgrade": "h2c", "Proxy-Connection": "x"}
        self.server.load(Script([dict(ANSWER, headers=hops)]))
        reply = self.ask(self.h2(), chat())
        self.assertEqual(reply.status, 200)
        self.assertFalse({"connection", "keep-alive", "x-hop", "upgrade", "proxy-connection",
                          "transfer-encoding"} & {name for name, _ in reply.headers})

    def refused_amid_its_body(self):
        """A connection whose stream 1 has had its answer while its body is still coming."""
        conn = self.raw_h2()
        fields = [(":method", "POST"), (":scheme", "http"), (":path", "/v1/chat/completions"),
                  (":authority", "gateway"), ("authorization", "Bearer wrong"),
                  ("content-type", "application/json")]
        conn.send_headers(1, fields)
        conn.send_data(1, b"{" * 1000)
        conn.wait_until(lambda: conn.over(1))
        return conn

    def test_an_early_answer_is_read_before_the_rest_is_refused(self):
        conn = self.refused_amid_its_body()
        time.sleep(0.1)
        self.assertNotIn(1, conn.resets)
        conn.send_data(1, b"{" * 1000)
        conn.wait_until(lambda: 1 in conn.resets)
        self.assertEqual(conn.resets[1], 0)

    def test_a_body_that_ends_behind_an_early_answer_is_not_reset(self):
        conn = self.refused_amid_its_body()
        conn.send_data(1, b"", end_stream=True)
        time.sleep(1.5)
        self.assertNotIn(1, conn.resets)
