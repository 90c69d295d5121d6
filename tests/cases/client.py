# SPDX-License-Identifier: Apache-2.0
"""Plays the client steps of a case.

For:       steps as README.md, "Client step", describes them, over four transports.
Used by:   run.py, selftest.py.
Knows not: the upstreams, the journal, what is expected.
"""

import base64
import json
import re
import threading
import time

import hyperframe.frame as frames

import wire
from upstream import piece_bytes

DEFAULT_TIMEOUT_MS = 10000
RAW_IDLE_MS = 1000
SMALL_RECEIVE_BUFFER = 16384


class Step:
    """What came of one client step, all its repetitions together."""

    def __init__(self, body):
        self.body = body
        self.replies = []
        self.responses = None        # raw-h1: answers on the connection
        self.closed = None           # raw-h1: did the gateway close it
        self.waited_for = None       # raw-h1: did every wait_for come in time
        self.raw = None              # h2-raw: the connection, with resets and statuses
        self.thread = None


def body_bytes(step):
    """The body of a step; None when it has none."""
    if "body" in step:
        return json.dumps(step["body"], ensure_ascii=False, separators=(",", ":")).encode()
    if "body_text" in step:
        return step["body_text"].encode()
    if "body_b64" in step:
        return base64.b64decode(step["body_b64"])
    if "body_parts" in step:
        return b"".join(piece_bytes(part) for part in step["body_parts"])
    return None


class Player:
    """Plays the steps of one case against one gateway."""

    def __init__(self, port, keys):
        """keys: name in a case to the key's text."""
        self.port, self.keys = port, keys
        self.shared = {}             # conn name to H2

    def play(self, steps):
        """All steps in order; their outcomes when every one has ended."""
        outcomes = []
        for step in steps:
            time.sleep(step.get("wait_before_ms", 0) / 1000)
            outcome = Step(body_bytes(step))
            outcomes.append(outcome)
            if step.get("start_without_waiting"):
                self._start(step, outcome)
            else:
                self._repeat(step, outcome)
        for outcome in outcomes:
            if outcome.thread is not None:
                outcome.thread.join()
        for conn in self.shared.values():
            conn.close()
        return outcomes

    def _start(self, step, outcome):
        """Play in a thread; return at the first byte of a body."""
        began = threading.Event()

        def run():
            self._once(step, outcome, began)
            began.set()

        outcome.thread = threading.Thread(target=run)
        outcome.thread.start()
        began.wait(self._timeout(step))

    def _repeat(self, step, outcome):
        times = step.get("times", 1)
        if not step.get("parallel"):
            for _ in range(times):
                self._once(step, outcome)
            return
        threads = [threading.Thread(target=self._once, args=(step, outcome)) for _ in range(times)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _once(self, step, outcome, began=None):
        play = {"h1": self._h1, "raw-h1": self._raw_h1, "h2": self._h2, "h2-raw": self._h2_raw}
        outcome.replies.append(play[step.get("transport", "h1")](step, outcome, began))

    def _timeout(self, step):
        return step.get("timeout_ms", DEFAULT_TIMEOUT_MS) / 1000

    def _headers(self, step):
        """Key, content type and the step's own headers, which win."""
        headers = {}
        key = step.get("key", "KEY_A")
        if key is not None:
            headers["Authorization"] = f"Bearer {self.keys[key]}"
        if body_bytes(step) is not None:
            headers["Content-Type"] = "application/json"
        for name, value in step.get("headers", {}).items():
            for known in [known for known in headers if known.lower() == name.lower()]:
                del headers[known]
            headers[name] = value
        return headers

    def _watch(self, step, began):
        """Called with the reply after each read: marks the first byte, ends at abort."""
        after = step.get("abort", {}).get("after_events")

        def on_data(reply):
            if began is not None and reply.body:
                began.set()
            if after is not None and reply.body:
                return len(re.findall(rb"(?:\r\n\r\n|\n\n|\r\r)", bytes(reply.body))) < after
            return True

        return on_data

    def _h1(self, step, outcome, began):
        pause = step.get("read")
        conn = wire.H1(self.port, receive_buffer=SMALL_RECEIVE_BUFFER if pause else None)
        watch = self._watch(step, began)
        resumed = []

        def on_data(reply):
            if pause and not resumed and len(reply.body) >= pause["pause_after_bytes"]:
                resumed.append(True)
                time.sleep(pause["resume_after_ms"] / 1000)
            return watch(reply)

        abort_after = step.get("abort", {}).get("after_ms")
        timeout = self._timeout(step) if abort_after is None else abort_after / 1000
        reply = conn.request(step.get("method", "POST"),
                             step.get("path", "/v1/chat/completions"), self._headers(step),
                             outcome.body, timeout, on_data, step.get("chunk_body"))
        conn.close()
        if "abort" in step:
            reply.left_at = time.monotonic()
        return reply

    def _raw_h1(self, step, outcome, began):
        """Exact bytes; then every answer until the gateway closes or has been still."""
        body = (outcome.body or b"").decode("latin-1")

        def text_of(write):
            data = piece_bytes(write).decode("latin-1")
            return (data.replace("${BODYLEN}", str(len(body))).replace("${BODY}", body)
                    .encode("latin-1"))

        conn = wire.H1(self.port)
        outcome.waited_for = True
        sent_at = time.monotonic()
        for write in step["raw"]:
            if isinstance(write, dict) and "wait_for" in write:
                outcome.waited_for &= conn.wait_for(write["wait_for"].encode(),
                                                    write.get("max_ms", DEFAULT_TIMEOUT_MS))
            elif isinstance(write, dict) and "wait_ms" in write:
                time.sleep(write["wait_ms"] / 1000)
            else:
                conn.send(text_of(write))
        first = conn.read_reply(step.get("method", "POST"), self._timeout(step), None, sent_at)
        outcome.responses = 0 if first.status is None else 1
        idle = step.get("idle_ms", RAW_IDLE_MS) / 1000
        while first.status is not None and conn.closed is None:
            more = conn.read_reply("POST", idle)
            if more.status is None:
                break
            outcome.responses += 1
        outcome.closed = conn.closed is not None
        conn.close()
        return first

    def _h2(self, step, outcome, began):
        name = step.get("conn")
        conn = self.shared.get(name)
        if conn is None:
            settings = {}
            if "initialWindowSize" in step.get("h2_settings", {}):
                settings[frames.SettingsFrame.INITIAL_WINDOW_SIZE] = \
                    step["h2_settings"]["initialWindowSize"]
            conn = wire.H2(self.port, settings)
            if name is not None:
                self.shared[name] = conn
        pause = step.get("read", {})
        stream = conn.start(step.get("method", "POST"), step.get("path", "/v1/chat/completions"),
                            self._headers(step), outcome.body,
                            pause_after_bytes=pause.get("pause_after_bytes"),
                            on_data=self._watch(step, began))
        if pause:
            timer = threading.Timer(pause["resume_after_ms"] / 1000, conn.resume, [stream])
            timer.start()
        abort_after = step.get("abort", {}).get("after_ms")
        if abort_after is not None:
            conn.wait(stream, abort_after / 1000)
            conn.reset(stream)
        reply = conn.wait(stream, self._timeout(step))
        if name is None:
            conn.close()
        return reply

    def _h2_raw(self, step, outcome, began):
        settings = {}
        if "initialWindowSize" in step.get("h2_settings", {}):
            settings[frames.SettingsFrame.INITIAL_WINDOW_SIZE] = \
                step["h2_settings"]["initialWindowSize"]
        conn = outcome.raw = wire.RawH2(self.port, settings)
        sent_at = time.monotonic()
        streams = _send_frames(conn, step["frames"], outcome.body or b"", None)
        conn.wait_until(lambda: all(conn.over(stream) for stream in streams), self._timeout(step))
        conn.wait_until(lambda: all(stream in conn.ended or stream in conn.resets
                                    for stream in streams), RAW_IDLE_MS / 1000)
        reply = wire.Reply()
        reply.sent_at, reply.ended_at = sent_at, time.monotonic()
        first = streams[0]
        reply.status = conn.statuses.get(first)
        reply.headers = [(name, value) for name, value in conn.headers.get(first, [])
                         if not name.startswith(":")]
        reply.body = conn.bodies.get(first, bytearray())
        reply.complete = first in conn.ended
        reply.reset_code = conn.resets.get(first)
        conn.close()
        return reply


def _send_frames(conn, many, body, running):
    """Frames as they stand; "$s" is the running stream number. Returns the streams used."""
    used = []
    for frame in many:
        if "loop" in frame:
            loop = frame["loop"]
            for turn in range(loop["count"]):
                used += _send_frames(conn, loop["frames"], body, loop["from_stream"] + 2 * turn)
            continue
        stream = running if frame["stream"] == "$s" else frame["stream"]
        if stream not in used:
            used.append(stream)
        if "rst" in frame:
            conn.send_reset(stream, frame["rst"])
        elif "headers" in frame:
            conn.send_headers(stream, [tuple(pair) for pair in frame["headers"]],
                              frame.get("end_stream", False))
        else:
            data = frame["data"].replace("${BODYLEN}", str(len(body))).encode()
            conn.send_data(stream, data.replace(b"${BODY}", body), frame.get("end_stream", False))
    return used
