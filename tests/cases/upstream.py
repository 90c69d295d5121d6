# SPDX-License-Identifier: Apache-2.0
"""A model server that plays a script.

For:       replies as a case describes them (README.md, "Upstream"), down to single writes, and a
           record of every request that came and of when its connection was closed on it.
Used by:   run.py, selftest.py.
Knows not: the gateway, what is expected.

HTTP/1.1 with keep-alive on plain sockets, one thread a connection.
"""

import base64
import json
import select
import socket
import struct
import threading
import time
import zlib

HOLD_MS = 60000
POLL_SECONDS = 0.005
REASONS = {200: "OK", 400: "Bad Request", 429: "Too Many Requests", 500: "Internal Server Error",
           503: "Service Unavailable"}


def piece_bytes(piece):
    """The bytes of a write or piece."""
    if isinstance(piece, str):
        return piece.encode()
    if "text" in piece:
        return piece["text"].encode()
    if "b64" in piece:
        return base64.b64decode(piece["b64"])
    if "hex" in piece:
        return bytes.fromhex(piece["hex"])
    if "repeat" in piece:
        return piece["repeat"].encode() * piece["count"]
    if "parts" in piece:
        return b"".join(piece_bytes(part) for part in piece["parts"])
    return b""


class Request:
    """One POST request as it came."""

    def __init__(self, method, path, headers, body):
        self.method, self.path, self.headers, self.body = method, path, headers, body
        self.received_at = time.monotonic()
        self.aborted_at = None       # the other side closed before the reply was out


class Script:
    """What a server does until the next script: replies in order, and what it saw."""

    def __init__(self, replies=(), repeat_last=False, get=None):
        self.replies = list(replies)
        self.repeat_last = repeat_last
        self.get = get or {}
        self.requests = []
        self.now_playing = 0
        self.most_at_once = 0
        self.over = threading.Event()

    def next_reply(self):
        if not self.replies:
            return {"status": 500, "json": {"error": {"message": "the script has no reply left",
                                                      "type": "script_error"}}}
        if self.repeat_last and len(self.replies) == 1:
            return self.replies[0]
        return self.replies.pop(0)


class _Gone(Exception):
    """The other side closed."""


class Upstream:
    """One scripted server on its own port."""

    def __init__(self, port=0):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port = self.listener.getsockname()[1]
        self.script = Script()
        self.lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def load(self, script):
        """Play another script from now on; what is held of the old one ends."""
        with self.lock:
            old, self.script = self.script, script
        old.over.set()
        return old

    def close(self):
        self.script.over.set()
        self.listener.close()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=_Connection(self, sock).serve, daemon=True).start()


class _Connection:
    def __init__(self, server, sock):
        self.server, self.sock = server, sock
        self.poisoned = False
        self.playing = None          # the script that counts this connection's reply as under way
        self.split = None
        self.buffer = b""

    def serve(self):
        try:
            while self._one():
                pass
        except (_Gone, OSError):
            pass
        finally:
            self.sock.close()

    def _one(self):
        """Serve one request. False: the connection is over."""
        if not self.buffer:
            self.buffer = self.sock.recv(65536)
        if self.poisoned:
            self._reset()
            return False
        request = self._read_request()
        if request is None:
            return False
        script = self.server.script
        if request.method != "POST":
            return self._play(script.get.get(request.path, _plain_get(request.path)), script,
                              request)
        with self.server.lock:
            script.requests.append(request)
            reply = script.next_reply()
            self.playing = script
            script.now_playing += 1
            script.most_at_once = max(script.most_at_once, script.now_playing)
        try:
            return self._play(reply, script, request)
        except (_Gone, OSError):
            request.aborted_at = request.aborted_at or time.monotonic()
            raise
        finally:
            self._played()

    def _played(self):
        """Count the reply as over: before its last byte, or the next request may come first."""
        with self.server.lock:
            if self.playing is not None:
                self.playing.now_playing -= 1
                self.playing = None

    def _read_request(self):
        while b"\r\n\r\n" not in self.buffer:
            data = self.sock.recv(65536)
            if not data:
                return None
            self.buffer += data
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        method, path, _ = (lines[0].split(" ", 2) + ["", ""])[:3]
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        body = bytearray(rest)
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return self._read_chunked(method, path, headers, body)
        length = int(headers.get("content-length", "0"))
        while len(body) < length:
            body += self._more()
        self.buffer = bytes(body[length:])
        return Request(method, path, headers, bytes(body[:length]))

    def _read_chunked(self, method, path, headers, raw):
        body = bytearray()
        while True:
            while b"\r\n" not in raw:
                raw += self._more()
            line, _, raw = raw.partition(b"\r\n")
            size = int(line.split(b";")[0], 16)
            while len(raw) < size + 2:
                raw += self._more()
            body += raw[:size]
            raw = raw[size + 2:]
            if size == 0:
                self.buffer = bytes(raw)
                return Request(method, path, headers, bytes(body))

    def _more(self):
        data = self.sock.recv(1 << 18)
        if not data:
            raise _Gone
        return data

    def _pause(self, milliseconds, script=None):
        """Wait, but see at once when the other side closes or the script is over."""
        end = time.monotonic() + milliseconds / 1000
        while True:
            left = end - time.monotonic()
            ready, _, _ = select.select([self.sock], [], [], max(0, min(left, 0.05)))
            if ready and not self.sock.recv(1, socket.MSG_PEEK):
                raise _Gone
            if left <= 0 or (script is not None and script.over.is_set()):
                return
            if ready:
                time.sleep(POLL_SECONDS)

    def _write(self, data):
        if self.split is None:
            self.sock.sendall(data)
            return
        for start in range(0, len(data), self.split):
            self.sock.sendall(data[start:start + self.split])

    def _reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def _play(self, reply, script, request):
        """One reply as described. False: the connection is over."""
        if "delay_ms" in reply:
            self._pause(reply["delay_ms"])
        writes, framing = _body_of(reply)
        self.split = None
        for interim in reply.get("interim", []):
            self._write(piece_bytes(interim))
        if framing == "raw":
            pass
        elif reply.get("status", 200) != 0:
            self._write(_head(reply, framing, sum(len(data) for _, data in writes)))
        self.split = reply.get("wire_split")
        if reply.get("status", 200) != 0:
            for index, (delay_ms, data) in enumerate(writes):
                self._pause(delay_ms or 0)
                if index == len(writes) - 1 and framing != "chunked":
                    self._played()
                if data:
                    self._write(b"%x\r\n" % len(data) + data + b"\r\n"
                                if framing == "chunked" else data)
        return self._finish(reply, framing, script)

    def _finish(self, reply, framing, script):
        end = reply.get("end", "keep")
        if "rst_after_ms" in reply:
            self._pause(reply["rst_after_ms"])
            end = "rst"
        if end == "hold":
            self._pause(reply.get("hold_ms", HOLD_MS), script)
            return False
        self._played()
        if framing == "chunked" and (end == "keep" or reply.get("terminate")):
            self._write(b"0\r\n\r\n")
        if end == "rst":
            self._reset()
            return False
        self.poisoned = bool(reply.get("poison_connection"))
        return end == "keep" and framing not in ("close", "raw") and reply.get("status", 200) != 0


def _plain_get(path):
    if path.endswith("/models"):
        return {"json": {"object": "list", "data": []}}
    return {"json": {}}


def _body_of(reply):
    """([(delay in ms, bytes)], framing) of a reply, compressed when it says so."""
    if "writes" in reply:
        writes = [(write.get("delay_ms", 0) if isinstance(write, dict) else 0, piece_bytes(write))
                  for write in reply["writes"]]
        framing = reply.get("framing", "chunked")
    else:
        writes = [(0, json.dumps(reply.get("json", {}), ensure_ascii=False,
                                 separators=(",", ":")).encode())]
        framing = reply.get("framing", "length")
    if reply.get("gzip"):
        packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
        writes = [(delay, packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))
                  for delay, data in writes]
        writes.append((0, packer.flush(zlib.Z_FINISH)))
    return writes, framing


def _head(reply, framing, length):
    status = reply.get("status", 200)
    headers = {name: str(value) for name, value in reply.get("headers", {}).items()}
    names = {name.lower() for name in headers}
    if "content-type" not in names:
        headers["content-type"] = "text/event-stream" if "writes" in reply else "application/json"
    if reply.get("gzip") and "content-encoding" not in names:
        headers["content-encoding"] = "gzip"
    if framing == "length":
        headers["content-length"] = str(reply.get("content_length", length))
    elif framing == "chunked":
        headers["transfer-encoding"] = "chunked"
    else:
        headers["connection"] = "close"
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Status')}\r\n{lines}\r\n".encode("latin-1")
