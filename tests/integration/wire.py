# SPDX-License-Identifier: Apache-2.0
"""HTTP clients that see what is on the wire.

For:       tests that must know when a byte came, how a message ended and which frame ended it,
           and that must be able to send what a good client never sends.
Used by:   harness.py, the test files here, ../cases/client.py.
Knows not: the gateway's configuration, journals, what an answer means.

Three clients, on loopback (a port, or a Unix socket's path), in the clear or by TLS (wrap, see
secure.py): H1 (HTTP/1.1, exact bytes), H2 (a well-behaved
HTTP/2 client with per-stream pauses) and RawH2 (frames by hand, nothing checked).
"""

import json
import socket
import struct
import threading
import time
import zlib

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hpack
import hyperframe.frame as frames

RECEIVE_BYTES = 65536
HEAD_BYTES = 1 << 20
CANCEL = 8


# After a GOAWAY the streams up to its last id go on (RFC 9113 section 6.8); the library would close them all.
h2.connection.H2ConnectionStateMachine._transitions[
    (h2.connection.ConnectionState.CLIENT_OPEN, h2.connection.ConnectionInputs.RECV_GOAWAY)] = (
        None, h2.connection.ConnectionState.CLIENT_OPEN)


class WireError(Exception):
    """The peer sent something that is not HTTP."""


class Reply:
    """One answer as it came: head, body, and when each part arrived (monotonic seconds)."""

    def __init__(self):
        self.status = None
        self.headers = []            # (lower-case name, value), in order
        self.trailers = []
        self.body = bytearray()
        self.arrivals = []           # (time, body bytes so far)
        self.interim = []            # status codes of 1xx answers
        self.complete = False        # the message ended as its framing says
        self.reset_code = None       # HTTP/2: RST_STREAM or GOAWAY code
        self.problem = None          # why it is not complete, in words
        self.sent_at = None
        self.head_at = None
        self.ended_at = None
        self.left_at = None          # when this client closed or reset on purpose

    def header(self, name):
        """All values of a header joined by ", "; None when it was not sent."""
        values = [value for key, value in self.headers if key == name]
        return ", ".join(values) if values else None

    def header_map(self):
        """Every header once, lower-case name to joined values."""
        return {key: self.header(key) for key, _ in self.headers}

    def decoded(self):
        """The body with its content coding taken off."""
        coding = (self.header("content-encoding") or "identity").lower()
        if coding == "identity":
            return bytes(self.body)
        if coding in ("gzip", "deflate"):
            return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(bytes(self.body))
        raise WireError(f"content coding {coding}")

    def text(self):
        return self.decoded().decode("utf-8", "replace")

    def json(self):
        return json.loads(self.decoded())

    def took_ms(self):
        end = self.ended_at or time.monotonic()
        return (end - self.sent_at) * 1000 if self.sent_at else None

    def __repr__(self):
        return (f"<Reply {self.status} complete={self.complete} reset={self.reset_code} "
                f"problem={self.problem} {bytes(self.body[:300])!r}>")


def connect(port, timeout, receive_buffer=None, wrap=None):
    """A connected socket. port: a number on loopback, or a Unix socket's path; wrap: makes a TLS
    socket of it (secure.py)."""
    by_path = isinstance(port, str)
    sock = socket.socket(socket.AF_UNIX if by_path else socket.AF_INET, socket.SOCK_STREAM)
    if receive_buffer:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.settimeout(timeout)
    sock.connect(port if by_path else ("127.0.0.1", port))
    if not by_path:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return wrap(sock) if wrap else sock


def host_of(port):
    """What Host says of such a port."""
    return "localhost" if isinstance(port, str) else f"127.0.0.1:{port}"


class H1:
    """One HTTP/1.1 connection. Not for two threads at once."""

    def __init__(self, port, timeout=5.0, receive_buffer=None, wrap=None):
        self.timeout = timeout
        self.host = host_of(port)
        self.sock = connect(port, timeout, receive_buffer, wrap)
        self.buffer = bytearray()
        self.closed = None           # None while open, else "fin" or "reset"

    def send(self, data):
        """Write all of data; a peer that has closed is remembered, not raised."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.closed = self.closed or "reset"

    def close(self):
        self.sock.close()

    def abort(self):
        """Close with a reset, as a killed client does."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def fill(self, deadline):
        """Read once into the buffer. False at the end of the connection; TimeoutError late."""
        if self.closed == "fin":
            return False
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.sock.settimeout(left)
        try:
            data = self.sock.recv(RECEIVE_BYTES)
        except ConnectionResetError:
            self.closed = "reset"
            return False
        if not data:
            self.closed = "fin"
            return False
        self.buffer += data
        return True

    def wait_for(self, text, max_ms):
        """True once text is in the unread bytes within max_ms."""
        deadline = time.monotonic() + max_ms / 1000
        try:
            while text not in self.buffer:
                if not self.fill(deadline):
                    return text in self.buffer
        except TimeoutError:
            return False
        return True

    def wait_closed(self, max_ms):
        """True when the peer ends the connection within max_ms; what comes is kept."""
        deadline = time.monotonic() + max_ms / 1000
        try:
            while self.fill(deadline):
                pass
        except TimeoutError:
            return False
        return True

    def request(self, method, path, headers=(), body=None, timeout=None, on_data=None,
                chunk=None):
        """Send one request and read its answer.

        headers: a mapping or pairs; Host and the framing are added when absent
        chunk:   send the body chunked in pieces of this many bytes
        on_data: called with the reply after each read; False stops reading at once
        """
        sent_at = time.monotonic()
        self.send(request_bytes(method, path, headers, body, chunk, self.host))
        return self.read_reply(method, timeout, on_data, sent_at)

    def read_reply(self, method="POST", timeout=None, on_data=None, sent_at=None):
        """Read one whole answer. Never raises for a cut or late one: see Reply.problem."""
        reply = Reply()
        reply.sent_at = sent_at or time.monotonic()
        deadline = time.monotonic() + (timeout or self.timeout)
        try:
            self._read_head(reply, deadline)
            if on_data is None or on_data(reply) is not False:
                self._read_body(reply, method, deadline, on_data)
        except TimeoutError:
            reply.problem = "timed out"
        except EOFError:
            reply.problem = self.closed
        except _Stopped:
            reply.problem = "stopped by the caller"
        reply.ended_at = time.monotonic()
        return reply

    def _line(self, deadline):
        while True:
            end = self.buffer.find(b"\r\n")
            if end >= 0:
                line = bytes(self.buffer[:end])
                del self.buffer[:end + 2]
                if b"\n" in line or b"\r" in line:
                    raise WireError(f"bare CR or LF in {line!r}")
                return line
            if len(self.buffer) > HEAD_BYTES:
                raise WireError("endless line")
            if not self.fill(deadline):
                raise EOFError

    def _read_head(self, reply, deadline):
        while True:
            version, _, rest = self._line(deadline).partition(b" ")
            if version not in (b"HTTP/1.1", b"HTTP/1.0"):
                raise WireError(f"status line begins with {version!r}")
            status = int(rest[:3])
            headers = []
            while line := self._line(deadline):
                name, colon, value = line.partition(b":")
                if not colon:
                    raise WireError(f"header without colon: {line!r}")
                headers.append((name.decode("ascii").lower(),
                                value.strip(b" \t").decode("latin-1")))
            if 100 <= status < 200 and status != 101:
                reply.interim.append(status)
                continue
            reply.status = status
            reply.headers = headers
            reply.head_at = time.monotonic()
            return

    def _read_body(self, reply, method, deadline, on_data):
        length = reply.header("content-length")
        coding = reply.header("transfer-encoding")
        if length is not None and coding is not None:
            raise WireError("an answer with both framings")
        if method == "HEAD" or reply.status in (204, 304):
            reply.complete = True
        elif coding is not None:
            if coding != "chunked":
                raise WireError(f"transfer coding {coding}")
            self._read_chunks(reply, deadline, on_data)
        elif length is not None:
            self._take(reply, int(length), deadline, on_data)
            reply.complete = True
        else:
            self._take(reply, None, deadline, on_data)
            reply.complete = self.closed == "fin"

    def _read_chunks(self, reply, deadline, on_data):
        while True:
            size = int(self._line(deadline).split(b";")[0], 16)
            if size == 0:
                break
            self._take(reply, size, deadline, on_data)
            if self._line(deadline) != b"":
                raise WireError("chunk data not followed by CRLF")
        while line := self._line(deadline):
            name, _, value = line.partition(b":")
            reply.trailers.append((name.decode().lower(), value.strip().decode("latin-1")))
        reply.complete = True

    def _take(self, reply, count, deadline, on_data):
        """Move count body bytes (None: all until the end) into the reply as they come."""
        while count is None or count > 0:
            if not self.buffer and not self.fill(deadline):
                if count is None:
                    return
                raise EOFError
            part = bytes(self.buffer if count is None else self.buffer[:count])
            del self.buffer[:len(part)]
            if count is not None:
                count -= len(part)
            reply.body += part
            reply.arrivals.append((time.monotonic(), len(reply.body)))
            if on_data is not None and on_data(reply) is False:
                raise _Stopped


class _Stopped(Exception):
    """on_data said enough."""


def request_bytes(method, path, headers=(), body=None, chunk=None, host="127.0.0.1"):
    """The bytes of a proper HTTP/1.1 request."""
    pairs = list(headers.items()) if hasattr(headers, "items") else list(headers)
    names = {name.lower() for name, _ in pairs}
    if "host" not in names:
        pairs.insert(0, ("Host", host))
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        pairs.append(("Transfer-Encoding", "chunked") if chunk
                     else ("Content-Length", str(len(body))))
    head = f"{method} {path} HTTP/1.1\r\n" + "".join(f"{n}: {v}\r\n" for n, v in pairs) + "\r\n"
    data = head.encode("latin-1")
    if body is None:
        return data
    return data + (chunked(body, chunk) if chunk else body)


def chunked(body, size):
    """body in chunked coding, in pieces of size bytes."""
    out = bytearray()
    for start in range(0, len(body), size):
        piece = body[start:start + size]
        out += b"%x\r\n" % len(piece) + piece + b"\r\n"
    return bytes(out + b"0\r\n\r\n")


class Stream:
    """One HTTP/2 stream of H2: its reply, and whether its window is being given back."""

    def __init__(self, number):
        self.number = number
        self.reply = Reply()
        self.ended = False
        self.paused = False
        self.pause_after_bytes = None
        self.on_data = None
        self.owed = 0                # flow-controlled bytes not given back while paused


class H2:
    """A well-behaved HTTP/2 client with a reader thread. Requests may come from any thread."""

    def __init__(self, port, settings=None, timeout=5.0, connection_window=1 << 24, wrap=None):
        """settings: SETTINGS codes to values; connection_window: bytes granted at once."""
        self.timeout = timeout
        self.authority = host_of(port)
        self.scheme = "https" if wrap else "http"
        self.sock = connect(port, timeout, wrap=wrap)
        self.sock.settimeout(None)
        self.state = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="latin-1"))
        codes = h2.settings.SettingCodes
        values = {codes.ENABLE_PUSH: 0, codes.MAX_CONCURRENT_STREAMS: 100}
        values.update(settings or {})
        self.state.local_settings = h2.settings.Settings(client=True, initial_values=values)
        self.streams = {}
        self.changed = threading.Condition()
        self.goaway = None           # (error code, last stream id) once it came
        self.closed = None
        self.problem = None
        self.pings = 0
        with self.changed:
            self.state.initiate_connection()
            if connection_window > 65535:
                self.state.increment_flow_control_window(connection_window - 65535)
            self._flush()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def start(self, method, path, headers=(), body=None, authority=None, pause_after_bytes=None,
              on_data=None):
        """Send a request and return its Stream without waiting for the answer."""
        pairs = list(headers.items()) if hasattr(headers, "items") else list(headers)
        fields = [(":method", method), (":scheme", self.scheme),
                  (":authority", authority or self.authority), (":path", path)]
        fields += [(name.lower(), value) for name, value in pairs]
        if body is not None and "content-length" not in {name for name, _ in fields}:
            fields.append(("content-length", str(len(body))))
        with self.changed:
            stream = Stream(self.state.get_next_available_stream_id())
            stream.pause_after_bytes = pause_after_bytes
            stream.on_data = on_data
            stream.reply.sent_at = time.monotonic()
            self.streams[stream.number] = stream
            self.state.send_headers(stream.number, fields, end_stream=body is None)
            self._flush()
        if body is not None:
            self._send_body(stream, body)
        return stream

    def wait(self, stream, timeout=None):
        """The reply of a stream once it ended, was reset, or the time is over."""
        deadline = time.monotonic() + (timeout or self.timeout)
        with self.changed:
            while not stream.ended:
                left = deadline - time.monotonic()
                if left <= 0:
                    stream.reply.problem = "timed out"
                    break
                self.changed.wait(left)
        return stream.reply

    def wait_until(self, true, timeout=None):
        """Wait until true() holds; its last value. It is called with the lock held."""
        with self.changed:
            return self.changed.wait_for(true, timeout or self.timeout)

    def request(self, method, path, headers=(), body=None, timeout=None, **more):
        return self.wait(self.start(method, path, headers, body, **more), timeout)

    def reset(self, stream, code=CANCEL):
        with self.changed:
            stream.reply.left_at = time.monotonic()
            self._end(stream, "stopped by the caller")
            try:
                self.state.reset_stream(stream.number, code)
            except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
                return
            self._flush()

    def resume(self, stream):
        """Give back the window that a paused stream kept."""
        with self.changed:
            stream.paused = False
            stream.pause_after_bytes = None
            if stream.owed and not stream.ended:
                try:
                    self.state.increment_flow_control_window(stream.owed, stream.number)
                except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
                    pass
            stream.owed = 0
            self._flush()

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()

    def _flush(self):
        data = self.state.data_to_send()
        if not data:
            return
        try:
            self.sock.sendall(data)
        except OSError:
            self.closed = self.closed or "reset"

    def _send_body(self, stream, body):
        sent = 0
        deadline = time.monotonic() + self.timeout
        with self.changed:
            while not stream.ended and self.closed is None:
                try:
                    room = min(self.state.local_flow_control_window(stream.number),
                               self.state.max_outbound_frame_size)
                    if room > 0 or sent == len(body):
                        piece = body[sent:sent + room]
                        sent += len(piece)
                        self.state.send_data(stream.number, piece, end_stream=sent == len(body))
                        self._flush()
                        if sent == len(body):
                            return
                        continue
                except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
                    return
                if not self.changed.wait(max(0, deadline - time.monotonic())):
                    return

    def _read(self):
        while True:
            try:
                data = self.sock.recv(RECEIVE_BYTES)
            except OSError:
                data = None
            with self.changed:
                if not data:
                    self.closed = self.closed or ("fin" if data == b"" else "reset")
                    for stream in self.streams.values():
                        self._end(stream, f"connection {self.closed}")
                    self.changed.notify_all()
                    return
                try:
                    for event in self.state.receive_data(data):
                        self._handle(event)
                except h2.exceptions.ProtocolError as error:
                    self.problem = f"protocol: {error!r}"
                    for stream in self.streams.values():
                        self._end(stream, self.problem)
                self._flush()
                self.changed.notify_all()

    def _end(self, stream, problem=None):
        if not stream.ended:
            stream.ended = True
            stream.reply.ended_at = time.monotonic()
            if problem:
                stream.reply.problem = problem

    def _handle(self, event):
        stream = self.streams.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = (int(event.error_code), event.last_stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            self.pings += 1
        elif stream is None:
            return
        elif isinstance(event, h2.events.InformationalResponseReceived):
            stream.reply.interim.append(int(dict(event.headers)[":status"]))
        elif isinstance(event, h2.events.ResponseReceived):
            stream.reply.head_at = time.monotonic()
            stream.reply.status = int(dict(event.headers)[":status"])
            stream.reply.headers = [(n, v) for n, v in event.headers if not n.startswith(":")]
        elif isinstance(event, h2.events.DataReceived):
            self._data(stream, event)
        elif isinstance(event, h2.events.TrailersReceived):
            stream.reply.trailers = list(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            stream.reply.complete = True
            self._end(stream)
        elif isinstance(event, h2.events.StreamReset):
            stream.reply.reset_code = int(event.error_code)
            self._end(stream, f"reset by the peer with {int(event.error_code)}")

    def _data(self, stream, event):
        reply = stream.reply
        reply.body += event.data
        reply.arrivals.append((time.monotonic(), len(reply.body)))
        size = event.flow_controlled_length
        limit = stream.pause_after_bytes
        if limit is not None and len(reply.body) >= limit:
            stream.paused = True
        if stream.paused:
            stream.owed += size
            if size:
                self.state.increment_flow_control_window(size)
        elif size:
            try:
                self.state.acknowledge_received_data(size, stream.number)
            except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
                pass
        if stream.on_data is not None and stream.on_data(reply) is False and not stream.ended:
            self.reset(stream)


class RawH2:
    """HTTP/2 frames by hand: names, order, sizes and windows go out as they are given."""

    PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    def __init__(self, port, settings=None, timeout=5.0, answer_settings=True):
        self.timeout = timeout
        self.sock = socket.create_connection(("127.0.0.1", port), timeout)
        self.sock.settimeout(None)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.encoder = hpack.Encoder()
        self.decoder = hpack.Decoder()
        self.decoder.max_header_list_size = 1 << 20
        self.answer_settings = answer_settings
        self.sending = threading.Lock()
        self.changed = threading.Condition()
        self.statuses = {}           # stream to status code
        self.headers = {}            # stream to header pairs
        self.bodies = {}             # stream to body bytes
        self.ended = set()           # streams whose END_STREAM came
        self.resets = {}             # stream to RST_STREAM code
        self.goaways = []            # (code, last stream id)
        self.peer_settings = {}
        self.settings_acks = 0
        self.ping_acks = 0
        self.closed = None
        self.write(self.PREFACE)
        first = frames.SettingsFrame(0)
        first.settings = dict(settings or {})
        self.send(first)
        threading.Thread(target=self._read, daemon=True).start()

    def write(self, data):
        with self.sending:
            try:
                self.sock.sendall(data)
            except OSError:
                self.closed = self.closed or "reset"

    def send(self, *many):
        self.write(b"".join(frame.serialize() for frame in many))

    def headers_frame(self, stream, fields, end_stream=False, end_headers=True, block=None):
        """A HEADERS frame; fields as they stand, or block as the encoded bytes."""
        frame = frames.HeadersFrame(stream)
        frame.data = self.encoder.encode(fields) if block is None else block
        if end_stream:
            frame.flags.add("END_STREAM")
        if end_headers:
            frame.flags.add("END_HEADERS")
        return frame

    def send_headers(self, stream, fields, end_stream=False):
        self.send(self.headers_frame(stream, fields, end_stream))

    def send_data(self, stream, data, end_stream=False):
        """DATA in frames of at most 16 KiB; the windows are the caller's business."""
        out = []
        for start in range(0, len(data) or 1, 16384):
            frame = frames.DataFrame(stream, data=data[start:start + 16384])
            if end_stream and start + 16384 >= len(data):
                frame.flags.add("END_STREAM")
            out.append(frame)
        self.send(*out)

    def send_reset(self, stream, code=CANCEL):
        self.send(frames.RstStreamFrame(stream, error_code=code))

    def wait_until(self, true, timeout=None):
        """Wait until true() holds or the connection ends; the last value of true()."""
        with self.changed:
            self.changed.wait_for(lambda: true() or self.closed, timeout or self.timeout)
            return true()

    def over(self, stream):
        """Has this stream an answer, a reset, or has the connection gone away?"""
        return (stream in self.statuses or stream in self.resets or bool(self.goaways)
                or self.closed is not None)

    def close(self):
        try:
            self.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.sock.close()

    def _read(self):
        buffer = bytearray()
        while True:
            try:
                data = self.sock.recv(RECEIVE_BYTES)
            except OSError:
                data = None
            if not data:
                with self.changed:
                    self.closed = self.closed or ("fin" if data == b"" else "reset")
                    self.changed.notify_all()
                return
            buffer += data
            while len(buffer) >= 9:
                frame, length = frames.Frame.parse_frame_header(memoryview(bytes(buffer[:9])))
                if len(buffer) < 9 + length:
                    break
                frame.parse_body(memoryview(bytes(buffer[9:9 + length])))
                del buffer[:9 + length]
                with self.changed:
                    self._handle(frame)
                    self.changed.notify_all()

    def _handle(self, frame):
        stream = frame.stream_id
        if isinstance(frame, frames.SettingsFrame):
            if "ACK" in frame.flags:
                self.settings_acks += 1
                return
            self.peer_settings.update(frame.settings)
            if self.answer_settings:
                self.send(frames.SettingsFrame(0, flags=["ACK"]))
        elif isinstance(frame, frames.PingFrame):
            if "ACK" in frame.flags:
                self.ping_acks += 1
            else:
                self.send(frames.PingFrame(0, opaque_data=frame.opaque_data, flags=["ACK"]))
        elif isinstance(frame, frames.HeadersFrame):
            fields = self.decoder.decode(bytes(frame.data))
            status = dict(fields).get(":status")
            if status is not None and not status.startswith("1"):
                self.statuses[stream] = int(status)
                self.headers[stream] = fields
        elif isinstance(frame, frames.DataFrame):
            self.bodies.setdefault(stream, bytearray()).extend(frame.data)
        elif isinstance(frame, frames.RstStreamFrame):
            self.resets[stream] = frame.error_code
        elif isinstance(frame, frames.GoAwayFrame):
            self.goaways.append((frame.error_code, frame.last_stream_id))
        if "END_STREAM" in getattr(frame, "flags", ()):
            self.ended.add(stream)
