# SPDX-License-Identifier: Apache-2.0
"""durability: power: the end of an answer waits until its row is synced to the disk.

For:       streams, plain and translated answers, HTTP/1.1 and HTTP/2, on a disk whose syncs end
           when the test says so; clients that leave meanwhile, a drain meanwhile; syncs by groups;
           durability: process, which does not wait.
"""

import json
import pathlib
import random
import signal
import threading
import time

import wire
from harness import KEY, bearer, chat, new_id, wait_until
from ondisk import STILL_S, TOKENS, WAIT_S, Asked, OnADisk


def writer_gives_way_by(gateway):
    """How much nicer the journal's writer is than the process (proc(5): stat, field 19)."""
    def nice_of(stat):
        return int(stat.read_text().rsplit(")", 1)[1].split()[16])
    tasks = pathlib.Path(f"/proc/{gateway.child.pid}/task")
    writer, = [task for task in tasks.iterdir() if (task / "comm").read_text() == "journal\n"]
    return nice_of(writer / "stat") - nice_of(tasks.parent / "stat")


class TheEndWaits(OnADisk):
    def test_a_writer_that_answers_wait_for_gives_way_to_nobody(self):
        self.assertEqual(writer_gives_way_by(self.gateway), 0)
        self.end()

    def held(self, body, path="/v1/chat/completions", protocols=("h1", "h2")):
        """Requests of each protocol whose rows are written and not synced."""
        asked = []
        for protocol in protocols:
            self.disk.sync_held = 1
            one = Asked(self.gateway, protocol, body, path)
            asked.append((protocol, one))
            self.assertTrue(self.waits_in_sync())
            wait_until(lambda: False, STILL_S)
            self.assertTrue(one.is_alive(), protocol)
            yield protocol, one
            self.disk.sync_held = 0
            reply = one.ended()
            self.assertTrue(reply.complete, (protocol, reply))
            self.assertEqual(reply.status, 200)
            self.one_row(one.request_id)

    def test_a_stream_shows_all_but_its_end_before_the_row_is_synced(self):
        for protocol, one in self.held(chat(f"[[fake tokens={TOKENS} delay_ms=8]]", stream=True)):
            with self.subTest(protocol):
                self.assertGreaterEqual(one.seen.count(b'"content"'), TOKENS - 2, one.seen)
                self.assertNotIn(b"[DONE]", one.seen)
                self.assertFalse(one.seen.endswith(b"0\r\n\r\n"))
        self.end()

    def test_the_end_of_a_stream_that_came_apart_waits_too(self):
        text = f"[[fake tokens={TOKENS} delay_ms=2 split=7]]"
        for protocol, one in self.held(chat(text, stream=True)):
            with self.subTest(protocol):
                self.assertNotIn(b"[DONE]", one.seen)
        self.end()

    def test_a_plain_answer_is_not_whole_before_the_row_is_synced(self):
        for more in ("", " chunked_body=1", " split=50", " chunked_body=1 split=50",
                     " until_close=1"):
            for _ in self.held(chat(f"[[fake tokens={TOKENS}{more}]]")):
                pass                         # held() has seen that it is under way
        self.end()

    def test_a_translated_answer_waits_too(self):
        for stream in (False, True):
            body = json.dumps({
                "model": "small", "max_tokens": 50, "stream": stream, "messages": [
                    {"role": "user", "content": f"[[fake tokens={TOKENS} delay_ms=3]]"}]}).encode()
            for protocol, one in self.held(body, "/v1/messages"):
                with self.subTest(f"{protocol} {stream}"):
                    self.assertNotIn(b"message_stop", one.seen)
        self.end()

    def test_clients_that_leave_meanwhile_are_charged_whole(self):
        asked = []
        self.disk.sync_held = 1
        for stream in (False, True):
            body = chat(f"[[fake tokens={TOKENS} delay_ms=2]]", stream=stream)
            conn = wire.H1(self.gateway.port)
            asked.append(new_id())
            conn.send(wire.request_bytes("POST", "/v1/chat/completions", dict(
                bearer(KEY), **{"x-request-id": asked[-1]}), body))
            both = wire.H2(self.gateway.port)
            self.addCleanup(both.close)
            asked.append(new_id())
            left = both.start("POST", "/v1/chat/completions", dict(
                bearer(KEY), **{"x-request-id": asked[-1]}), body)
            self.assertTrue(self.waits_in_sync())
            wait_until(lambda: False, STILL_S)
            conn.abort()
            both.reset(left)
        wait_until(lambda: False, STILL_S)
        self.disk.sync_held = 0
        for request_id in asked:
            self.one_row(request_id)
        self.end()

    def test_a_drain_waits_for_the_row(self):
        self.disk.sync_held = 1
        asked = [Asked(self.gateway, protocol,
                       chat(f"[[fake tokens={TOKENS} delay_ms=5]]", stream=stream))
                 for protocol in ("h1", "h2") for stream in (False, True)]
        self.assertTrue(self.waits_in_sync())
        wait_until(lambda: False, STILL_S)
        self.gateway.child.send_signal(signal.SIGTERM)
        wait_until(lambda: False, STILL_S)
        self.assertTrue(self.gateway.running())
        self.assertTrue(all(one.is_alive() for one in asked))
        self.disk.sync_held = 0
        for one in asked:
            self.assertTrue(one.ended().complete, one.reply)
        self.assertEqual(self.gateway.wait(WAIT_S), 0, self.gateway.output()[-3000:])
        for one in asked:
            self.one_row(one.request_id)

    def test_many_answers_share_a_sync(self):
        self.disk.sync_delay_us = 30000
        before, many, each = self.disk.syncs_done, 24, 10

        def ask():
            conn = wire.H1(self.gateway.port, timeout=WAIT_S)
            for _ in range(each):
                reply = conn.request("POST", "/v1/chat/completions", bearer(KEY),
                                     chat(f"[[fake tokens={TOKENS}]]"))
                good.append(reply.status == 200 and reply.complete)
            conn.close()

        good = []
        threads = [threading.Thread(target=ask) for _ in range(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(good), all(good)), (many * each, True))
        self.assertLess(self.disk.syncs_done - before, many * each / 3)
        self.end()

    def test_what_is_held_too_long_is_broken_off(self):
        self.end()
        self.gateway = self.start(timeouts={"whole": "300ms"})
        self.disk.sync_held = 1
        for protocol in ("h1", "h2"):
            one = Asked(self.gateway, protocol,
                        chat(f"[[fake tokens={TOKENS} delay_ms=2]]", stream=True))
            self.assertFalse(one.ended().complete)
            self.assertNotIn(b"[DONE]", one.seen)
            asked = one.request_id
        self.disk.sync_held = 0
        self.one_row(asked)
        self.end()


class ClientsComeAndGo(OnADisk):
    """Few slots, which change hands while clients leave at every moment of the wait."""

    MORE = {"limits": {"in_flight": 16}}

    def test_whoever_stays_has_the_end_and_everybody_one_row(self):
        rng = random.Random(4)
        self.disk.sync_delay_us, self.disk.sync_delay_varies = 4000, 1
        stayed, asked, wrong = [], [], []
        lock = threading.Lock()

        def come_and_go(seed):
            own = random.Random(seed)
            conn = wire.H2(self.gateway.port, timeout=WAIT_S)
            for _ in range(60):
                request_id, stays = new_id(), own.random() < 0.4
                body = chat(f"[[fake tokens={TOKENS}]]", stream=own.random() < 0.7)
                stream = conn.start("POST", "/v1/chat/completions", dict(
                    bearer(KEY), **{"x-request-id": request_id}), body)
                if not stays:
                    time.sleep(own.uniform(0, 0.012))
                    conn.reset(stream)
                    continue
                reply = conn.wait(stream)
                with lock:
                    asked.append(request_id)
                    if reply.status == 200 and reply.complete:
                        stayed.append(request_id)
                    elif reply.status != 503:      # no slot is free
                        wrong.append(reply)
            conn.close()

        threads = [threading.Thread(target=come_and_go, args=(rng.random(),)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len(stayed), 20)
        self.end()
        rows = [row.get("request_id") for row in self.gateway.calls()]
        self.assertEqual(len(rows), len(set(rows)))
        self.assertEqual(set(stayed) - set(rows), set())


class ProcessDoesNotWait(OnADisk):
    DURABILITY = "process"

    def test_the_writer_gives_way_to_workers(self):
        self.assertGreater(writer_gives_way_by(self.gateway), 0)
        self.end()

    def test_answers_end_while_no_sync_does(self):
        self.disk.sync_held = 1
        for protocol in ("h1", "h2"):
            for stream in (False, True):
                one = Asked(self.gateway, protocol,
                            chat(f"[[fake tokens={TOKENS}]]", stream=stream))
                self.assertTrue(one.ended().complete, one.reply)
                self.one_row(one.request_id)
        self.disk.sync_held = 0
        self.end()
