# SPDX-License-Identifier: Apache-2.0
"""A gateway whose journal lies on a disk that does what the test says (tests/power/disk.py).

For:       test_durability.py, test_disk_faults.py.
Knows not: what they expect.
"""

import pathlib
import signal
import sys
import tempfile
import threading
import unittest

import harness
import wire
from harness import ENVIRONMENT, KEY, Fake, Gateway, bearer, model, new_id, tenants, wait_until

sys.path.append(str(harness.ROOT / "tests" / "power"))

import disk    # noqa: E402

TOKENS = 12
WAIT_S = 20
STILL_S = 0.15           # long enough to see an answer that does not wait


class Asked(threading.Thread):
    """One request on a connection of its own, under way."""

    def __init__(self, gateway, protocol, body, path="/v1/chat/completions", on_data=None):
        super().__init__(daemon=True)
        self.request_id = new_id()
        self.conn = (wire.H1 if protocol == "h1" else wire.H2)(gateway.port, timeout=WAIT_S)
        self.path, self.body, self.more = path, body, on_data
        self.seen = b""
        self.reply = None
        self.start()

    def run(self):
        headers = dict(bearer(KEY), **{"x-request-id": self.request_id})
        self.reply = self.conn.request("POST", self.path, headers, self.body, WAIT_S,
                                       on_data=self.take)
        self.conn.close()

    def take(self, reply):
        self.seen = bytes(reply.body)
        return self.more(reply) if self.more else None

    def ended(self):
        self.join(WAIT_S)
        return self.reply


class OnADisk(unittest.TestCase):
    """A gateway on a disk of the test's, and one model server."""

    DURABILITY = "power"
    MORE = {}                # members of the configuration's sections
    LOADED = {}              # numbers of the disk before the gateway starts

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.fake = Fake(holder.name, "s1")
        self.addCleanup(self.fake.stop)
        (self.folder / "journal").mkdir()
        self.disk = disk.Disk(self.folder, self.folder / "journal")
        for name, value in self.LOADED.items():
            setattr(self.disk, name, value)
        self.addCleanup(self.let_go)
        self.gateway = self.start()

    def start(self, **more):
        """A process on this folder; more: members of sections, beside those of the class."""
        config = {
            "models": {"small": model(("s1", self.fake.port), translate=["messages"])},
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
            "meter": {"journal": str(self.folder / "journal"), "durability": self.DURABILITY},
            "limits": {"in_flight": 64}}
        for section, members in [*self.MORE.items(), *more.items()]:
            config[section] = config.get(section, {}) | members
        gateway = Gateway(config, ENVIRONMENT | self.disk.environment(), directory=self.folder)
        self.addCleanup(self.put_away, gateway)
        return gateway

    def put_away(self, gateway):
        self.let_go()
        gateway.stop()

    def let_go(self):
        for name in ("sync_held", "write_error", "sync_error", "space_error"):
            setattr(self.disk, name, 0)

    def waits_in_sync(self):
        """The writer is in the midst of a sync."""
        return wait_until(lambda: self.disk.syncs_begun > self.disk.syncs_done, WAIT_S, 0.002)

    def one_row(self, request_id):
        row = self.gateway.row_of(request_id)
        self.assertEqual((row["status"], row["billable"], row["output"]), (200, True, TOKENS), row)
        return row

    def end(self):
        self.gateway.child.send_signal(signal.SIGTERM)
        self.assertEqual(self.gateway.wait(WAIT_S), 0, self.gateway.output()[-3000:])
        self.assertEqual([path.name for path in self.gateway.journal.glob("*.inflight*")], [])
