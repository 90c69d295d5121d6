# SPDX-License-Identifier: Apache-2.0
"""A replica's name is looked up without stopping anybody, and all its addresses are used.

For:       names.servers, several addresses, those that refuse or are silent, IPv6, answers kept for
           a few seconds, a name server that goes away.
"""

import socket
import struct
import tempfile
import threading
import time
import unittest

import harness
import secure
import wire
from harness import ENVIRONMENT, KEY, REPLICA_KEY, Fake, Gateway, bearer, chat, model, tenants

A, AAAA = 1, 28
NOT_FOUND = 3
KEPT_SECONDS = 5


class NameServer:
    """Answers by UDP what it is told: name to addresses; counts the questions."""

    def __init__(self):
        self.addresses = {}
        self.questions = []          # (name, type)
        self.mute = False
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.sock.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                query, client = self.sock.recvfrom(4096)
            except OSError:
                return
            answer = self._answer(query)
            if not self.mute:
                self.sock.sendto(answer, client)

    def _answer(self, query):
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1:at + 1 + query[at]].decode())
            at += query[at] + 1
        question, (kind,) = query[12:at + 5], struct.unpack(">H", query[at + 1:at + 3])
        name = ".".join(labels).lower()
        self.questions.append((name, kind))
        family = socket.AF_INET6 if kind == AAAA else socket.AF_INET
        known = self.addresses.get(name)
        packed = [socket.inet_pton(family, address) for address in known or ()
                  if (":" in address) == (kind == AAAA)]
        code = NOT_FOUND if known is None else 0
        head = query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(packed), 0, 0)
        return head + question + b"".join(
            struct.pack(">HHHIH", 0xC00C, kind, 1, 60, len(data)) + data for data in packed)

    def asked(self, name):
        """How often for its IPv4 addresses."""
        return self.questions.count((name, A))

    def stop(self):
        self.sock.close()


class NamesOfReplicas(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.fake = Fake(self.holder.name, "s1")
        self.addCleanup(self.fake.stop)
        self.names = NameServer()
        self.addCleanup(self.names.stop)
        self.doors = {}

    def door(self, address, port=0):
        """Another address at which the fake is reached, by the same port as the others."""
        door = secure.Forwarder(self.fake.port, address=address,
                                port=port or next(iter(self.doors.values())).port
                                if self.doors else 0)
        self.addCleanup(door.stop)
        self.doors[address] = door
        return door

    def start(self, port, **more):
        entry = model(replicas=[{"name": "r", "url": f"http://model.test:{port}",
                                 "key": REPLICA_KEY}])
        self.gateway = Gateway({
            "models": {"small": entry}, "tenants": tenants(), "workers": 1,
            "names": {"servers": [self.names.address]}, "retry": {"attempts": 1},
            "health": {"out_after": 1000, "check_every": "0s"},
            "timeouts": {"connect": "2s", "replica_idle": "0s"}, **more}, ENVIRONMENT)
        self.addCleanup(self.gateway.stop)

    def ask(self):
        conn = wire.H1(self.gateway.port)
        self.addCleanup(conn.close)
        return conn.request("POST", "/v1/chat/completions", bearer(KEY), chat())

    def test_all_addresses_are_used_in_turn(self):
        addresses = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]
        for address in addresses:
            self.door(address)
        self.names.addresses["model.test"] = addresses
        self.start(self.doors["127.0.0.2"].port)
        for _ in range(6):
            self.assertEqual(self.ask().status, 200)
        self.assertEqual([door.accepted for door in self.doors.values()], [2, 2, 2])

    def test_a_burst_asks_once_and_a_change_is_seen_soon(self):
        self.door("127.0.0.2")
        self.door("127.0.0.3")
        self.names.addresses["model.test"] = ["127.0.0.2"]
        self.start(self.doors["127.0.0.2"].port)
        replies = []
        threads = [threading.Thread(target=lambda: replies.append(self.ask().status))
                   for _ in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(replies, [200] * 20)
        self.assertEqual(self.names.asked("model.test"), 1)
        self.names.addresses["model.test"] = ["127.0.0.3"]
        self.assertTrue(harness.wait_until(
            lambda: self.ask().status == 200 and self.doors["127.0.0.3"].accepted,
            2 * KEPT_SECONDS, 0.2))

    def test_an_address_that_refuses_or_is_silent_leaves_room_for_the_others(self):
        self.door("127.0.0.2")
        port = self.doors["127.0.0.2"].port
        full = socket.socket()
        self.addCleanup(full.close)
        full.bind(("127.0.0.3", port))
        full.listen(0)
        stuffing = [socket.socket() for _ in range(4)]
        for sock in stuffing:  # what listens there takes no more: connects hang
            self.addCleanup(sock.close)
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.3", port))
        self.names.addresses["model.test"] = ["127.0.0.9", "127.0.0.3", "127.0.0.2"]
        self.start(port)
        for _ in range(3):
            self.assertEqual(self.ask().status, 200)

    def test_ipv6_addresses_and_literals_are_reached(self):
        self.door("::1")
        self.names.addresses["model.test"] = ["::1"]
        self.start(self.doors["::1"].port)
        self.assertEqual(self.ask().status, 200)
        entry = model(replicas=[{"name": "r", "url": f"http://[::1]:{self.doors['::1'].port}",
                                 "key": REPLICA_KEY}])
        self.start(80, models={"small": entry})
        self.assertEqual(self.ask().status, 200)
        self.assertEqual(self.doors["::1"].accepted, 2)

    def test_a_name_that_is_not_known_is_said_and_not_asked_for_again_at_once(self):
        self.start(80)
        for _ in range(5):
            self.assertEqual(self.ask().status, 503)
        self.assertLessEqual(self.names.asked("model.test"), 2)
        self.assertTrue(harness.wait_until(lambda: "name_not_found" in self.gateway.output()))

    def test_a_name_server_that_is_silent_stops_nobody(self):
        self.names.mute = True
        other = {"name": "r", "url": self.fake.url, "key": REPLICA_KEY}
        entry = model(replicas=[{"name": "r", "url": "http://model.test", "key": REPLICA_KEY}])
        self.start(80, models={"lost": entry, "small": model(replicas=[other])},
                   timeouts={"connect": "500ms"})
        conn = wire.H1(self.gateway.port)
        self.addCleanup(conn.close)
        conn.send(wire.request_bytes("POST", "/v1/chat/completions", bearer(KEY),
                                     chat(model_name="lost")))
        for _ in range(5):
            self.assertEqual(self.ask().status, 200)
        self.assertEqual(conn.read_reply().status, 503)
        self.assertTrue(harness.wait_until(
            lambda: "its name was not looked up in time" in self.gateway.output()))

    def test_what_was_known_holds_while_the_name_server_is_away(self):
        self.door("127.0.0.2")
        self.names.addresses["model.test"] = ["127.0.0.2"]
        self.start(self.doors["127.0.0.2"].port)
        self.assertEqual(self.ask().status, 200)
        self.names.mute = True
        time.sleep(KEPT_SECONDS + 0.2)
        for _ in range(3):
            self.assertEqual(self.ask().status, 200)
        self.assertTrue(harness.wait_until(
            lambda: "the addresses known before are used" in self.gateway.output()))
        self.assertEqual(self.ask().status, 200)
        self.assertGreater(self.names.asked("model.test"), 1)


if __name__ == "__main__":
    unittest.main()
