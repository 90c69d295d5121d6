# SPDX-License-Identifier: Apache-2.0
"""Unix sockets on both sides: as good as a port, and their files are kept in order.

For:       listeners (permissions, stale and busy files, removal), replicas (with a base path).
"""

import os
import pathlib
import signal
import socket
import stat
import tempfile
import threading
import unittest

import harness
import wire
from harness import ENVIRONMENT, KEY, REPLICA_KEY, Fake, Gateway, Sse, bearer, chat, model, tenants


class UnixSockets(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.folder = pathlib.Path(self.holder.name)
        self.path = str(self.folder / "gate.sock")

    def start(self, **more):
        self.fake = Fake(self.holder.name, "s1", "--uds", str(self.folder / "s1.sock"))
        self.addCleanup(self.fake.stop)
        config = {"listen_too": [{"address": f"unix:{self.path}"}],
                  "models": {"small": model(("s1", self.fake.port))}, "tenants": tenants()}
        self.gateway = Gateway({**config, **more}, ENVIRONMENT)
        self.addCleanup(self.gateway.stop)
        return self.gateway

    def ask(self, conn, body=chat()):
        self.addCleanup(conn.close)
        return conn.request("POST", "/v1/chat/completions", bearer(KEY), body)

    def test_both_protocols_come_by_the_socket(self):
        self.start()
        for client in (wire.H1, wire.H2):
            conn = client(self.path)
            self.assertEqual(self.ask(conn).status, 200)
            self.assertTrue(Sse(self.ask(conn, chat(stream=True)).body).done)

    def test_every_worker_serves_it_and_no_address_counts_it(self):
        gateway = self.start(limits={"conns_per_ip": 3})
        conns = [wire.H1(self.path) for _ in range(20)]
        for conn in conns:
            self.assertEqual(self.ask(conn).status, 200)
        self.assertEqual(harness.get(gateway.port, "/livez").status, 200)

    def test_its_permissions_are_said(self):
        self.start(listen_too=[{"address": f"unix:{self.path}"},
                               {"address": f"unix:{self.path}.2", "mode": "0600"}])
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o660)
        self.assertEqual(stat.S_IMODE(os.stat(self.path + ".2").st_mode), 0o600)

    def test_a_file_left_behind_is_replaced_and_goes_at_the_end(self):
        left = socket.socket(socket.AF_UNIX)
        left.bind(self.path)
        left.close()
        gateway = self.start()
        self.assertEqual(self.ask(wire.H1(self.path)).status, 200)
        self.assertEqual(gateway.stop(), 0)
        self.assertFalse(os.path.exists(self.path))

    def test_a_killed_gateway_is_succeeded(self):
        gateway = self.start()
        gateway.kill()
        self.assertTrue(os.path.exists(self.path))
        self.start()
        self.assertEqual(self.ask(wire.H1(self.path)).status, 200)

    def test_a_socket_in_use_or_another_file_is_left_alone(self):
        busy = socket.socket(socket.AF_UNIX)
        self.addCleanup(busy.close)
        busy.bind(self.path)
        busy.listen()
        with self.assertRaisesRegex(RuntimeError, "another process listens there"):
            self.start()
        other = self.folder / "note"
        other.write_text("mine")
        with self.assertRaisesRegex(RuntimeError, "no socket"):
            self.start(listen_too=[{"address": f"unix:{other}"}])
        self.assertEqual(other.read_text(), "mine")

    def test_the_file_of_a_successor_stays(self):
        gateway = self.start()
        os.unlink(self.path)
        successor = socket.socket(socket.AF_UNIX)
        self.addCleanup(successor.close)
        successor.bind(self.path)
        self.assertEqual(gateway.stop(), 0)
        self.assertTrue(os.path.exists(self.path))

    def test_a_drain_lets_streams_of_the_socket_end(self):
        gateway = self.start()
        conn = wire.H1(self.path, timeout=20)
        self.addCleanup(conn.close)
        conn.send(wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY),
                                     chat("[[fake tokens=30 delay_ms=20]]", stream=True)))
        self.assertTrue(conn.wait_for(b"data:", 3000))
        gateway.signal(signal.SIGTERM)
        self.assertTrue(Sse(conn.read_reply().body).done)
        self.assertEqual(gateway.wait(10), 0)

    def test_a_replica_is_reached_by_a_socket(self):
        path = self.folder / "s1.sock"
        replica = {"name": "s1", "url": f"unix:{path}", "key": REPLICA_KEY}
        gateway = self.start(models={"small": model(replicas=[replica])})
        conn = wire.H2(gateway.port)
        for _ in range(3):
            self.assertEqual(self.ask(conn).status, 200)
        self.assertTrue(Sse(self.ask(conn, chat(stream=True)).body).done)
        self.assertEqual(len(self.fake.served()), 4)

    def test_a_base_path_may_follow_and_host_is_localhost(self):
        path = str(self.folder / "base.sock")
        heads = []
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(path)
        listener.listen()

        def answer():
            sock = listener.accept()[0]
            heads.append(sock.recv(65536))
            sock.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                         b"content-length: 2\r\n\r\n{}")
            sock.recv(1)

        threading.Thread(target=answer, daemon=True).start()
        replica = {"name": "s1", "url": f"unix:{path}:/base/v1", "key": REPLICA_KEY}
        gateway = self.start(models={"small": model(replicas=[replica])})
        self.assertEqual(self.ask(wire.H1(gateway.port)).status, 200)
        self.assertTrue(heads[0].startswith(b"POST /base/v1/chat/completions HTTP/1.1\r\n"
                                            b"host: localhost\r\n"), heads)

    def test_a_replica_whose_socket_is_gone_is_unreachable(self):
        replica = {"name": "s1", "url": f"unix:{self.folder}/none", "key": REPLICA_KEY}
        gateway = self.start(models={"small": model(replicas=[replica])})
        self.assertEqual(self.ask(wire.H1(gateway.port)).status, 503)
        self.assertTrue(harness.wait_until(lambda: "No such file" in gateway.output()))


if __name__ == "__main__":
    unittest.main()
