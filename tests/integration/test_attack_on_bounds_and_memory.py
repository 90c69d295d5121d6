# SPDX-License-Identifier: Apache-2.0
"""What a hostile neighbour may not do: read freed bytes, outlive a deadline, starve others.

For:       servers that answer early, take their time or break off; clients that do not read or do
           not stop; a journal that cannot be written when the process ends.
"""

import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import hyperframe.frame as frames

import wire
from harness import (ENVIRONMENT, KEY, KEY_OTHER, MEMORY_SLACK_KIB, Gateway,
                     GatewayTest, Sse, bearer, chat, get, model, new_id, tenants, wait_until)

ANSWER = json.dumps({
    "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": "hi"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}}).encode()
LARGE_BYTES = 10_000_000     # more than socket buffers take in
CLIENT_FLOOD = """
import os, socket, sys
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
if os.fork() == 0:
    room = bytearray(1 << 18)
    while sock.recv_into(room):
        pass
    os._exit(0)
many = b"GET /livez HTTP/1.1\\r\\nhost: a\\r\\n\\r\\n" * 30000
try:
    while True:
        sock.sendall(many)
except OSError:
    pass
"""


def whole(body=ANSWER, *fields):
    """A whole 200 answer."""
    lines = [b"HTTP/1.1 200 OK", b"content-type: application/json",
             b"content-length: %d" % len(body), *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def read_request(conn):
    """Head and body of one request."""
    text = b""
    while b"\r\n\r\n" not in text:
        piece = conn.recv(65536)
        if not piece:
            return b""
        text += piece
    head, _, body = text.partition(b"\r\n\r\n")
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                   if line.lower().startswith(b"content-length:")), 0)
    pieces, got = [body], len(body)
    while got < length:
        piece = conn.recv(1 << 20)
        if not piece:
            break
        pieces.append(piece)
        got += len(piece)
    return b"".join(pieces)


class RawServer:
    """A model server whose every connection runs behave(sock)."""

    def __init__(self):
        self.behave = None
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                conn, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(conn,), daemon=True).start()

    def _serve(self, conn):
        with conn:
            try:
                self.behave(conn)
            except OSError:
                pass            # the gateway has closed it: what a test expects it asserts itself

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)    # wakes accept(), which would keep the port
        self.listener.close()


def raw_chat(body, key=KEY):
    return wire.request_bytes("POST", "/v1/chat/completions", bearer(key), body)


class AttackTest(GatewayTest):
    """One worker, two raw servers, short deadlines; no test of its own."""

    FAKES = ()
    TIMEOUTS = {}

    @classmethod
    def configure(cls):
        cls.first, cls.second = RawServer(), RawServer()
        cls.addClassCleanup(cls.first.close)
        cls.addClassCleanup(cls.second.close)
        return {
            "workers": 1,
            "models": {"small": model(("s1", cls.first.port), fallback=["large"]),
                       "single": model(("s1", cls.first.port)),
                       "large": model(("l1", cls.second.port))},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "health": {"out_after": 1000, "check_every": "0s"},
            "timeouts": cls.TIMEOUTS,
        }


class AServerThatAnswersEarly(AttackTest):
    def test_what_it_still_gets_is_the_rest_of_its_own_request(self):
        """It answers before it has read the request; another tenant's body comes meanwhile."""
        other_came, seen = threading.Event(), {}

        def behave(conn):
            conn.recv(1000)
            conn.sendall(whole()[:-5])
            other_came.wait(5)
            conn.settimeout(2)
            got = 0
            try:
                while got < LARGE_BYTES and (piece := conn.recv(1 << 20)):
                    got += len(piece)
                    seen["foreign"] = seen.get("foreign", 0) + piece.count(b"Z")
                seen["closed"] = not piece
            except ConnectionError:
                seen["closed"] = True
            except socket.timeout:
                seen["closed"] = False
            seen["got"] = got
            conn.sendall(ANSWER[-5:])
        self.first.behave, self.second.behave = behave, lambda conn: time.sleep(3)
        one = wire.H1(self.gateway.port)
        two = wire.H1(self.gateway.port)
        self.addCleanup(one.close)
        self.addCleanup(two.close)
        one.send(raw_chat(chat("x" * LARGE_BYTES, "single")))
        time.sleep(0.5)
        two.send(raw_chat(chat("Z" * LARGE_BYTES, "large"), KEY_OTHER))
        other_came.set()
        self.assertTrue(wait_until(lambda: "got" in seen, 10))
        self.assertEqual(seen.get("foreign", 0), 0, "bytes of another tenant's request")
        self.assertTrue(seen["closed"] or seen["got"] > LARGE_BYTES - 2000, seen)
        self.assertTrue(self.gateway.running())


class AServerThatReadsSlowly(AttackTest):
    TIMEOUTS = {"connect": "300ms", "first_byte": "5s"}

    def test_an_upload_may_take_longer_than_connecting(self):
        def behave(conn):
            time.sleep(1)
            read_request(conn)
            conn.sendall(whole())
        self.first.behave = behave
        reply = self.ask(self.h1(), chat("x" * LARGE_BYTES, "single"), timeout=10)
        self.assertEqual(reply.status, 200, reply)


class AServerThatDoesNotReadOn(AttackTest):
    TIMEOUTS = {"first_byte": "1s", "whole": "6s"}

    def test_an_upload_on_a_kept_connection_has_a_deadline(self):
        def behave(conn):
            read_request(conn)
            conn.sendall(whole())
            time.sleep(8)
        self.first.behave = behave
        conn = self.h1()
        self.assertEqual(self.ask(conn, chat("x", "single")).status, 200)
        began = time.monotonic()
        reply = self.ask(conn, chat("x" * LARGE_BYTES, "single"), timeout=8)
        self.assertEqual(reply.json()["error"]["code"], "first_byte_timeout")
        self.assertLess(time.monotonic() - began, 4)


class AServerThatBreaksItsErrorOff(AttackTest):
    def test_the_row_tells_of_the_answer_that_was_delivered(self):
        """503 with half a body and FIN, all seen in one turn; the fallback answers well."""
        def behave(conn):
            read_request(conn)
            self.gateway.signal(signal.SIGSTOP)
            time.sleep(0.1)
            conn.sendall(b"HTTP/1.1 503 Busy\r\ncontent-length: 100\r\n\r\n{}")
            conn.shutdown(socket.SHUT_RDWR)
            time.sleep(0.1)
            self.gateway.signal(signal.SIGCONT)
        self.first.behave = behave
        for name, body, billable in (("reported", ANSWER, True),
                                     ("estimated", ANSWER.replace(b'"usage"', b'"other"'), True)):
            with self.subTest(name):
                self.second.behave = lambda conn, body=body: (read_request(conn),
                                                              conn.sendall(whole(body)))
                reply, row = self.ask_row(self.h1(), chat("x"))
                self.assertEqual(reply.status, 200)
                self.assertEqual((row["outcome"], row["billable"]), ("ok", billable), row)


class AServerThatPacksAMountain(AttackTest):
    def test_unpacking_keeps_to_the_bound_of_a_flight(self):
        """Clients that read nothing; each answer is 200 KB that unpack to 200 MB."""
        packed = gzip.compress(b"a" * (200 << 20))

        def behave(conn):
            read_request(conn)
            conn.sendall(whole(packed, b"content-encoding: gzip"))
            time.sleep(5)
        self.first.behave = behave
        before = self.gateway.resident_kib()
        conns = [socket.create_connection(("127.0.0.1", self.gateway.port)) for _ in range(4)]
        for conn in conns:
            self.addCleanup(conn.close)
            conn.sendall(raw_chat(chat("x", "single")))
        time.sleep(2)
        self.assertLess(self.gateway.resident_kib() - before, MEMORY_SLACK_KIB)


class AClientThatDoesNotRead(AttackTest):
    TIMEOUTS = {"write_progress": "1s"}

    def test_frames_that_it_sends_do_not_keep_an_h2_connection(self):
        event = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"y" * 4000 + b'"}}]}\n\n'

        def behave(conn):
            read_request(conn)
            conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            while True:
                conn.sendall(event * 16)
        self.first.behave = behave
        sock = socket.socket()
        self.addCleanup(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.connect(("127.0.0.1", self.gateway.port))
        writer = wire.RawH2.__new__(wire.RawH2)
        writer.encoder = wire.hpack.Encoder()
        body = chat("x", "single", stream=True)
        fields = [(":method", "POST"), (":scheme", "http"), (":path", "/v1/chat/completions"),
                  (":authority", "a"), ("authorization", "Bearer " + KEY)]
        settings, acknowledged = frames.SettingsFrame(0), frames.SettingsFrame(0)
        settings.settings = {frames.SettingsFrame.INITIAL_WINDOW_SIZE: (1 << 31) - 1}
        acknowledged.flags.add("ACK")
        window = frames.WindowUpdateFrame(0, window_increment=1 << 30)
        data = frames.DataFrame(1, data=body, flags=["END_STREAM"])
        sock.sendall(wire.RawH2.PREFACE + b"".join(
            frame.serialize() for frame in (settings, acknowledged, window,
                                            writer.headers_frame(1, fields), data)))
        tick = frames.WindowUpdateFrame(0, window_increment=1).serialize()
        for _ in range(60):
            time.sleep(0.1)
            try:
                sock.sendall(tick)
            except OSError:
                return
        self.fail("open for 6 s although nothing was taken for longer than write_progress")


class AClientThatReadsLate(AttackTest):
    TIMEOUTS = {"write_progress": "30s", "whole": "3s", "stream_head_after": "500ms"}

    def test_a_piece_half_taken_is_not_dropped(self):
        """Comments before the first event are half sent when the whole deadline comes."""
        comment = b": " + b"k" * 60000 + b"\n\n"

        def behave(conn):
            read_request(conn)
            conn.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
            time.sleep(0.8)
            for _ in range(400):
                conn.sendall(comment)
        self.first.behave = behave
        conn = wire.H1(self.gateway.port, receive_buffer=4096)
        self.addCleanup(conn.close)
        request_id = new_id()
        conn.send(wire.request_bytes("POST", "/v1/chat/completions",
                                     dict(bearer(KEY), **{"x-request-id": request_id}),
                                     chat("x", "single", stream=True)))
        time.sleep(4)
        reply = conn.read_reply(timeout=10)
        self.assertEqual(Sse(reply.body).error()["code"] if Sse(reply.body).error() else None,
                         "whole_timeout", f"{len(reply.body)} bytes, {reply.problem}")
        self.assertEqual(self.gateway.row_of(request_id)["outcome"], "timeout")


class AClientThatDoesNotStop(AttackTest):
    def test_pipelined_requests_do_not_starve_other_connections(self):
        children = [subprocess.Popen([sys.executable, "-c", CLIENT_FLOOD, str(self.gateway.port)],
                                     start_new_session=True) for _ in range(2)]
        try:
            time.sleep(1)
            began = time.monotonic()
            for _ in range(3):
                reply = get(self.gateway.port, "/livez")
                self.assertEqual(reply.status, 200, "others wait as long as one client sends")
            self.assertLess(time.monotonic() - began, 3)
        finally:
            for child in children:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


class AJournalThatCannotBeWritten(AttackTest):
    def test_the_end_comes_all_the_same_and_signals_do_no_harm(self):
        """The disk is full when SIGTERM comes, and more signals come while the gateway ends."""
        directory = tempfile.mkdtemp(prefix="tollgate-test-full-")
        self.addCleanup(os.rmdir, directory)
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", directory],
                                 capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("no right to mount a small file system")
        self.addCleanup(subprocess.run, ["umount", directory], check=False)
        self.first.behave = lambda conn: (read_request(conn), conn.sendall(whole()))
        config = {name: value for name, value in self.gateway.config.items()
                  if name not in ("listen", "admin", "log")}
        gateway = Gateway(dict(config, meter={"journal": directory}, limits={"in_flight": 512},
                               timeouts={"drain": "2s"}), ENVIRONMENT)
        try:
            with open(os.path.join(directory, "fill"), "wb", buffering=0) as file:
                try:
                    while True:
                        file.write(b"z" * 4096)
                except OSError:
                    pass
            conn = wire.H1(gateway.port)
            for _ in range(20):
                conn.request("POST", "/v1/chat/completions", bearer(KEY), chat("x", "single"))
            conn.close()
            gateway.signal(signal.SIGTERM)
            for _ in range(5):
                time.sleep(0.3)
                if gateway.running():
                    gateway.signal(signal.SIGTERM)
            code = gateway.wait(10)
            self.assertNotIn("Sanitizer", gateway.output())
            self.assertIsNotNone(code, "it waits for the disk without end")
        finally:
            gateway.kill()
            gateway.stop()
