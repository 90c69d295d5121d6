#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Kills the gateway again and again under load, and proves that no token was lost or billed twice.

For:       make crash (1,000 times), make test (50 times). Each life is ended by SIGKILL 50 to
           500 ms after it was ready, under 200 requests: streams and plain ones, HTTP/1.1 and
           HTTP/2, chat, completions and messages, on kinds of server with and without running
           usage. Between some lives another process is killed while it starts and recovers. All
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
import planted    # noqa: E402
import verdict    # noqa: E402
import wire       # noqa: E402

H1_CONNECTIONS, H2_CONNECTIONS, H2_STREAMS = 120, 4, 20
KILL_AFTER_S = (0.05, 0.5)
STILLBORN = 0.2                           # of the lives: one before them dies while it starts
READY_S = 20.0
SHOWN = 10
# The models by name: the kind of their server, the most tokens of one event, and what they are
# asked for. Where there is no running usage (no such kind, or messages), what was delivered is
# known by its events, so each bears one token.
MODELS = {"m-running": ("vllm", 3, ("chat/completions", "completions")),
          "m-vllm": ("vllm", 1, clients.ENDPOINTS),
          "m-llamacpp": ("llamacpp", 1, clients.ENDPOINTS),
          "m-openai": ("openai", 1, clients.ENDPOINTS)}


class Bench:
    """The folder, the simulated servers, and one life of the gateway after the other."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.journal = self.folder / "journal"
        self.fakes = {}
        self.ready_s = []
        self.stillborn = 0
        self.output = self.folder / "gateway.log"
        (self.port,) = harness.free_ports(1)

    def start_fakes(self):
        for name, (kind, _, _) in MODELS.items():
            harness.FAKE_MODELS = name
            self.fakes[name] = harness.Fake(self.folder, name, "--kind", kind)
        config = {
            "listen": [{"address": f"127.0.0.1:{self.port}"}],
            "gateway": "crash",
            "workers": 2,
            "log": {"access": "none", "level": "warn"},
            "meter": {"journal": str(self.journal), "segment_bytes": "64KiB",
                      "ledger": f"sqlite:{self.folder / 'ledger.db'}"},
            # Each dead process leaves blocks reserved for a row of every slot.
            "limits": {"in_flight": 1024},
            "health": {"load_every": "0s", "check_every": "0s"},
            "models": {name: {
                "kind": kind,
                "price": harness.price(),
                "replicas": [{"name": "r", "url": self.fakes[name].url, "slots": 400,
                              "key": harness.REPLICA_KEY}]}
                for name, (kind, _, _) in MODELS.items()},
            "tenants": {"acme": {"keys": [{"id": "web", "key": harness.KEY}]}},
        }
        self.config = self.folder / "tollgate.yaml"
        self.config.write_text(json.dumps(config))

    def is_ready(self):
        try:
            return harness.get(self.port, "/livez").status == 200
        except (OSError, wire.WireError):
            return False

    def spawn(self):
        return harness.Process([harness.TOLLGATE, "serve", "--config", str(self.config)],
                               self.output)

    def kill(self, process):
        process.signal(signal.SIGKILL)
        process.wait(None)
        process.log_file.close()

    def die_starting(self, rng):
        """One that is killed at some moment of its start."""
        process = self.spawn()
        time.sleep(rng.uniform(0, self.ready_s[-1]))
        self.kill(process)
        self.stillborn += 1

    def start(self):
        """A process that answers."""
        began = time.monotonic()
        process = self.spawn()
        while not self.is_ready():
            if not process.running() or time.monotonic() - began > READY_S:
                process.stop()
                raise RuntimeError(f"the gateway did not start:\n{process.output()[-4000:]}")
            time.sleep(0.002)
        self.ready_s.append(time.monotonic() - began)
        return process

    def live_and_die(self, number, rng):
        """One life; what its clients received."""
        if self.ready_s and rng.random() < STILLBORN:
            self.die_starting(rng)
        process = self.start()
        until = time.monotonic() + rng.uniform(*KILL_AFTER_S)
        load = clients.Load(self.port, harness.KEY.encode(), rng, MODELS, f"c{number}")
        try:
            load.open(H1_CONNECTIONS, H2_CONNECTIONS, H2_STREAMS)
            load.run(until)
            alive = process.running()
        finally:
            self.kill(process)
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


def run_command(bench, *words):
    """A command of tollgate's on the same configuration: its last words when it is not content."""
    done = subprocess.run([harness.TOLLGATE, *words, "--config", str(bench.config)],
                          capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).strip().split("\n")
            if not line.startswith("note:")]
    return [] if done.returncode == 0 else [f"exit code {done.returncode}", *said[:SHOWN]]


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
    total.check("faults planted into the journal are found",
                planted.not_found_in_files(bench.journal))
    total.check("faults planted into rows are found",
                planted.not_found_in_rows(journal.calls, asks, served))
    total.check("the ledger takes what it has not yet", run_command(bench, "ledger", "feed"))
    total.check("tollgate audit finds nothing", run_command(bench, "audit"))
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
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
    with tempfile.TemporaryDirectory(prefix="tollgate-crash-") as own:
        bench = Bench(arguments.folder or own)
        asks = []
        try:
            bench.start_fakes()
            for number in range(arguments.crashes):
                asks += bench.live_and_die(number, rng)
            code = bench.end_in_order()
            ready = sorted(bench.ready_s)
            print(f"{arguments.crashes} kills under load and {bench.stillborn} of processes that "
                  f"were starting, in {time.monotonic() - began:.0f} s (seed "
                  f"{arguments.seed}); ready again after {statistics.median(ready) * 1000:.0f} ms "
                  f"(median), {ready[-1] * 1000:.0f} ms (most)")
            total = judge(bench, asks, code, arguments.crashes)
        finally:
            bench.stop_fakes()
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
