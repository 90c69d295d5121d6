# SPDX-License-Identifier: Apache-2.0
"""Replicas behind TLS: who they are is verified, and an answer that is cut is no whole one.

For:       names, authorities, client certificates, resumption; two replicas that differ in any of
           these never share a connection; ends without notice.
"""

import pathlib
import socket
import ssl
import tempfile
import unittest

import harness
import secure
from harness import REPLICA_KEY, Sse, chat, model, tenants, wait_until


class Answering(secure.Server):
    """Answers each connection with the same bytes by TLS, and ends it with or without notice."""

    def __init__(self, context, answer, notice):
        self.context, self.answer, self.notice = context, answer, notice
        super().__init__()

    def serve(self, sock):
        inner = secure.Tls(sock, self.context, server_side=True)
        seen = b""
        while b"}" not in seen:
            data = inner.recv(65536)
            if not data:
                return
            seen += data
        inner.sendall(self.answer)
        if self.notice:
            inner.finish()
        sock.shutdown(socket.SHUT_WR)


class Silent(secure.Server):
    """Takes connections and says nothing."""

    def serve(self, sock):
        while sock.recv(65536):
            pass


HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
BODY = b'{"id":"x","object":"chat.completion","choices":[],"usage":null}'


class ReplicasBehindTls(harness.GatewayTest):
    FAKES = (("s1", ()),)

    @classmethod
    def forwarder(cls, certificate, **more):
        forwarder = secure.Forwarder(cls.fakes["s1"].port,
                                     secure.server_context(certificate, **more))
        cls.addClassCleanup(forwarder.stop)
        return forwarder

    @classmethod
    def replica_model(cls, port, host="localhost", **tls):
        """A model on one replica at https://host:port."""
        return model(replicas=[{"name": "r", "url": f"https://{host}:{port}", "key": REPLICA_KEY,
                                **({"tls": tls} if tls else {})}])

    @classmethod
    def configure(cls):
        folder = pathlib.Path(tempfile.mkdtemp(dir=cls.holder.name))
        cls.authority = secure.Authority(folder / "ca")
        stranger = secure.Authority(folder / "stranger", "stranger")
        certificate = cls.authority.issue("replica", ("DNS:localhost", "DNS:other.example"))
        ca = cls.authority.ca
        client = cls.authority.issue("gateway", ("DNS:gateway",))
        cls.good = cls.forwarder(certificate)
        cls.by_address = cls.forwarder(cls.authority.issue("address", ("IP:127.0.0.1",)))
        cls.unknown = cls.forwarder(stranger.issue("replica"))
        cls.mutual = cls.forwarder(certificate, client_ca=ca)
        cls.old = cls.forwarder(certificate)
        cls.old.context.maximum_version = ssl.TLSVersion.TLSv1_2
        cls.silent = Silent()
        plain = secure.Forwarder(cls.fakes["s1"].port)
        whole = HEAD + b"content-length: %d\r\n\r\n" % len(BODY) + BODY
        cut = HEAD + b"content-length: %d\r\n\r\n" % (len(BODY) + 9) + BODY
        until_close = HEAD + b"connection: close\r\n\r\n" + BODY
        context = secure.server_context(certificate)
        answering = {name: Answering(context, answer, notice) for name, answer, notice in (
            ("whole", whole, False), ("cut", cut, True), ("cut-dirty", cut, False),
            ("until-close", until_close, True), ("until-close-dirty", until_close, False))}
        for server in (cls.silent, plain, *answering.values()):
            cls.addClassCleanup(server.stop)
        models = {
            "small": cls.replica_model(cls.good.port, ca=ca),
            "named": cls.replica_model(cls.good.port, "127.0.0.1", ca=ca, name="other.example"),
            "wrong-name": cls.replica_model(cls.good.port, "127.0.0.1", ca=ca),
            "wrong-host": cls.replica_model(cls.good.port, ca=ca, name="wrong.example"),
            "by-address": cls.replica_model(cls.by_address.port, "127.0.0.1", ca=ca),
            "unknown": cls.replica_model(cls.unknown.port),
            "trusted": cls.replica_model(cls.unknown.port, verify=False),
            "mutual": cls.replica_model(cls.mutual.port, ca=ca, certificate=client[0],
                                        key=client[1]),
            "no-certificate": cls.replica_model(cls.mutual.port, ca=ca),
            "old": cls.replica_model(cls.old.port, ca=ca),
            "plain": cls.replica_model(plain.port, verify=False),
            "silent": cls.replica_model(cls.silent.port, verify=False),
            **{name: cls.replica_model(server.port, ca=ca)
               for name, server in answering.items()},
        }
        for entry in models.values():
            entry["upstream_model"] = "small"
        return {"models": models, "tenants": tenants(), "health": {"out_after": 1000},
                "timeouts": {"connect": "700ms", "replica_idle": "1s"},
                "retry": {"attempts": 1}}

    def ask_model(self, name, prompt="hello", **more):
        return self.ask(self.h1(timeout=20), chat(prompt, name, **more))

    def metric(self, name):
        for line in self.gateway.admin("/metrics").text().splitlines():
            if line.startswith(f"tollgate_{name} "):
                return int(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def assert_unreachable(self, name, *reasons):
        """The log says so once a second; the client is told that there is no replica."""
        def warned():
            self.assert_error(self.ask_model(name), 503, "no_replica")
            lines = [line for line in self.gateway.output().splitlines()
                     if "replica_unreachable" in line and f"{name}/r" in line]
            return lines and lines[-1]
        line = wait_until(warned, 5, 0.3)
        self.assertTrue(line, f"no warning about {name}")
        self.assertTrue(any(reason in line for reason in reasons), line)

    def test_a_replica_is_verified_and_asked_by_name(self):
        reply = self.ask_model("small")
        self.assertEqual(reply.status, 200, reply)
        self.assertIn("localhost", self.good.asked_for)
        self.assertIn("http/1.1", self.good.protocols)
        self.assertTrue(Sse(self.ask_model("small", "[[fake tokens=9 delay_ms=5]]",
                                           stream=True).body).done)

    def test_the_name_may_be_another_than_the_one_connected_to(self):
        self.assertEqual(self.ask_model("named").status, 200)
        self.assertIn("other.example", self.good.asked_for)

    def test_an_address_is_verified_and_not_sent_as_a_name(self):
        self.assertEqual(self.ask_model("by-address").status, 200)
        self.assertEqual(set(self.by_address.asked_for), {None})

    def test_older_versions_down_to_1_2_are_spoken(self):
        self.assertEqual(self.ask_model("old").status, 200)

    def test_who_is_not_verified_gets_no_request(self):
        served = self.fake_posts()
        before = self.metric("replica_handshakes_failed_total")
        self.assert_unreachable("unknown", "certificate")
        self.assert_unreachable("wrong-name", "mismatch")
        self.assert_unreachable("wrong-host", "mismatch")
        self.assertEqual(self.fake_posts(), served)
        self.assertGreaterEqual(self.metric("replica_handshakes_failed_total"), before + 3)

    def test_verification_can_be_given_up_and_then_nothing_is_shared(self):
        """Two replicas at one address: what the one trusts, the other does not."""
        for _ in range(2):
            self.assertEqual(self.ask_model("trusted").status, 200)
            self.assert_error(self.ask_model("unknown"), 503, "no_replica")

    def test_our_certificate_is_shown_to_who_asks(self):
        self.assertEqual(self.ask_model("mutual").status, 200)
        names = [certificate["subjectAltName"] for certificate in self.mutual.certificates]
        self.assertIn((("DNS", "gateway"),), names)
        served = self.fake_posts()
        self.assertIn(self.ask_model("no-certificate").status, (502, 503))
        self.assertEqual(self.fake_posts(), served)

    def test_connections_are_kept_and_sessions_resumed(self):
        for name, forwarder in (("small", self.good), ("old", self.old)):
            self.assertEqual(self.ask_model(name).status, 200)
            resumed, made = forwarder.resumed, forwarder.accepted
            conn = self.h1()
            for _ in range(5):
                self.assertEqual(self.ask(conn, chat(model_name=name)).status, 200)
            self.assertLessEqual(forwarder.accepted, made + 1)  # one a worker
            wait_until(lambda: self.metric("replica_connections_open") == 0, 5, 0.1)
            self.assertEqual(self.ask_model(name).status, 200)
            self.assertGreater(forwarder.resumed, resumed)

    def test_large_bodies_pass_both_ways(self):
        size = 3_000_000
        reply = self.ask_model("small", f"[[fake big={size}]]" + "p" * size)
        self.assertEqual(reply.status, 200, reply)
        self.assertGreater(len(reply.json()["choices"][0]["message"]["content"]), size)
        reply = self.ask_model("small", "[[fake tokens=3000 split=7]]", stream=True)
        self.assertTrue(Sse(reply.body).done)

    def test_what_is_no_tls_or_says_nothing_is_unreachable(self):
        self.assert_unreachable("plain", "wrong version number", "http", "packet length",
                                "closed")
        self.assert_unreachable("silent", "handshake in time")

    def test_an_answer_that_is_cut_is_no_whole_one(self):
        for name, status in (("whole", 200), ("until-close", 200), ("cut", 502),
                             ("cut-dirty", 502), ("until-close-dirty", 502)):
            with self.subTest(name):
                reply = self.ask_model(name)
                if status == 200:
                    self.assertEqual((reply.status, bytes(reply.body)), (200, BODY), reply)
                else:
                    self.assertTrue(reply.status == 502 or not reply.complete, reply)

    def test_a_replica_that_breaks_mid_stream_is_seen_as_broken(self):
        reply = self.ask_model("small", "[[fake tokens=9 fin=4]]", stream=True)
        self.assertFalse(Sse(reply.body).done)
        self.assertEqual(Sse(reply.body).error()["code"], "replica_gone")

    def test_another_authority_after_a_reload_is_another_connection(self):
        self.assertEqual(self.ask_model("small").status, 200)
        path = pathlib.Path(self.authority.ca)
        good = path.read_bytes()
        self.addCleanup(lambda: (path.write_bytes(good), self.gateway.admin("/reload", "POST")))
        path.write_bytes(pathlib.Path(
            secure.Authority(path.parent / "new", "new").ca).read_bytes())
        self.assertEqual(self.gateway.admin("/reload", "POST").status, 200)
        self.assertTrue(wait_until(lambda: self.ask_model("small").status == 503))


if __name__ == "__main__":
    unittest.main()
