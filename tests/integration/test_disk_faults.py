# SPDX-License-Identifier: Apache-2.0
"""A journal's disk that is full, read-only, broken or slow.

For:       full and read-only: new work gets 503, what is under way is settled and has its row, and
           all goes on by itself when there is room. Broken: the process ends by itself, and the
           next start has every row exactly once. Slow: nobody waits with durability: process.
"""

import errno
import os
import signal
import subprocess
import unittest

import harness
import wire
from harness import KEY, bearer, chat, new_id, wait_until
from ondisk import TOKENS, WAIT_S, Asked, OnADisk

LONG = chat(f"[[fake tokens={TOKENS} delay_ms=150]]", stream=True)
SHORT = chat(f"[[fake tokens={TOKENS}]]")


class Faulty(OnADisk):
    def ask(self, body=SHORT):
        """One whole request; its id and reply."""
        request_id = new_id()
        conn = wire.H1(self.gateway.port, timeout=WAIT_S)
        try:
            return request_id, conn.request("POST", "/v1/chat/completions", dict(
                bearer(KEY), **{"x-request-id": request_id}), body)
        finally:
            conn.close()

    def ready(self):
        return self.gateway.admin("/readyz", token=None)

    def refuses(self):
        """New work is refused, as the API says it."""
        _, reply = self.ask()
        if reply.status != 503:
            return False
        self.assertEqual(reply.json()["error"]["code"], "journal_unavailable", reply)
        self.assertGreaterEqual(int(reply.header("retry-after")), 1)
        return True

    def streams(self):
        """Two of them, whose first token has come."""
        asked = [Asked(self.gateway, protocol, LONG) for protocol in ("h1", "h2")]
        for one in asked:
            self.assertTrue(wait_until(lambda one=one: b"content" in one.seen, WAIT_S))
        return asked

    def check_each_once(self, ids):
        rows = [row.get("request_id") for row in self.gateway.calls()]
        self.assertEqual(len(rows), len(set(rows)), "twice")
        self.assertEqual(set(ids) - set(rows), set(), "lost")

    def goes_through(self, number, problem):
        under_way = self.streams()
        setattr(self.disk, number, problem)
        whole = []

        def refused():
            request_id, reply = self.ask()
            if reply.status == 200:
                whole.append(request_id)
            return reply.status == 503

        self.assertTrue(wait_until(refused, WAIT_S))
        self.assertTrue(self.refuses())
        self.assertEqual(self.ready().status, 503)
        self.assertIn("the journal cannot be written", self.ready().text())
        for one in under_way:
            self.assertTrue(one.ended().complete, one.reply)
        self.assertTrue(self.gateway.running())
        setattr(self.disk, number, 0)
        self.assertTrue(wait_until(lambda: self.ready().status == 200, WAIT_S))
        request_id, reply = self.ask()
        self.assertEqual(reply.status, 200)
        for good in [*whole, request_id, *(one.request_id for one in under_way)]:
            self.one_row(good)


class NoRoom(Faulty):
    """What a full or read-only disk says, in the places where it says it."""

    DURABILITY = "process"
    LOADED = {"reserve_most": 1 << 20}       # no stock, so that room is asked for with every row

    def test_a_full_disk(self):
        self.goes_through("space_error", errno.ENOSPC)
        self.end()

    def test_what_is_under_way_has_its_row_while_the_disk_is_full(self):
        under_way = self.streams()
        self.disk.space_error = errno.ENOSPC
        self.assertTrue(wait_until(self.refuses, WAIT_S))
        for one in under_way:
            one.ended()
            self.one_row(one.request_id)     # in the blocks that were kept for it
        self.assertTrue(self.refuses())
        self.end()


class NoRoomToWrite(Faulty):
    """The reserve is of no use either: rows wait in memory."""

    DURABILITY = "process"
    LOADED = {"reserve_most": 1 << 20}

    def test_a_disk_over_its_quota_that_took_the_reserve_too(self):
        self.goes_through("write_error", errno.EDQUOT)
        self.end()

    def test_a_disk_that_became_read_only(self):
        self.goes_through("write_error", errno.EROFS)
        self.goes_through("space_error", errno.EROFS)
        self.end()


class NoRoomDurable(NoRoom):
    DURABILITY = "power"

    def test_an_end_waits_for_a_disk_that_gives_way(self):
        under_way = self.streams()
        self.disk.write_error = errno.ENOSPC
        self.assertTrue(wait_until(lambda: self.ready().status == 503, WAIT_S))
        self.assertTrue(self.refuses())
        self.assertTrue(all(one.is_alive() for one in under_way))
        self.disk.write_error = 0
        for one in under_way:
            self.assertTrue(one.ended().complete, one.reply)
            self.one_row(one.request_id)
        self.end()


class Broken(Faulty):
    DURABILITY = "process"
    LOADED = {"reserve_most": 1 << 20}

    def breaks(self, number, problem=errno.EIO):
        """It ends by itself; the next start has everything once."""
        good = []
        for _ in range(5):
            request_id, reply = self.ask()
            self.assertEqual(reply.status, 200)
            good.append(request_id)
        under_way = self.streams()
        setattr(self.disk, number, problem)
        last, reply = self.ask()
        if reply.complete and reply.status == 200:
            good.append(last)
        code = self.gateway.wait(WAIT_S)
        self.assertIsNotNone(code, "it runs on")
        self.assertNotEqual(code, 0)
        self.assertGreater(code, 0, self.gateway.output()[-3000:])
        self.assertIn("journal_failed", self.gateway.output())
        begun = [one.request_id for one in under_way]
        for one in under_way:
            one.ended()
        setattr(self.disk, number, 0)
        self.gateway = self.start()
        self.assertEqual(self.ask()[1].status, 200)
        self.end()
        self.check_each_once(good + begun)
        for row in self.gateway.calls():
            if row.get("request_id") in good:
                self.assertEqual((row["output"], row["billable"]), (TOKENS, True), row)
        done = subprocess.run([harness.TOLLGATE, "audit", "--config", self.gateway.config_path],
                              env=os.environ | harness.ENVIRONMENT, capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_an_error_of_writing(self):
        self.breaks("write_error")

    def test_an_error_of_reserving(self):
        self.breaks("space_error")

    def test_an_error_while_it_stops_is_no_good_end(self):
        request_id, reply = self.ask()
        self.assertEqual(reply.status, 200)
        self.disk.sync_error = errno.EIO  # the last head is synced, whatever durability says
        self.gateway.signal(signal.SIGTERM)
        self.assertGreater(self.gateway.wait(WAIT_S), 0)
        self.disk.sync_error = 0
        self.gateway = self.start()
        self.end()
        self.check_each_once([request_id])


class BrokenDurable(Broken):
    DURABILITY = "power"

    def test_an_error_of_syncing(self):
        self.breaks("sync_error")

    def test_an_error_of_syncing_ends_no_answer(self):
        self.disk.sync_held = 1
        one = Asked(self.gateway, "h1", SHORT)
        self.assertTrue(self.waits_in_sync())
        self.disk.sync_error = errno.EIO
        self.disk.sync_held = 0
        self.assertFalse(one.ended().complete, one.reply)
        self.assertGreater(self.gateway.wait(WAIT_S), 0)
        self.disk.sync_error = 0
        self.gateway = self.start()
        self.one_row(one.request_id)
        self.end()


class Slow(Faulty):
    """A sync that does not end, of a file that is turned."""

    DURABILITY = "process"
    MORE = {"meter": {"segment_bytes": "64KiB"}, "limits": {"in_flight": 4096}}

    def test_nobody_waits_for_it(self):
        self.disk.sync_held = 1
        conn = wire.H1(self.gateway.port, timeout=WAIT_S)
        ids = []
        for number in range(400):
            ids.append(new_id())
            reply = conn.request("POST", "/v1/chat/completions", dict(
                bearer(KEY), **{"x-request-id": ids[-1]}), SHORT)
            self.assertTrue(reply.status == 200 and reply.complete, (number, reply))
        conn.close()
        self.assertTrue(self.waits_in_sync())
        self.assertLess(len(self.gateway.calls()), len(ids))
        self.assertEqual(self.ready().status, 200)
        self.disk.sync_held = 0
        self.end()
        self.check_each_once(ids)


class ReallyFull(Faulty):
    """A filesystem of its own, filled to the brim. Root alone may mount one."""

    DURABILITY = "process"
    MORE = {"limits": {"in_flight": 64}}
    BYTES = 6 << 20

    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("needs root")
        super().setUp()

    def start(self, **more):
        journal = self.folder / "journal"
        if not os.path.ismount(journal):
            done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={self.BYTES}", "tmpfs",
                                   str(journal)], capture_output=True, check=False)
            if done.returncode != 0:
                self.skipTest(f"cannot mount: {done.stderr.decode().strip()}")
            self.addCleanup(subprocess.run, ["umount", str(journal)], check=False)
        return super().start(**more)

    def fill(self):
        with open(self.folder / "journal" / "ballast", "ab", buffering=0) as ballast:
            try:
                while True:
                    ballast.write(bytes(4096))
            except OSError as error:
                self.assertEqual(error.errno, errno.ENOSPC)

    def test_it_goes_on_by_itself_when_there_is_room(self):
        self.fill()
        good, under_way = [], self.streams()

        def refused():
            request_id, reply = self.ask()
            good.extend([request_id] if reply.status == 200 else [])
            return reply.status == 503

        self.assertTrue(wait_until(refused, 60, 0))
        self.assertTrue(self.refuses())
        self.assertEqual(self.ready().status, 503)
        for one in under_way:
            self.assertTrue(one.ended().complete, one.reply)
        (self.folder / "journal" / "ballast").unlink()
        self.assertTrue(wait_until(lambda: self.ready().status == 200, WAIT_S))
        self.assertEqual(self.ask()[1].status, 200)
        self.end()
        self.check_each_once(good + [one.request_id for one in under_way])


class Unusable(unittest.TestCase):
    def test_a_start_without_room_says_so(self):
        class OneTest(Faulty):
            LOADED = {"space_error": errno.ENOSPC}

            def runTest(self):
                pass

        case = OneTest()
        self.addCleanup(case.doCleanups)
        with self.assertRaises(RuntimeError) as caught:
            case.setUp()
        self.assertIn("No space left on device", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
