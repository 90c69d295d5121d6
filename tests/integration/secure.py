# SPDX-License-Identifier: Apache-2.0
"""TLS for the tests: an authority, a client's socket, and a server before a model server.

For:       wire.py's clients by TLS, replicas that speak it, and all that can go wrong there.
Used by:   the test files here.
Knows not: HTTP, the gateway's configuration.
"""

import pathlib
import socket
import ssl
import subprocess
import threading

CURVE = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
RECEIVE_BYTES = 65536


class Authority:
    """A certificate authority in a directory of its own."""

    def __init__(self, directory, name="test authority"):
        self.directory = pathlib.Path(directory)
        self.directory.mkdir(exist_ok=True)
        self.ca = str(self.directory / "ca.pem")
        self._openssl("req", "-x509", *CURVE, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
                      "-subj", f"/CN={name}", "-addext", "keyUsage=critical,keyCertSign")

    def _openssl(self, *arguments):
        subprocess.run(["openssl", *arguments], cwd=self.directory, check=True,
                       stdin=subprocess.DEVNULL, capture_output=True)

    def issue(self, file, names=("DNS:localhost", "IP:127.0.0.1")):
        """A certificate and its key, for either side; their paths."""
        (self.directory / f"{file}.ext").write_text(
            "basicConstraints = critical, CA:FALSE\n"
            "keyUsage = critical, digitalSignature\n"
            "extendedKeyUsage = serverAuth, clientAuth\n"
            f"subjectAltName = {', '.join(names)}\n")
        self._openssl("req", *CURVE, "-keyout", f"{file}.key", "-out", f"{file}.csr",
                      "-subj", f"/CN={file}")
        self._openssl("x509", "-req", "-in", f"{file}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                      "-CAcreateserial", "-out", f"{file}.pem", "-days", "2",
                      "-extfile", f"{file}.ext")
        return str(self.directory / f"{file}.pem"), str(self.directory / f"{file}.key")


def client_context(ca, protocols=("http/1.1",), certificate=None, version=None):
    """version: of ssl.TLSVersion, that one alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(ca)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    if certificate:
        context.load_cert_chain(*certificate)
    if version:
        context.minimum_version = context.maximum_version = version
    return context


class Tls:
    """A TLS socket that may be read and written by two threads, and shows how it ended."""

    def __init__(self, sock, context, name="localhost", server_side=False, session=None):
        self.raw = sock
        self.arrived, self.leaving = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.lock, self.sending = threading.Lock(), threading.Lock()
        self.clean = False           # the peer's close_notify came
        more = {"server_side": True} if server_side else {"server_hostname": name,
                                                          "session": session}
        self.object = context.wrap_bio(self.arrived, self.leaving, **more)
        self._until_done(self.object.do_handshake)

    def _until_done(self, step):
        while True:
            try:
                done = step()
                self._send_leaving()
                return done
            except ssl.SSLWantReadError:
                self._send_leaving()
                data = self.raw.recv(RECEIVE_BYTES)
                if not data:
                    raise ConnectionResetError("closed in the handshake") from None
                self.arrived.write(data)
            except ssl.SSLError:
                self._send_leaving()
                raise

    def _send_leaving(self):
        data = self.leaving.read()
        if data:
            self.raw.sendall(data)

    def seal(self, data):
        """The bytes of a record, not sent."""
        with self.lock:
            self.object.write(data)
            return self.leaving.read()

    def sendall(self, data):
        with self.sending:
            for start in range(0, len(data), 1 << 20):
                self.raw.sendall(self.seal(data[start:start + (1 << 20)]))

    def recv(self, size):
        """b"" after close_notify; ConnectionResetError when the connection ends without."""
        while True:
            with self.lock:
                try:
                    data = self.object.read(size)
                    self.clean = self.clean or data == b""
                    return data
                except ssl.SSLWantReadError:
                    pass
                except ssl.SSLZeroReturnError:
                    self.clean = True
                    return b""
            data = self.raw.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionResetError("closed without notice")
            self.arrived.write(data)

    def finish(self):
        """close_notify and FIN."""
        with self.lock:
            try:
                self.object.unwrap()
            except ssl.SSLError:
                pass
            data = self.leaving.read()
        self.raw.sendall(data)
        self.raw.shutdown(socket.SHUT_WR)

    def settimeout(self, seconds):
        self.raw.settimeout(seconds)

    def setsockopt(self, *option):
        self.raw.setsockopt(*option)

    def getpeername(self):
        return self.raw.getpeername()

    def shutdown(self, how):
        self.raw.shutdown(how)

    def close(self):
        self.raw.close()


def wrap(context, name="localhost", session=None):
    """For wire.py's clients."""
    return lambda sock: Tls(sock, context, name, session=session)


class Server:
    """Connections on loopback, each served by a thread: serve(self, sock)."""

    def __init__(self, address="127.0.0.1", port=0):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((address, port))
        self.listener.listen(64)
        self.port = self.listener.getsockname()[1]
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            try:
                sock = self.listener.accept()[0]
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock):
        try:
            self.serve(sock)
        except OSError:
            pass
        finally:
            sock.close()

    def serve(self, sock):
        """To be overridden."""

    def stop(self):
        self.listener.close()


def pass_on(source, target, finish):
    """Everything from one socket to another, until either ends."""
    try:
        while data := source.recv(RECEIVE_BYTES):
            target.sendall(data)
        finish()
    except OSError:
        pass


class Forwarder(Server):
    """Passes connections on to a port; with a context it speaks TLS to those that connect."""

    def __init__(self, to_port, context=None, address="127.0.0.1", port=0):
        self.to_port, self.context = to_port, context
        self.asked_for = []          # the name in each handshake (SNI), None when there was none
        self.certificates = []       # of each client, as ssl.getpeercert() shows it
        self.protocols = []
        self.resumed = 0
        if context:
            context.sni_callback = lambda _, name, __: self.asked_for.append(name)
        super().__init__(address, port)

    def serve(self, sock):
        inner = sock
        if self.context:
            inner = Tls(sock, self.context, server_side=True)
            self.certificates.append(inner.object.getpeercert())
            self.protocols.append(inner.object.selected_alpn_protocol())
            self.resumed += bool(inner.object.session_reused)
        with socket.create_connection(("127.0.0.1", self.to_port)) as outer:
            finish = inner.finish if self.context else lambda: sock.shutdown(socket.SHUT_WR)
            back = threading.Thread(target=pass_on, args=(outer, inner, finish), daemon=True)
            back.start()
            pass_on(inner, outer, lambda: outer.shutdown(socket.SHUT_WR))
            outer.shutdown(socket.SHUT_RDWR)
            back.join(5)


def server_context(certificate, client_ca=None, protocols=("http/1.1",)):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    context.set_alpn_protocols(list(protocols))
    if client_ca:
        context.load_verify_locations(client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context
