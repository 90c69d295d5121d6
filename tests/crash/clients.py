# SPDX-License-Identifier: Apache-2.0
"""Two hundred requests at once from one thread, and what each of them received.

For:       crash.py: clients that keep every byte until the gateway is killed, HTTP/1.1 and HTTP/2.
Knows not: what was billed.
"""

import errno
import json
import re
import selectors
import socket
import struct
import time

TOKEN = re.compile(rb"w\d+ ")             # the simulated servers write w0 w1 w2 …, a token each
ENDPOINTS = ("chat/completions", "completions", "messages")
RECEIVE_BYTES = 1 << 16
WINDOW = (1 << 31) - 1
HEAD_LINE = re.compile(rb"HTTP/1\.1 (\d{3})")
CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)


class Ask:
    """One request, and in the end what came of it."""

    __slots__ = ("request_id", "endpoint", "model", "stream", "protocol", "tokens", "status",
                 "data", "received", "finished")

    def __init__(self, request_id, protocol, rng, models):
        self.request_id = request_id
        self.protocol = protocol
        self.model = rng.choice(list(models))
        self.endpoint = rng.choice(models[self.model][2])
        self.stream = rng.random() < 0.7
        self.tokens = rng.randrange(1, 40) if self.stream else rng.randrange(1, 12)
        self.status = 0
        self.data = bytearray()
        self.received = 0                 # tokens whose text came
        self.finished = False             # the whole answer came

    def path(self):
        return f"/v1/{self.endpoint}"

    def body(self, rng, most_per_event):
        prompt = (f"[[fake tokens={self.tokens} per_event={rng.randrange(1, most_per_event + 1)} "
                  f"delay_ms={rng.randrange(2, 25)} cached={rng.choice((0, 0, 3))}]]")
        body = {"model": self.model, "max_tokens": 64}
        if self.endpoint == "completions":
            body["prompt"] = prompt
        else:
            body["messages"] = [{"role": "user", "content": prompt}]
        if self.stream:
            body["stream"] = True
            if self.endpoint != "messages" and rng.random() < 0.3:
                body["stream_options"] = {"include_usage": True}
        return json.dumps(body, separators=(",", ":")).encode()

    def close(self, payload):
        """payload: the answer's bytes without their framing."""
        self.received = len(TOKEN.findall(payload)) if self.status == 200 else 0
        self.data = None


class Load:
    """All clients of one life of the gateway, and one loop for them."""

    def __init__(self, port, key, rng, models, prefix):
        self.port, self.key, self.rng, self.models = port, key, rng, models
        self.prefix = prefix
        self.selector = selectors.DefaultSelector()
        self.asks = []
        self.clients = []

    def new_ask(self, protocol):
        ask = Ask(f"{self.prefix}-{len(self.asks)}", protocol, self.rng, self.models)
        self.asks.append(ask)
        return ask, ask.body(self.rng, self.models[ask.model][1])

    def connect(self):
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        return sock

    def open(self, h1, h2, streams):
        """h1 connections with a request each, h2 connections with so many streams each."""
        for _ in range(h1):
            self.clients.append(H1Client(self))
        for _ in range(h2):
            self.clients.append(H2Client(self, streams))

    def run(self, until):
        """Requests, one after the other on each, until a monotonic moment."""
        while (left := until - time.monotonic()) > 0:
            for key, _ in self.selector.select(left):
                key.data.readable(True)

    def close(self):
        """The gateway is dead: takes what still lies in the sockets, and judges what came."""
        for client in self.clients:
            client.drain()
        self.selector.close()


class Client:
    """One connection."""

    def __init__(self, load):
        self.load = load
        self.over = False
        self.sock = load.connect()
        load.selector.register(self.sock, selectors.EVENT_READ, self)

    def send(self, data):
        """What is written is small and the gateway reads: a full socket is a fault."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.end()

    def end(self):
        if not self.over:
            self.over = True
            self.load.selector.unregister(self.sock)

    def readable(self, more):
        """Reads once; more: whether a new request follows a whole answer."""
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.ECONNRESET, errno.EPIPE):
                raise
            data = b""
        if not data:
            self.end()
            return False
        self.take(data, more)
        return True

    def drain(self):
        while not self.over and self.readable(False):
            pass
        self.end()
        self.sock.close()
        self.abandon()


class H1Client(Client):
    def __init__(self, load):
        super().__init__(load)
        self.ask()

    def ask(self):
        load = self.load
        self.current, body = load.new_ask("h1")
        self.head_bytes = 0
        self.length = None
        self.send(b"POST %b HTTP/1.1\r\nhost: t\r\nauthorization: Bearer %b\r\n"
                  b"content-type: application/json\r\nx-request-id: %b\r\n"
                  b"content-length: %d\r\n\r\n%b"
                  % (self.current.path().encode(), load.key, self.current.request_id.encode(),
                     len(body), body))

    def take(self, data, more):
        ask = self.current
        if ask is None:
            return
        ask.data += data
        if not self.head_bytes and not self.read_head(ask):
            return
        if self.length is None:
            whole = ask.data.endswith(b"\r\n0\r\n\r\n")
        else:
            whole = len(ask.data) >= self.head_bytes + self.length
        if whole:
            ask.finished = True
            self.abandon()
            if more:
                self.ask()

    def read_head(self, ask):
        end = ask.data.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = bytes(ask.data[:end])
        ask.status = int(HEAD_LINE.match(head).group(1))
        self.head_bytes = end + 4
        length = CONTENT_LENGTH.search(head)
        if length:
            self.length = int(length.group(1))
        elif not CHUNKED.search(head):
            raise ValueError(f"an answer without an end: {head!r}")
        return True

    def abandon(self):
        """Judges the request under way by what came."""
        if self.current is not None:
            body = bytes(self.current.data[self.head_bytes:])
            self.current.close(dechunk(body) if self.length is None else body)
            self.current = None


def dechunk(data):
    """The payload of as much as came."""
    parts, at = [], 0
    while (end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:end], 16)
        parts.append(data[end + 2:end + 2 + size])
        at = end + 2 + size + 2
        if size == 0:
            break
    return b"".join(parts)


def h2_frame(kind, flags, stream, payload):
    return struct.pack(">IBI", len(payload) << 8 | kind, flags, stream) + payload


def h2_field(start, value):
    """A literal that is not indexed; start: how its name is said."""
    return start + bytes([len(value)]) + value


DATA, HEADERS, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE = 0, 1, 3, 4, 6, 8
END_STREAM, END_HEADERS, ACK, PADDED, PRIORITY = 1, 4, 1, 8, 32
PREFACE = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
           + h2_frame(SETTINGS, 0, 0, struct.pack(">HIHIHI", 1, 0, 2, 0, 4, WINDOW))
           + h2_frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", 1 << 30)))


class H2Client(Client):
    """The bare frames: no header compression is asked for, so that :status 200 is one byte."""

    def __init__(self, load, streams):
        super().__init__(load)
        self.buffer = bytearray()
        self.next_stream = 1
        self.under_way = {}
        self.send(PREFACE)
        for _ in range(streams):
            self.ask()

    def ask(self):
        load = self.load
        ask, body = load.new_ask("h2")
        head = (b"\x83\x86" + h2_field(b"\x04", ask.path().encode()) + h2_field(b"\x01", b"t")
                + h2_field(b"\x0f\x08", b"Bearer " + load.key)
                + h2_field(b"\x0f\x10", b"application/json")
                + h2_field(h2_field(b"\x00", b"x-request-id"), ask.request_id.encode()))
        self.under_way[self.next_stream] = ask
        self.send(h2_frame(HEADERS, END_HEADERS, self.next_stream, head)
                  + h2_frame(DATA, END_STREAM, self.next_stream, body))
        self.next_stream += 2

    def take(self, data, more):
        self.buffer += data
        at = 0
        while len(self.buffer) - at >= 9:
            word, flags, stream = struct.unpack_from(">IBI", self.buffer, at)
            end = at + 9 + (word >> 8)
            if len(self.buffer) < end:
                break
            self.frame(word & 0xff, flags, stream & WINDOW, bytes(self.buffer[at + 9:end]), more)
            at = end
        del self.buffer[:at]

    def frame(self, kind, flags, stream, payload, more):
        if kind in (SETTINGS, PING):
            if not flags & ACK:
                self.send(h2_frame(kind, ACK, 0, payload if kind == PING else b""))
            return
        ask = self.under_way.get(stream)
        if ask is None or kind not in (DATA, HEADERS, RST_STREAM):
            return
        if flags & (PADDED | (PRIORITY if kind == HEADERS else 0)):
            raise ValueError("padding and priorities are not expected")
        if kind == DATA:
            ask.data += payload
        elif kind == HEADERS and ask.status == 0:
            ask.status = 200 if payload.lstrip(b"\x20")[:1] == b"\x88" else 599
        if kind == RST_STREAM or flags & END_STREAM:
            ask.finished = kind != RST_STREAM
            ask.close(bytes(ask.data))
            del self.under_way[stream]
            if more:
                self.ask()

    def abandon(self):
        for ask in self.under_way.values():
            ask.close(bytes(ask.data))
        self.under_way = {}
