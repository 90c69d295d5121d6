# SPDX-License-Identifier: Apache-2.0
"""Clients come by TLS: the same bytes, the same answers, and nothing is lost at the ends.

For:       ALPN, versions, client certificates, 421, certificates that change under open
           connections, records cut anywhere, ends that are none.
"""

import os
import pathlib
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import unittest

import harness
import secure
import wire
from harness import KEY, Sse, bearer, chat, free_ports, new_id, wait_until

BIG = 3_000_000
STREAM = chat("[[fake tokens=30 delay_ms=20]]", stream=True)


class TlsTest(harness.GatewayTest):
    """A gateway that listens in the clear, by TLS, and by TLS with client certificates."""

    FAKES = (("s1", ()),)
    MORE = {}

    @classmethod
    def configure(cls):
        folder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.authority = secure.Authority(cls.folder / "ca")
        cls.stranger = secure.Authority(cls.folder / "stranger", "stranger")
        certificate, key = cls.authority.issue("server", ("DNS:localhost", "DNS:*.gate.example",
                                                          "IP:127.0.0.1"))
        cls.tls_port, cls.mutual_port = free_ports(2)
        cls.certificate, cls.key = cls.folder / "live.pem", cls.folder / "live.key"
        cls.install(certificate, key)
        tls = {"certificate": str(cls.certificate), "key": str(cls.key)}
        return {
            "listen_too": [{"address": f"127.0.0.1:{cls.tls_port}", "tls": tls},
                           {"address": f"127.0.0.1:{cls.mutual_port}",
                            "tls": dict(tls, client_ca=cls.authority.ca)}],
            "models": {"small": harness.model(("s1", cls.fakes["s1"].port))},
            "tenants": harness.tenants(), **cls.MORE}

    @classmethod
    def install(cls, certificate, key):
        cls.certificate.write_bytes(pathlib.Path(certificate).read_bytes())
        cls.key.write_bytes(pathlib.Path(key).read_bytes())

    def context(self, *protocols, **more):
        return secure.client_context(self.authority.ca, protocols, **more)

    def tls_h1(self, port=None, session=None, context=None, **more):
        wrap = secure.wrap(context or self.context("http/1.1"), session=session)
        conn = wire.H1(port or self.tls_port, wrap=wrap, **more)
        self.addCleanup(conn.close)
        return conn

    def tls_h2(self, port=None, context=None, **more):
        wrap = secure.wrap(context or self.context("h2", "http/1.1"))
        conn = wire.H2(port or self.tls_port, wrap=wrap, **more)
        self.addCleanup(conn.close)
        return conn

    def metric(self, name):
        for line in self.gateway.admin("/metrics").text().splitlines():
            if line.startswith(f"tollgate_{name} "):
                return int(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def assert_metric_grows(self, name, before):
        self.assertTrue(wait_until(lambda: self.metric(name) > before), name)


class ClientsComeByTls(TlsTest):
    def test_both_protocols_and_both_versions_answer_as_in_the_clear(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            for conn in (self.tls_h1(context=self.context("http/1.1", version=version)),
                         self.tls_h2(context=self.context("h2", version=version))):
                with self.subTest(version=version, conn=type(conn).__name__):
                    reply = self.ask(conn, chat("hello [[fake tokens=5]]"))
                    self.assertEqual(reply.status, 200, reply)
                    self.assertEqual(reply.json()["usage"]["completion_tokens"], 5)
                    stream = Sse(self.ask(conn, STREAM).body)
                    self.assertTrue(stream.done)
                    self.assertEqual(self.ask(conn, chat()).status, 200)

    def test_alpn_decides_and_ours_comes_first(self):
        for offered, chosen in ((("http/1.1", "h2"), "h2"), (("h2",), "h2"),
                                (("spdy/9", "http/1.1"), "http/1.1"), ((), None)):
            conn = self.tls_h1(context=self.context(*offered))
            self.assertEqual(conn.sock.object.selected_alpn_protocol(), chosen)

    def test_without_alpn_the_first_bytes_decide(self):
        for conn in (self.tls_h1(context=self.context()), self.tls_h2(context=self.context())):
            self.assertEqual(self.ask(conn, chat()).status, 200)

    def test_what_alpn_chose_holds(self):
        conn = self.tls_h1(context=self.context("h2"))
        conn.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n")
        self.assertTrue(conn.wait_closed(3000))
        self.assertNotIn(b"HTTP/1.1 200", conn.buffer)
        conn = self.tls_h1()
        conn.send(wire.RawH2.PREFACE)
        self.assertTrue(conn.wait_closed(3000))
        self.assertTrue(conn.buffer.startswith(b"HTTP/1.1 4"), bytes(conn.buffer[:40]))

    def test_a_client_without_a_common_protocol_is_told_so(self):
        before = self.metric("handshakes_failed_total")
        with self.assertRaisesRegex(ssl.SSLError, "(?i)no.application.protocol"):
            self.tls_h1(context=self.context("spdy/9"))
        self.assert_metric_grows("handshakes_failed_total", before)

    def test_older_versions_and_weaker_suites_are_refused(self):
        old = self.context("http/1.1")
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1_1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        weak = self.context("http/1.1", version=ssl.TLSVersion.TLSv1_2)
        weak.set_ciphers("ECDHE-ECDSA-AES128-SHA256")
        for context in (old, weak):
            with self.assertRaisesRegex(ssl.SSLError, "ALERT"):
                self.tls_h1(context=context)
        self.assertEqual(self.ask(self.tls_h1(), chat()).status, 200)

    def test_the_client_may_choose_among_the_suites(self):
        context = self.context("http/1.1", version=ssl.TLSVersion.TLSv1_2)
        context.set_ciphers("ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-ECDSA-AES128-GCM-SHA256")
        self.assertEqual(self.tls_h1(context=context).sock.object.cipher()[0],
                         "ECDHE-ECDSA-CHACHA20-POLY1305")

    def test_plain_http_on_the_port_of_tls_is_closed_and_counted(self):
        before = self.metric("handshakes_failed_total")
        conn = wire.H1(self.tls_port)
        self.addCleanup(conn.close)
        conn.send(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n" + b"x" * 200_000)
        self.assertTrue(conn.wait_closed(3000))
        self.assertEqual(conn.closed, "fin")
        self.assert_metric_grows("handshakes_failed_total", before)
        self.assert_alive()

    def test_sessions_are_resumed_by_tickets(self):
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            before = self.metric("handshakes_resumed_total")
            context = self.context("http/1.1", version=version)
            first = self.tls_h1(context=context)
            self.assertEqual(self.ask(first, chat()).status, 200)
            second = self.tls_h1(context=context, session=first.sock.object.session)
            self.assertTrue(second.sock.object.session_reused)
            self.assertEqual(self.ask(second, chat()).status, 200)
            # The ticket that came with the second, for one of TLS 1.3 is used once.
            third = self.tls_h1(context=context, session=second.sock.object.session)
            self.assertTrue(third.sock.object.session_reused)
            self.assertEqual(self.ask(third, chat()).status, 200)
            if version == ssl.TLSVersion.TLSv1_3:
                self.assertNotEqual(first.sock.object.session.id, second.sock.object.session.id)
            self.assert_metric_grows("handshakes_resumed_total", before)

    def test_hosts_that_the_certificate_does_not_cover_get_421(self):
        h1, h2 = self.tls_h1(), self.tls_h2()
        for host, status in (("localhost", 200), ("LOCALHOST:99", 200), ("a.gate.example", 200),
                             ("127.0.0.1", 200), ("other.example", 421), ("127.0.0.2:80", 421),
                             ("a.b.gate.example", 421), ("gate.example", 421), ("[::1]", 421),
                             ("localhost", 200)):
            with self.subTest(host=host):
                reply = h2.request("GET", "/livez", authority=host)
                self.assertEqual(reply.status, status)
                if h1.closed is None:
                    reply = h1.request("GET", "/livez", {"Host": host})
                    self.assertEqual(reply.status, status)
                    if status == 421:
                        self.assertEqual(reply.json()["error"]["code"], "misdirected_request")
                        h1 = self.tls_h1()

    def test_client_certificates_are_asked_for_and_verified(self):
        good = self.authority.issue("client", ("DNS:client",))
        wrong = self.stranger.issue("client", ("DNS:client",))
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = self.context("http/1.1", version=version, certificate=good)
            self.assertEqual(self.ask(self.tls_h1(self.mutual_port, context=context),
                                      chat()).status, 200)
            for certificate, alert in ((None, "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE"),
                                       (wrong, "UNKNOWN_CA")):
                served = self.fake_posts()
                context = self.context("http/1.1", version=version, certificate=certificate)
                with self.assertRaisesRegex(ssl.SSLError, alert):
                    conn = self.tls_h1(self.mutual_port, context=context)
                    conn.send(wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY),
                                                 chat(), host="localhost"))
                    conn.wait_closed(3000)
                self.assertEqual(self.fake_posts(), served)

    def test_idle_connections_cost_little_and_all_serve(self):
        before = self.gateway.resident_kib()
        context = self.context("http/1.1")
        conns = [self.tls_h1(context=context) for _ in range(200)]
        for conn in conns[::20]:
            self.assertEqual(self.ask(conn, chat()).status, 200)
        self.assertLess(self.gateway.resident_kib() - before, harness.MEMORY_SLACK_KIB)
        for conn in conns:
            self.assertEqual(conn.request("GET", "/livez").status, 200)


class BytesPassTlsWhole(TlsTest):
    def test_large_bodies_pass_both_ways_whoever_is_slow(self):
        body = chat(f"[[fake big={BIG}]]" + "p" * BIG)
        clear = self.ask(self.h1(), body, timeout=20).json()["choices"][0]["message"]["content"]
        for conn in (self.tls_h1(receive_buffer=4096, timeout=20), self.tls_h2(timeout=20)):
            reply = self.ask(conn, body, timeout=20)
            self.assertEqual(reply.status, 200, reply)
            self.assertEqual(reply.json()["choices"][0]["message"]["content"], clear)

    def test_an_answer_read_late_keeps_its_tail_and_ends_in_good_order(self):
        conn = self.tls_h1(receive_buffer=4096, timeout=20)
        conn.send(wire.request_bytes("POST", "/v1/chat/completions",
                                     dict(bearer(KEY), Connection="close"),
                                     chat(f"[[fake big={BIG}]]"), host="localhost"))
        time.sleep(0.5)  # the gateway has filled what the socket takes, and waits
        reply = conn.read_reply(timeout=20)
        self.assertTrue(reply.complete, reply)
        self.assertGreater(len(reply.json()["choices"][0]["message"]["content"]), BIG)
        self.assertTrue(conn.wait_closed(5000))
        self.assertTrue(conn.sock.clean)

    def test_many_streams_share_a_connection_with_a_slow_one(self):
        conn = self.tls_h2(timeout=20)
        slow = conn.start("POST", "/v1/chat/completions", bearer(KEY),
                          chat("[[fake big=900000]]", stream=True), pause_after_bytes=1)
        others = [conn.start("POST", "/v1/chat/completions", bearer(KEY), STREAM)
                  for _ in range(20)]
        for stream in others:
            self.assertTrue(Sse(conn.wait(stream).body).done)
        conn.resume(slow)
        self.assertTrue(Sse(conn.wait(slow, 20).body).done)

    def test_records_of_one_byte_are_read(self):
        conn = self.tls_h1()
        request = wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY), chat(),
                                     host="localhost")
        conn.sock.raw.sendall(b"".join(conn.sock.seal(bytes([byte])) for byte in request))
        self.assertEqual(conn.read_reply().status, 200)

    def test_records_that_come_byte_by_byte_are_read(self):
        conn = self.tls_h1()
        for _ in range(2):
            for byte in conn.sock.seal(wire.request_bytes(
                    "POST", "/v1/chat/completions", bearer(KEY), chat(), host="localhost")):
                conn.sock.raw.sendall(bytes([byte]))
            self.assertEqual(conn.read_reply().status, 200)

    def test_a_handshake_that_comes_byte_by_byte_is_made(self):
        class Slowly:
            def __init__(self, sock):
                self.sock = sock

            def sendall(self, data):
                for byte in data:
                    self.sock.sendall(bytes([byte]))

            def __getattr__(self, name):
                return getattr(self.sock, name)

        context = self.context("http/1.1")
        conn = wire.H1(self.tls_port, wrap=lambda sock: secure.Tls(Slowly(sock), context))
        self.addCleanup(conn.close)
        self.assertEqual(conn.request("GET", "/livez").status, 200)

    def test_pipelined_requests_in_one_record_are_answered_in_order(self):
        conn = self.tls_h1()
        conn.send(b"".join(wire.request_bytes(
            "POST", "/v1/chat/completions", bearer(KEY), chat(f"[[fake tokens={count}]]"),
            host="localhost") for count in (3, 5, 7)))
        self.assertEqual([conn.read_reply().json()["usage"]["completion_tokens"]
                          for _ in range(3)], [3, 5, 7])

    def test_a_body_cut_without_notice_reaches_no_replica(self):
        served = self.fake_posts()
        body = chat("x" * 50_000)
        whole = wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY), body,
                                   host="localhost")
        for end in ("record", "middle", "notice"):
            conn = self.tls_h1()
            sealed = conn.sock.seal(whole[:-100])
            conn.sock.raw.sendall(sealed if end != "middle" else sealed[:-50])
            if end == "notice":
                conn.sock.finish()
            else:
                conn.sock.raw.shutdown(socket.SHUT_WR)
            self.assertTrue(self.ends(conn))
        self.assertEqual(self.fake_posts(), served)
        self.assert_alive()

    def ends(self, conn):
        """Does the gateway end the connection, in whatever way?"""
        try:
            return conn.wait_closed(3000)
        except ssl.SSLError:
            return True

    def test_garbage_between_records_ends_the_connection(self):
        conn = self.tls_h1()
        conn.sock.raw.sendall(b"\x17\x03\x03\x00\x20" + b"\x00" * 32)
        with self.assertRaisesRegex(ssl.SSLError, "BAD_RECORD_MAC"):
            conn.wait_closed(3000)
        self.assert_alive()

    def test_an_answer_that_breaks_does_not_end_in_good_order(self):
        """HTTP/1.0 has no other mark of a stream's end than that of the connection."""
        for prompt, clean in (("[[fake tokens=8]]", True), ("[[fake tokens=8 reset=4]]", False)):
            conn = self.tls_h1()
            body = chat(prompt, stream=True)
            head = wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY), body,
                                      host="localhost")
            conn.send(head.replace(b"HTTP/1.1", b"HTTP/1.0", 1))
            self.assertTrue(conn.wait_closed(5000))
            self.assertEqual(conn.sock.clean, clean, bytes(conn.buffer[-200:]))

    def test_a_slow_reader_is_told_that_its_stream_broke(self):
        conn = self.tls_h1(receive_buffer=4096, timeout=20)
        conn.send(wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY),
                                     chat("[[fake tokens=4000 fin=30000]]", stream=True, n=8),
                                     host="localhost"))
        reply = conn.read_reply(timeout=30, on_data=lambda _: time.sleep(0.001))
        self.assertFalse(reply.complete)
        self.assertEqual(Sse(reply.body).error()["code"], "replica_gone")

    def test_a_client_that_leaves_cancels_its_replica(self):
        for leave in ("abort", "notice"):
            request_id = new_id()
            conn = self.tls_h1()
            conn.send(wire.request_bytes(
                "POST", "/v1/chat/completions", dict(bearer(KEY), **{"x-request-id": request_id}),
                chat("[[fake tokens=500 delay_ms=20]]", stream=True), host="localhost"))
            self.assertTrue(conn.wait_for(b"data:", 3000))
            if leave == "abort":
                conn.sock.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                                         b"\1\0\0\0\0\0\0\0")
                conn.close()
            else:
                conn.sock.finish()
            row = self.gateway.row_of(request_id)
            self.assertEqual(row["outcome"], "client_gone")


class HandshakesHaveDeadlines(TlsTest):
    MORE = {"timeouts": {"handshake": "400ms", "idle_h1": "300ms", "write_progress": "1s"}}

    def test_one_that_is_not_made_in_time_ends(self):
        before = self.metric("handshakes_failed_total")
        for begin in (b"", b"\x16\x03\x01\x02\x00\x01"):
            conn = wire.H1(self.tls_port)
            self.addCleanup(conn.close)
            conn.send(begin)
            self.assertTrue(conn.wait_closed(3000))
        self.assertGreaterEqual(self.metric("handshakes_failed_total"), before + 2)

    def test_an_idle_connection_is_closed_in_good_order(self):
        conn = self.tls_h1()
        self.assertEqual(conn.request("GET", "/livez").status, 200)
        self.assertTrue(conn.wait_closed(3000))
        self.assertTrue(conn.sock.clean)

    def test_a_client_that_takes_nothing_is_closed(self):
        request_id = new_id()
        conn = self.tls_h1(receive_buffer=4096)
        conn.send(wire.request_bytes(
            "POST", "/v1/chat/completions",
            dict(bearer(KEY), **{"x-request-id": request_id, "Connection": "close"}),
            chat("[[fake big=20000000]]"), host="localhost"))
        row = self.gateway.row_of(request_id, 10)
        self.assertEqual(row["outcome"], "client_gone")
        self.assertTrue(wait_until(lambda: self.metric("connections_open") <= 2))


class CertificatesChange(TlsTest):
    def serial(self, conn):
        with conn.sock.lock:  # a ticket that is being read makes the session look unfinished
            return ssl.DER_cert_to_PEM_cert(conn.sock.object.getpeercert(binary_form=True))

    def reload(self):
        return self.gateway.admin("/reload", "POST")

    def test_a_reload_is_for_new_handshakes_and_open_streams_go_on(self):
        conn = self.tls_h2()
        old = self.serial(conn)
        stream = conn.start("POST", "/v1/chat/completions", bearer(KEY),
                            chat("[[fake tokens=40 delay_ms=20]]", stream=True))
        conn.wait_until(lambda: stream.reply.body)
        self.install(*self.authority.issue("new", ("DNS:localhost", "IP:127.0.0.1")))
        self.assertEqual(self.reload().status, 200)
        self.assertTrue(wait_until(lambda: self.serial(self.tls_h1()) != old))
        self.assertTrue(Sse(conn.wait(stream).body).done)
        self.assertEqual(self.ask(conn, chat()).status, 200)

    def test_a_reload_without_a_change_keeps_tickets_good(self):
        context = self.context("http/1.1")
        first = self.tls_h1(context=context)
        self.assertEqual(self.ask(first, chat()).status, 200)
        self.gateway.signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: "reloaded" in self.gateway.output()))
        second = self.tls_h1(context=context, session=first.sock.object.session)
        self.assertTrue(second.sock.object.session_reused)

    def test_bad_files_refuse_the_reload_and_say_why(self):
        certificate, key = self.certificate.read_bytes(), self.key.read_bytes()
        other = pathlib.Path(self.authority.issue("other")[1]).read_bytes()
        self.addCleanup(lambda: (self.certificate.write_bytes(certificate),
                                 self.key.write_bytes(key)))
        for what, bad_certificate, bad_key, expected in (
                ("no certificate", b"hello", key, "has no certificate in PEM form"),
                ("cut", certificate[:300], key, "has no certificate in PEM form"),
                ("no key", certificate, b"", "has no private key in PEM form"),
                ("another key", certificate, other, "is not the key of the certificate"),
                ("gone", None, key, "cannot be read: No such file")):
            with self.subTest(what):
                if bad_certificate is None:
                    self.certificate.unlink()
                else:
                    self.certificate.write_bytes(bad_certificate)
                self.key.write_bytes(bad_key)
                reply = self.reload()
                self.assertEqual(reply.status, 400, reply)
                self.assertIn(expected, reply.text())
                self.assertIn("listen[1].tls.", reply.text())
                self.assertEqual(self.ask(self.tls_h1(), chat()).status, 200)
                checked = subprocess.run([harness.TOLLGATE, "check", self.gateway.config_path],
                                         capture_output=True, text=True, check=False,
                                         env=dict(os.environ, **harness.ENVIRONMENT))
                self.assertEqual(checked.returncode, 1)
                self.assertIn(expected, checked.stderr)


class ADrainByTls(TlsTest):
    def test_streams_end_whole_and_connections_in_good_order(self):
        h1, h2 = self.tls_h1(timeout=20), self.tls_h2(timeout=20)
        idle = self.tls_h1()
        self.assertEqual(idle.request("GET", "/livez").status, 200)
        body = chat("[[fake tokens=40 delay_ms=30]]", stream=True)
        stream = h2.start("POST", "/v1/chat/completions", bearer(KEY), body)
        h1.send(wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY), body,
                                   host="localhost"))
        self.assertTrue(h1.wait_for(b"data:", 3000))
        self.gateway.signal(signal.SIGTERM)
        self.assertTrue(Sse(h1.read_reply().body).done)
        self.assertTrue(Sse(h2.wait(stream).body).done)
        for conn in (h1, idle):
            self.assertTrue(conn.wait_closed(3000))
            self.assertTrue(conn.sock.clean)
        self.assertEqual(self.gateway.wait(10), 0)


if __name__ == "__main__":
    unittest.main()
