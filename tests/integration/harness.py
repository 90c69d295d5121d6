# SPDX-License-Identifier: Apache-2.0
"""Starts the real gateway and simulated model servers, and reads what they leave behind.

For:       black-box tests: processes on free loopback ports in a temporary directory, journal rows,
           logs, counters of the simulated servers.
Used by:   the test files here, ../cases/run.py, ../sdk/run.py.
Knows not: what any test expects.
"""

import json
import os
import pathlib
import socket
import subprocess
import tempfile
import time
import unittest
import uuid

import wire

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOLLGATE = os.environ.get("TOLLGATE", str(ROOT / "build" / "tollgate"))
FAKE = os.environ.get("FAKE", str(ROOT / "build" / "fake"))
WORKERS = int(os.environ.get("WORKERS", "2"))
START_SECONDS = 10.0
ROW_SECONDS = 5.0
MEMORY_SLACK_KIB = 64 * 1024     # what a bounded attack may cost, sanitizers included
ADMIN_TOKEN = "admin-token-for-tests"
KEY = "sk-test-acme"
KEY_OTHER = "sk-test-globex"
KEY_EXPIRED = "sk-test-expired"
REPLICA_KEY = "replica-secret-for-tests"
FAKE_MODELS = "small,large,vendor/small-1b"
ORIGIN = "https://app.example"


def use_binaries(tollgate=None, fake=None):
    """Other programs to test than those in build/."""
    global TOLLGATE, FAKE
    TOLLGATE, FAKE = os.path.abspath(tollgate or TOLLGATE), os.path.abspath(fake or FAKE)


HANDED_OUT = set()


def free_ports(count):
    """Ports that were free a moment ago, all different, and never the same twice."""
    sockets, ports = [], []
    while len(ports) < count:
        sockets.append(socket.socket())
        sockets[-1].bind(("127.0.0.1", 0))
        port = sockets[-1].getsockname()[1]
        if port not in HANDED_OUT:
            ports.append(port)
            HANDED_OUT.add(port)
    for sock in sockets:
        sock.close()
    return ports


def wait_until(true, seconds=5.0, pause=0.01):
    """Ask until true() is truthy or the time is over; its last value."""
    deadline = time.monotonic() + seconds
    while not (value := true()) and time.monotonic() < deadline:
        time.sleep(pause)
    return value


def get(port, path, headers=(), method="GET", body=None):
    """One request on a connection of its own."""
    conn = wire.H1(port)
    try:
        return conn.request(method, path, headers, body)
    finally:
        conn.close()


def bearer(key):
    return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}


class Process:
    """A child process whose output goes to a file; ended by its own pid only."""

    def __init__(self, arguments, log_path, environment=None):
        self.log_path = pathlib.Path(log_path)
        self.log_file = open(self.log_path, "ab")
        self.child = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=self.log_file,
                                      stderr=subprocess.STDOUT, env=environment)

    def running(self):
        return self.child.poll() is None

    def output(self):
        return self.log_path.read_text("utf-8", "replace")

    def signal(self, number):
        self.child.send_signal(number)

    def wait(self, seconds):
        """The exit code, or None when it still runs after that."""
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def stop(self, seconds=10.0):
        """SIGTERM, then SIGKILL; the exit code."""
        if self.running():
            self.child.terminate()
            if self.wait(seconds) is None:
                self.child.kill()
                self.child.wait()
        self.log_file.close()
        return self.child.returncode


class Gateway(Process):
    """build/tollgate with one configuration, in a directory of its own."""

    def __init__(self, config, environment=None, directory=None):
        """config: as DESIGN has it; listen, admin, journal and log are filled in when absent;
        listen_too: further listeners."""
        self.holder = None
        self.last_words = None
        if directory is None:
            self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
            directory = self.holder.name
        self.directory = pathlib.Path(directory)
        self.port, self.admin_port = free_ports(2)
        self.journal = self.directory / "journal"
        self.journal.mkdir(exist_ok=True)
        self.access = self.directory / "access.log"
        self.config_path = self.directory / "tollgate.yaml"
        self.config = self._filled(config)
        self.write_config(self.config)
        whole = dict(os.environ, **(environment or {}))
        # Freed memory that a sanitizer keeps would look like growth.
        whole["ASAN_OPTIONS"] = ":".join(filter(None, (whole.get("ASAN_OPTIONS"),
                                                       "quarantine_size_mb=4")))
        super().__init__([TOLLGATE, "serve", "--config", str(self.config_path)],
                         self.directory / "output.log", whole)
        self._wait_ready()

    def _filled(self, config):
        whole = {
            "listen": [{"address": f"127.0.0.1:{self.port}"}],
            "admin": {"address": f"127.0.0.1:{self.admin_port}", "token": ADMIN_TOKEN},
            "gateway": "test",
            "workers": WORKERS,
            "log": {"access": str(self.access), "level": "debug"},
            "meter": {"journal": str(self.journal)},
        }
        whole.update(config)
        whole["listen"] = whole["listen"] + whole.pop("listen_too", [])
        return whole

    def write_config(self, config):
        """Nothing but the tests' own requests goes to replicas, unless the test says otherwise."""
        config = config | {"health": {"load_every": "0s"} | config.get("health", {})}
        self.config_path.write_text(json.dumps(config, indent=1))

    def _wait_ready(self):
        def ready():
            if not self.running():
                return True
            try:
                return get(self.port, "/livez").status == 200
            except (OSError, wire.WireError):
                return False
        if not wait_until(ready, START_SECONDS, 0.02) or not self.running():
            output = self.output()
            self.stop()
            raise RuntimeError(f"the gateway did not start:\n{output[-4000:]}")

    def admin(self, path, method="GET", token=ADMIN_TOKEN, body=None):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return get(self.admin_port, path, headers, method, body)

    def rows(self):
        """Every journal row so far, in the order of file and line."""
        found = []
        for path in sorted(self.journal.glob("*.jsonl")):
            # What follows the last line end is being written at this moment.
            for line in path.read_bytes().split(b"\n")[:-1]:
                found.append(json.loads(line))
        return found

    def calls(self):
        return [row for row in self.rows() if row.get("kind") == "call"]

    def row_of(self, request_id, seconds=ROW_SECONDS):
        """The one call row with the client's request id; fails when none or two come."""
        def mine():
            return [row for row in self.calls() if row.get("request_id") == request_id]
        rows = wait_until(mine, seconds)
        if len(rows) != 1:
            raise AssertionError(f"{len(rows)} rows for {request_id}")
        return rows[0]

    def logs(self):
        """Everything it has printed and logged."""
        access = self.access.read_text("utf-8", "replace") if self.access.exists() else ""
        return self.output() + access

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.child.pid}/status").read_text()
        return int(next(line.split()[1] for line in status.splitlines()
                        if line.startswith("VmRSS:")))

    def stop(self, seconds=10.0):
        code = super().stop(seconds)
        if self.last_words is None:
            self.last_words = self.output()[-6000:]
        if self.holder is not None:
            self.holder.cleanup()
            self.holder = None
        return code

    def kill(self):
        """SIGKILL, directory kept."""
        self.child.kill()
        self.child.wait()


class Fake(Process):
    """build/fake: a simulated vLLM, scripted by [[fake ...]] in the prompt."""

    def __init__(self, directory, name, *arguments, port=None):
        self.name = name
        self.port = port or free_ports(1)[0]
        self.request_log = pathlib.Path(directory) / f"{name}-{self.port}.requests"
        super().__init__([FAKE, "--port", str(self.port), "--log", str(self.request_log),
                          "--models", FAKE_MODELS, "--key", REPLICA_KEY, *arguments],
                         pathlib.Path(directory) / f"{name}-{self.port}.log")
        if not wait_until(self._up, START_SECONDS, 0.02):
            self.stop()
            raise RuntimeError(f"fake {name} did not start:\n{self.output()}")

    def _up(self):
        try:
            return get(self.port, "/fake/counters").status == 200  # not every kind has /health
        except (OSError, wire.WireError):
            return False

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def counters(self):
        return get(self.port, "/fake/counters").json()

    def served(self):
        """One dict for each line of the request log, in order."""
        get(self.port, "/fake/flush")
        names = ("id", "endpoint", "model", "status", "prompt_tokens", "generated", "ending")
        found = []
        if not self.request_log.exists():
            return found
        for line in self.request_log.read_text().splitlines():
            entry = dict(zip(names, line.split()))
            for number in ("status", "prompt_tokens", "generated"):
                entry[number] = int(entry[number])
            found.append(entry)
        return found

    def served_as(self, exchange_id, seconds=ROW_SECONDS):
        """The entry of one exchange; None when none comes."""
        def mine():
            return [entry for entry in self.served() if entry["id"] == exchange_id]
        found = wait_until(mine, seconds, 0.05)
        return found[-1] if found else None


def price(input_usd="0.05", output_usd="0.20", cached="0.0125"):
    return [{"from": "2026-01-01", "input": input_usd, "cached_input": cached,
             "output": output_usd}]


def model(*replicas, kind="vllm", slots=64, **more):
    """A model on (name, port) pairs."""
    entry = {"kind": kind, "price": price(), "context": 32768, "output": 4096,
             "replicas": [{"name": name, "url": f"http://127.0.0.1:{port}", "key": REPLICA_KEY,
                           "slots": slots} for name, port in replicas]}
    entry.update(more)
    return entry


def tenants(**more):
    """Two tenants, the first with an expired key beside its good one."""
    found = {
        "acme": {"keys": [{"id": "web", "key": "${TEST_KEY}"},
                          {"id": "old", "key": "${TEST_KEY_EXPIRED}", "expires": "2020-01-01"}],
                 "tags": {"team": "search"}},
        "globex": {"keys": [{"id": "web", "key": "${TEST_KEY_OTHER}"}]},
    }
    for name, members in more.items():
        found[name] = dict(found.get(name, {}), **members)
    return found


ENVIRONMENT = {"TEST_KEY": KEY, "TEST_KEY_OTHER": KEY_OTHER, "TEST_KEY_EXPIRED": KEY_EXPIRED}


def chat(prompt="hello", model_name="small", **more):
    """The body of a chat request as bytes."""
    body = {"model": model_name, "messages": [{"role": "user", "content": prompt}]}
    body.update(more)
    return json.dumps(body, separators=(",", ":")).encode()


def cost_of_row(row):
    """Picodollars that a billable row's tokens come to at its own rates; prices without steps."""
    prices = row["prices"]
    plain = {"cached_input": "input", "cache_write": "input", "reasoning": "output"}
    return sum(row.get(name, 0) * int(prices.get(name, prices[plain.get(name, name)]))
               for name in ("input", "cached_input", "cache_write", "output", "reasoning"))


def new_id():
    return "t-" + uuid.uuid4().hex[:20]


class Sse:
    """An event stream's data events, read strictly: LF line ends as our servers write them."""

    def __init__(self, body):
        self.comments, self.data, self.done = 0, [], False
        text = bytes(body).decode()
        whole, _, self.rest = text.rpartition("\n\n")
        for block in whole.split("\n\n") if whole else []:
            for line in block.split("\n"):
                if line.startswith(":"):
                    self.comments += 1
                elif line.startswith("data:"):
                    value = line[5:].removeprefix(" ")
                    if value == "[DONE]":
                        self.done = True
                    else:
                        self.data.append(json.loads(value))

    def text(self):
        return "".join(choice.get("delta", {}).get("content") or choice.get("text") or ""
                       for event in self.data for choice in event.get("choices", []))

    def usage(self):
        """The last usage shown, or None."""
        return next((event["usage"] for event in reversed(self.data) if event.get("usage")), None)

    def error(self):
        return next((event["error"] for event in self.data if event.get("error")), None)


class GatewayTest(unittest.TestCase):
    """One gateway and its fakes for all tests of a class."""

    FAKES = (("s1", ()), ("s2", ()), ("l1", ()))
    gateway = None

    @classmethod
    def configure(cls):
        """The configuration of this class; fakes are already up."""
        return {
            "models": {
                "small": model(("s1", cls.fakes["s1"].port), ("s2", cls.fakes["s2"].port)),
                "large": model(("l1", cls.fakes["l1"].port)),
            },
            "classes": [{"name": "default", "match": {}}],
            "tenants": tenants(),
        }

    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        cls.addClassCleanup(cls.holder.cleanup)
        cls.fakes = {}
        for name, arguments in cls.FAKES:
            cls.fakes[name] = Fake(cls.holder.name, name, *arguments)
            cls.addClassCleanup(cls.fakes[name].stop)
        cls.gateway = Gateway(cls.configure(), ENVIRONMENT)
        cls.addClassCleanup(cls.stop_gateway)

    @classmethod
    def stop_gateway(cls):
        """Its end must be clean too: a sanitizer's report makes another exit code."""
        gateway, cls.gateway = cls.gateway, None
        if gateway is not None and gateway.stop() != 0:
            raise AssertionError(f"the gateway ended with {gateway.child.returncode}:\n"
                                 f"{gateway.last_words}")

    def h1(self, **more):
        conn = wire.H1(self.gateway.port, **more)
        self.addCleanup(conn.close)
        return conn

    def h2(self, **more):
        conn = wire.H2(self.gateway.port, **more)
        self.addCleanup(conn.close)
        return conn

    def raw_h2(self, **more):
        conn = wire.RawH2(self.gateway.port, **more)
        self.addCleanup(conn.close)
        return conn

    def clients(self):
        """A connection of each protocol, for tests that must hold on both."""
        return (("h1", self.h1()), ("h2", self.h2()))

    def ask(self, conn, body, headers=(), key=KEY, path="/v1/chat/completions", **more):
        """POST a body; the reply."""
        whole = dict(bearer(key), **dict(headers))
        return conn.request("POST", path, whole, body, **more)

    def ask_row(self, conn, body, headers=(), **more):
        """POST a body with a request id of its own; the reply and its journal row."""
        request_id = new_id()
        reply = self.ask(conn, body, dict(headers, **{"x-request-id": request_id}), **more)
        return reply, self.gateway.row_of(request_id)

    def fake_posts(self):
        """How many requests the fakes have had, all together."""
        return sum(len(fake.served()) for fake in self.fakes.values())

    def assert_error(self, reply, status, code=None):
        """An error in OpenAI's shape, all four members."""
        self.assertEqual(reply.status, status, reply)
        error = reply.json()["error"]
        self.assertEqual(set(error), {"message", "type", "param", "code"})
        self.assertIsInstance(error["message"], str)
        self.assertIsInstance(error["type"], str)
        if code is not None:
            self.assertEqual(error["code"], code)

    def assert_alive(self):
        """The gateway still answers an ordinary request."""
        self.assertTrue(self.gateway.running(), "the gateway is gone")
        reply = self.ask(self.h1(), chat("still there? [[fake tokens=2]]"))
        self.assertEqual(reply.status, 200, reply)
