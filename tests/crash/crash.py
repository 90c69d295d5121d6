#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the gateway again and again under load, and proves that no token was lost or billed twice.

For:       make crash (1,000 times), make test (50 times). Each life is ended by SIGKILL 50 to 500 ms
           after it was ready, under 200 requests: streams and plain ones, HTTP/1.1 and HTTP/2, chat,
           completions and messages, on kinds of server with and without running usage. All lives
           share one journal. Then a last life recovers and ends in order, and the journal is held
           against what each client received and each simulated server generated.
Usage:     crash.py --tollgate FILE --fake FILE [--crashes N] [--seed N]; also CRASHES, SEED.
Prints:    its figures, what is wrong, and last "N passed, N failed".
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import clients    # noqa: E402
import harness    # noqa: E402
import verdict    # noqa: E402
import wire       # noqa: E402

H1_CONNECTIONS, H2_CONNECTIONS, H2_STREAMS = 120, 4, 20
KILL_AFTER_S = (0.05, 0.5)
READY_S = 20.0
SHOWN = 10
# Name of the model, most tokens of one event. Where a kind has no running usage, what was delivered
# is known by its events, so each bears one token.
MODELS = {"vllm": ("m-vllm", 3), "llamacpp": ("m-llamacpp", 1), "openai": ("m-openai", 1)}


class Bench:
    """The folder, the simulated servers, and one life of the gateway after the other."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.journal = self.folder / "journal"
        self.fakes = {}
        self.ready_s = []
        self.output = self.folder / "gateway.log"
        (self.port,) = harness.free_ports(1)

    def start_fakes(self):
        for kind, (name, _) in MODELS.items():
            harness.FAKE_MODELS = name
            self.fakes[kind] = harness.Fake(self.folder, kind, "--kind", kind)
        config = {
            "listen": [{"address": f"127.0.0.1:{self.port}"}],
            "gateway": "crash",
            "workers": 2,
            "log": {"access": "none", "level": "warn"},
            "meter": {"journal": str(self.journal), "segment_bytes": "64KiB"},
            "health": {"load_every": "0s", "check_every": "0s"},
            "models": {name: {
                "kind": kind,
                "price": harness.price(),
                "replicas": [{"name": kind, "url": self.fakes[kind].url, "slots": 400,
                              "key": harness.REPLICA_KEY}]}
                for kind, (name, _) in MODELS.items()},
            "tenants": {"acme": {"keys": [{"id": "web", "key": harness.KEY}]}},
        }
        self.config = self.folder / "tollgate.yaml"
        self.config.write_text(json.dumps(config))

    def is_ready(self):
        try:
            return harness.get(self.port, "/livez").status == 200
        except (OSError, wire.WireError):
            return False

    def start(self):
        """A process that answers."""
        began = time.monotonic()
        process = harness.Process([harness.TOLLGATE, "serve", "--config", str(self.config)],
                                  self.output)
        while not self.is_ready():
            if not process.running() or time.monotonic() - began > READY_S:
                process.stop()
                raise RuntimeError(f"the gateway did not start:\n{process.output()[-4000:]}")
            time.sleep(0.002)
        self.ready_s.append(time.monotonic() - began)
        return process

    def live_and_die(self, number, rng):
        """One life; what its clients received."""
        process = self.start()
        until = time.monotonic() + rng.uniform(*KILL_AFTER_S)
        load = clients.Load(self.port, harness.KEY.encode(), rng, list(MODELS.values()),
                            f"c{number}")
        try:
            load.open(H1_CONNECTIONS, H2_CONNECTIONS, H2_STREAMS)
            load.run(until)
            alive = process.running()
        finally:
            process.signal(signal.SIGKILL)
            process.wait(None)
            process.log_file.close()
        load.close()
        if not alive:
            raise RuntimeError(f"it died by itself:\n{process.output()[-4000:]}")
        return load.asks

    def end_in_order(self):
        """The last life; its exit code."""
        process = self.start()
        return process.stop(60.0)

    def served(self):
        """Exchange id to prompt tokens and all that was generated for it."""
        found, generated = {}, 0
        for fake in self.fakes.values():
            for entry in fake.served():
                before = found.get(entry["id"], (0, 0))
                found[entry["id"]] = (entry["prompt_tokens"], before[1] + entry["generated"])
                generated += entry["generated"]
        return {key: value for key, value in found.items() if value[1] > 0}

    def stop_fakes(self):
        for fake in self.fakes.values():
            fake.stop()


class Sum:
    """Checks by name: each passes or fails once."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, problems):
        problems = list(problems)
        if not problems:
            self.passed += 1
            print(f"ok      {what}")
            return
        self.failed += 1
        print(f"FAILED  {what}: {len(problems)}")
        for problem in problems[:SHOWN]:
            print(f"        {problem}")


def audit(bench):
    """What tollgate's own auditor has to say; None: this build has none."""
    usage = subprocess.run([harness.TOLLGATE, "--help"], capture_output=True, text=True, check=False)
    if "audit" not in usage.stdout + usage.stderr:
        return None
    done = subprocess.run([harness.TOLLGATE, "audit", "--config", str(bench.config)],
                          capture_output=True, text=True, check=False)
    return [] if done.returncode == 0 else (done.stdout + done.stderr).strip().split("\n")[-SHOWN:]


def left_over(bench):
    return [path.name for pattern in ("*.inflight*", "*.damaged") for path
            in bench.journal.glob(pattern)]


def judge(bench, asks, code, crashes):
    total = Sum()
    total.check("the last life ends in order", [] if code == 0 else [f"exit code {code}"])
    total.check("no table of what was under way is left", left_over(bench))
    served = bench.served()
    journal = verdict.Journal(bench.journal)
    result = verdict.Verdict(journal.calls, asks, served)
    recovered = sum(row.get("outcome") == "crash_recovered" for row in journal.calls)
    finished = sum(ask.finished and ask.status == 200 for ask in asks)
    cut = sum(ask.received > 0 and not ask.finished for ask in asks)
    print(f"{len(asks)} requests: {finished} answered whole, {cut} cut with tokens received")
    print(f"{journal.lines} lines in {journal.opens} files, {len(journal.calls)} rows of calls, "
          f"{recovered} crash_recovered, {journal.heads} heads, {journal.torn} torn ends")
    print(f"tokens: {sum(ask.received for ask in asks)} received, "
          f"{sum(map(verdict.billed_output, journal.calls))} billed, "
          f"{sum(generated for _, generated in served.values())} generated")
    total.check("files, chain, heads, balances and costs are whole", journal.problems)
    total.check("no row twice (request)", verdict.twice(journal.calls, "request_id"))
    total.check("no row twice (exchange)", verdict.twice(journal.calls, "exchange_id"))
    total.check("no row lost", result.lost())
    total.check("received ≤ billed ≤ generated", result.unlike())
    total.check("received = billed = generated of what came whole", result.unequal())
    total.check("nothing was refused", (f"{ask.request_id}: {ask.status}" for ask in asks
                                        if ask.status not in (0, 200)))
    total.check("the load was one", [] if finished > crashes and cut > crashes and recovered > 0
                else [f"{finished} whole, {cut} cut, {recovered} recovered"])
    audited = audit(bench)
    if audited is None:
        print("skipped tollgate audit: this build has none")
    else:
        total.check("tollgate audit finds nothing", audited)
    return total


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tollgate", required=True)
    parser.add_argument("--fake", required=True)
    parser.add_argument("--crashes", type=int, default=int(os.environ.get("CRASHES") or 1000))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 1))
    parser.add_argument("--folder", help="where everything is kept (else it is thrown away)")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    harness.use_binaries(arguments.tollgate, arguments.fake)
    rng = random.Random(arguments.seed)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tollgate-crash-") as own:
        bench = Bench(arguments.folder or own)
        asks = []
        try:
            bench.start_fakes()
            for number in range(arguments.crashes):
                asks += bench.live_and_die(number, rng)
            code = bench.end_in_order()
            ready = sorted(bench.ready_s)
            print(f"{arguments.crashes} kills in {time.monotonic() - began:.0f} s (seed "
                  f"{arguments.seed}); ready again after {statistics.median(ready) * 1000:.0f} ms "
                  f"(median), {ready[-1] * 1000:.0f} ms (most)")
            total = judge(bench, asks, code, arguments.crashes)
        finally:
            bench.stop_fakes()
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
