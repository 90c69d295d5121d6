#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/soak/run.py: every token delivered is billed once, whatever clients and replicas do.

For:       starts four simulated model servers and the gateway, sends the seeded mix twice (another
           seed the second time), and joins three witnesses by request: what the client received
           (its log), what was billed (the journal), what was generated (the servers' logs).
Called by: make soak (tests/soak/run).
Knows not: how the gateway works inside.

Promises, each checked for every request:
 1. One that the gateway answered has exactly one row; one that its client left unanswered has at
    most one.
 2. Finished: received = billed = generated, and the input is billed as the server counted it.
 3. Cut, by anyone: received <= billed <= generated. An error is not billed.
 4. x-tollgate-model and -replica of the answer are those of the row, and the model is the class's.
 5. Afterwards the gateway has as many descriptors as before, ends well, and its sanitizer is
    silent; with --plain its memory after the second run is that after the first, but for 2 MiB.
"""
import argparse
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

KEY = "sk-soak-0123456789"
MODELS = {"small": ("s1", "s2"), "large": ("l1", "l2")}
MEMORY_SLACK_KIB = 2048
SHOWN = 10      # examples of each kind of failure


class Tally:
    """Counts what held and what did not, with a few examples."""

    def __init__(self):
        self.passed = 0
        self.failed = {}

    def check(self, promise, true, example=""):
        if true:
            self.passed += 1
            return
        examples = self.failed.setdefault(promise, [])
        examples.append(example if len(examples) < SHOWN else None)

    def report(self):
        for promise, examples in self.failed.items():
            print(f"FAILED  {promise}: {len(examples)} times")
            for example in examples[:SHOWN]:
                print(f"        {example}")
        failed = sum(len(examples) for examples in self.failed.values())
        print(f"{self.passed} passed, {failed} failed")
        return 1 if failed else 0


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def call(port, path, method="GET"):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read()


def wait_until(true, seconds, pause=0.05):
    end = time.monotonic() + seconds
    while not (value := true()) and time.monotonic() < end:
        time.sleep(pause)
    return value


class Fake:
    """One simulated model server; its log says what it generated."""

    def __init__(self, program, folder, model, name):
        self.log = os.path.join(folder, f"fake-{name}.log")
        self.process = subprocess.Popen(
            [program, "--port", "0", "--models", model, "--log", self.log,
             "--once-file", os.path.join(folder, f"once-{model}")],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])

    def idle(self):
        return json.loads(call(self.port, "/fake/counters"))["running"] == 0

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


def write_config(path, port, admin_port, journal, fakes, workers):
    """The gateway before two models of two replicas; the class decides the model."""
    price = [{"from": "2026-01-01", "input": "0.05", "cached_input": "0.0125", "output": "0.20"}]
    config = {
        "listen": [{"address": f"127.0.0.1:{port}"}],
        "admin": {"address": f"127.0.0.1:{admin_port}", "token": "soak-admin-token"},
        "gateway": "soak",
        "workers": workers,
        "log": {"access": os.path.join(os.path.dirname(path), "access.log"), "level": "warn"},
        "models": {
            model: {
                "kind": "vllm", "price": price, "context": 131072, "output": 20000,
                "replicas": [{"name": name, "url": f"http://127.0.0.1:{fakes[name].port}",
                              "slots": 512} for name in names],
            } for model, names in MODELS.items()},
        "classes": [
            {"name": "small", "match": {"header": {"x-task-class": "small"}}, "model": "small"},
            {"name": "large", "match": {"header": {"x-task-class": "large"}}, "model": "large"},
        ],
        "tenants": {"soak": {"keys": [{"id": "soak", "key": "${SOAK_KEY}"}]}},
        "meter": {"journal": journal},
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file, indent=1)


class Gateway:
    def __init__(self, program, folder, fakes, workers):
        self.port, self.admin_port = free_port(), free_port()
        self.journal = os.path.join(folder, "journal")
        os.mkdir(self.journal)
        config = os.path.join(folder, "tollgate.yaml")
        write_config(config, self.port, self.admin_port, self.journal, fakes, workers)
        self.output = os.path.join(folder, "tollgate.out")
        environment = dict(os.environ, SOAK_KEY=KEY)
        with open(self.output, "wb") as output:
            self.process = subprocess.Popen([program, "serve", "--config", config],
                                            stdin=subprocess.DEVNULL, stdout=output,
                                            stderr=subprocess.STDOUT, env=environment)
        if not wait_until(self.ready, 30):
            raise SystemExit(f"soak: the gateway did not become ready:\n{self.said()[-4000:]}")

    def ready(self):
        if self.process.poll() is not None:
            raise SystemExit(f"soak: the gateway ended:\n{self.said()[-4000:]}")
        try:
            call(self.port, "/readyz")
            return True
        except OSError:
            return False

    def said(self):
        with open(self.output, encoding="utf-8", errors="replace") as file:
            return file.read()

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def resident_kib(self):
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1))

    def stop(self):
        """SIGTERM; the exit code, None when it had to be killed."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def rows(self):
        """All rows of calls, by the client's request id."""
        found = {}
        for path in sorted(glob.glob(os.path.join(self.journal, "*.jsonl"))):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    row = json.loads(line)
                    if row.get("kind") == "call":
                        found.setdefault(row.get("request_id"), []).append(row)
        return found


def read_generated(fakes):
    """By exchange id: tokens generated and the attempts, over all servers. Attempts of one exchange
    may bear its id with a suffix `-<attempt>`."""
    found = {}
    for name, fake in fakes.items():
        with open(fake.log, encoding="utf-8") as file:
            for line in file:
                request_id, _, _, status, prompt, generated, outcome = line.split()
                exchange_id = re.sub(r"-\d+$", "", request_id)
                for key in {request_id, exchange_id}:
                    found.setdefault(key, []).append(
                        (name, int(status), int(prompt), int(generated), outcome))
    return found


def read_client_log(path):
    names = ("request_id", "kind", "protocol", "status", "received", "ending", "usage_asked",
             "usage_shown", "model", "replica", "class")
    with open(path, encoding="utf-8") as file:
        for line in file:
            call_made = dict(zip(names, line.split()))
            call_made["status"] = int(call_made["status"])
            call_made["received"] = int(call_made["received"])
            yield call_made


def billed_output(row):
    return row.get("output", 0) + row.get("reasoning", 0) if row.get("billable") else 0


def billed_input(row):
    return row.get("input", 0) + row.get("cached_input", 0) + row.get("cache_write", 0)


def check_call(tally, made, rows, generated):
    """One request against its row and what the servers generated for it."""
    unanswered = made["ending"] in ("left", "cut") and made["status"] == 0
    count = len(rows)
    tally.check("one row for each request", count == 1 or (count == 0 and unanswered),
                f"{made} has {count} rows")
    if count != 1:
        return
    row = rows[0]
    attempts = generated.get(row.get("exchange_id"), [])
    made_tokens = sum(attempt[3] for attempt in attempts)
    billed = billed_output(row)
    example = f"{made} billed {billed} generated {made_tokens} attempts {attempts} row {row}"
    if made["ending"] == "finished":
        tally.check("finished: received = billed = generated",
                    made["received"] == billed == made_tokens, example)
        served = [attempt for attempt in attempts if attempt[4] == "complete"]
        tally.check("finished: the input is billed as counted",
                    len(served) == 1 and billed_input(row) == served[0][2], example)
        tally.check("finished: the outcome is ok and billable",
                    row.get("outcome") == "ok" and row.get("billable") is True, example)
    else:
        tally.check("cut: received <= billed <= generated",
                    made["received"] <= billed <= made_tokens, example)
    if made["status"] != 0:
        tally.check("the row has the status that the client got",
                    row.get("status") == made["status"], example)
    if made["status"] >= 400:
        tally.check("an error is not billed", billed == 0, example)
    if made["status"] == 200:
        tally.check("headers and row name the same model and replica",
                    made["model"] == row.get("model") and made["replica"] == row.get("replica"),
                    example)
        tally.check("the class decides the model", row.get("model") == made["class"], example)


def run_mix(tally, options, gateway, folder, seed):
    """Sends the mix once; the client's log."""
    log = os.path.join(folder, f"client-{seed}.log")
    result = subprocess.run(
        [options.soak, "--address", f"127.0.0.1:{gateway.port}", "--key", KEY, "--seed", str(seed),
         "--requests", str(options.requests), "--connections", str(options.connections),
         "--log", log], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    print(f"seed {seed}: {result.stdout.strip()}", flush=True)
    tally.check("the client met no wrong and no endless answer", result.returncode == 0,
                result.stderr[-3000:])
    tally.check("the gateway lives", gateway.process.poll() is None, gateway.said()[-3000:])
    return log


# An idle gateway gives memory back after 2 s without a request.
GIVES_BACK_SECONDS = 3


def settle(fakes, gateway, idle_descriptors):
    """Waits until nothing is under way; the descriptors that are left."""
    wait_until(lambda: all(fake.idle() for fake in fakes.values()), 20)
    wait_until(lambda: gateway.descriptors() <= idle_descriptors, 15)
    for fake in fakes.values():
        call(fake.port, "/fake/flush")
    time.sleep(GIVES_BACK_SECONDS)
    return gateway.descriptors()


def soak(options, folder):
    tally = Tally()
    fakes = {name: Fake(options.fake, folder, model, name)
             for model, names in MODELS.items() for name in names}
    gateway = None
    try:
        gateway = Gateway(options.tollgate, folder, fakes, options.workers)
        idle_descriptors = gateway.descriptors()
        seeds = (options.seed, options.seed + 1)
        logs = []
        memory_kib = []
        for seed in seeds:
            logs.append(run_mix(tally, options, gateway, folder, seed))
            if gateway.process.poll() is not None:
                return tally.report()
            left = settle(fakes, gateway, idle_descriptors)
            memory_kib.append(gateway.resident_kib())
            tally.check("descriptors as when idle", left <= idle_descriptors,
                        f"{idle_descriptors} before, {left} after seed {seed}")
        print(f"descriptors {idle_descriptors} idle, memory {memory_kib} KiB", flush=True)
        if options.plain:
            tally.check("memory after the second run", memory_kib[1] <=
                        memory_kib[0] + MEMORY_SLACK_KIB, f"{memory_kib} KiB")
        code = gateway.stop()
        tally.check("the gateway ends with 0", code == 0, f"{code}: {gateway.said()[-3000:]}")
        said = gateway.said()
        tally.check("the sanitizer is silent",
                    not re.search(r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:",
                                  said), said[-6000:])
        rows = gateway.rows()
        generated = read_generated(fakes)
        for log in logs:
            for made in read_client_log(log):
                check_call(tally, made, rows.get(made["request_id"], []), generated)
        return tally.report()
    finally:
        if gateway is not None and gateway.process.poll() is None:
            gateway.process.kill()
            gateway.process.wait()
        for fake in fakes.values():
            fake.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--requests", type=int, default=200000, help="of each of the two runs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--plain", action="store_true", help="a build without sanitizers: measure "
                                                             "its memory")
    parser.add_argument("--tollgate", default="build/tollgate")
    parser.add_argument("--fake", default="build/fake")
    parser.add_argument("--soak", default="build/soak")
    parser.add_argument("--keep", metavar="FOLDER", help="leave logs and journal there")
    options = parser.parse_args()
    for name in ("tollgate", "fake", "soak"):
        setattr(options, name, os.path.abspath(getattr(options, name)))
    if options.keep:
        os.makedirs(options.keep, exist_ok=True)
        return soak(options, tempfile.mkdtemp(dir=options.keep))
    with tempfile.TemporaryDirectory(prefix="tollgate-soak-") as folder:
        return soak(options, folder)


if __name__ == "__main__":
    sys.exit(main())
