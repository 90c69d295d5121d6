#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Cuts the power again and again under load, and proves that no answer was given whose row is lost.

For:       make power (200 cuts), make test (20). Each life of the gateway, with durability: power
           on the disk of disk.py, ends at some moment under load, streams and plain requests over
           HTTP/1.1 and HTTP/2; then the folder is made what the disk would have. Some lives are
           killed before, so that the one that loses its power has just taken over; some have
           durability: process: their rows may go, and nothing may break. Then a last
           life ends in order, and the journal is held against what clients received whole and what
           simulated servers generated.
Usage:     power.py --tollgate FILE --fake FILE [--cuts N] [--seed N]; also POWER, SEED.
Prints:    its figures, what is wrong, and last "N passed, N failed".
"""

import argparse
import json
import os
import pathlib
import random
import signal
import statistics
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "crash")]

import clients    # noqa: E402
import crash      # noqa: E402
import disk       # noqa: E402
import harness    # noqa: E402
import verdict    # noqa: E402

H1_CONNECTIONS, H2_CONNECTIONS, H2_STREAMS = 40, 2, 20
LIFE_S = (0.02, 0.9)
KILLED_BEFORE = 0.25                      # of the lives: one before them is killed, power on
PROCESS = 0.2                             # of the lives: durability: process, which may lose rows
STARTING = 0.15                           # of the cuts: while the process starts and recovers
IN_ORDER = 0.2                            # of the lives: ended in order just before the cut
SYNC_US = 12000                           # a sync takes up to so long
LOOKS = 3                                 # in a life: moments at which tables are written out


class Bench(crash.Bench):
    """One journal, whose disk loses its power at the end of each life."""

    def __init__(self, folder):
        super().__init__(folder)
        self.journal.mkdir()
        self.disk = disk.MortalDisk(self.folder, self.journal)
        self.disk.sync_delay_us, self.disk.sync_delay_varies = SYNC_US, 1
        self.killed = 0
        self.asks, self.given = [], []    # all; those answered whole, with durability: power

    def start_fakes(self):
        super().start_fakes()
        self.choose("power")

    def choose(self, durability):
        config = json.loads(self.config.read_text())
        config["meter"]["durability"] = durability
        config["limits"] = {"in_flight": 256}
        self.config.write_text(json.dumps(config))

    def spawn(self):
        return harness.Process([harness.TOLLGATE, "serve", "--config", str(self.config)],
                               self.output, dict(os.environ, **self.disk.environment()))

    def live_and_die(self, name, rng, in_order=False):
        """One life, killed or ended in order, and what its clients received."""
        durable = rng.random() >= PROCESS
        self.choose("power" if durable else "process")
        process = self.start()
        began = time.monotonic()
        until = began + rng.uniform(*LIFE_S)
        looks = sorted(rng.uniform(0, until - began) for _ in range(LOOKS))
        load = clients.Load(self.port, harness.KEY.encode(), rng, crash.MODELS, name)
        looker = threading.Thread(target=self.look_at, args=(began, looks))
        try:
            load.open(H1_CONNECTIONS, H2_CONNECTIONS, H2_STREAMS)
            looker.start()
            load.run(until)
            looker.join()
            alive = process.running() and (not in_order or process.stop(60.0) == 0)
        finally:
            self.kill(process)
        load.close()
        if not alive:
            raise RuntimeError(f"it died by itself:\n{process.output()[-4000:]}")
        self.asks += load.asks
        if durable:
            self.given += [ask for ask in load.asks if ask.finished and ask.status == 200]

    def look_at(self, began, looks):
        for moment in looks:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            self.disk.look()

    def cut(self, number, rng):
        """One power cut, and the lives before it."""
        if rng.random() < KILLED_BEFORE:
            self.live_and_die(f"k{number}", rng)
            self.killed += 1
        if self.ready_s and rng.random() < STARTING:
            self.die_starting(rng)
        else:
            self.live_and_die(f"p{number}", rng, rng.random() < IN_ORDER)
        self.disk.cut_power(rng)


def too_dear(rows, served):
    """No row bills more than was generated for it."""
    for row in rows:
        generated = served.get(row.get("exchange_id"), (0, 0))[1]
        if verdict.billed_output(row) > generated:
            yield f"{row.get('request_id')}: billed {verdict.billed_output(row)} of {generated}"


def judge(bench, code, cuts):
    total = crash.Sum()
    served = bench.served()
    journal = verdict.Journal(bench.journal)
    asks, given = bench.asks, bench.given
    result = verdict.Verdict(journal.calls, given, {})
    equal = verdict.Verdict(journal.calls, given, served)
    recovered = sum(row.get("outcome") == "crash_recovered" for row in journal.calls)
    print(f"{len(asks)} requests, {len(given)} answered whole with durability: power; "
          f"{len(journal.calls)} rows in {journal.opens} files, {recovered} crash_recovered, {journal.torn} torn ends")
    print("cut: " + ", ".join(f"{count} {what}" for what, count in bench.disk.cuts.items()))
    total.check("the last life ends in order", [] if code == 0 else [f"exit code {code}"])
    total.check("no table of what was under way is left", crash.left_over(bench))
    total.check("files, chain, heads, balances and costs are whole", journal.problems)
    total.check("no answer that came whole is without its row", result.lost())
    total.check("received = billed = generated of these", equal.unequal())
    total.check("no row twice (request)", verdict.twice(journal.calls, "request_id"))
    total.check("no row twice (exchange)", verdict.twice(journal.calls, "exchange_id"))
    total.check("billed ≤ generated", too_dear(journal.calls, served))
    total.check("nothing was refused", (f"{ask.request_id}: {ask.status}" for ask in asks
                                        if ask.status not in (0, 200)))
    total.check("the cuts were some", [] if len(given) > cuts and bench.disk.cuts["bytes dropped"]
                and bench.disk.cuts["old pages of tables"]
                else [f"{len(given)} whole, {bench.disk.cuts}"])
    lacking = [row for row in journal.calls if row.get("request_id") != given[-1].request_id]
    total.check("an answer without a row would be found",
                [] if verdict.Verdict(lacking, given, {}).lost() else ["it was not"])
    total.check("the ledger takes what it has not yet", crash.run_command(bench, "ledger", "feed"))
    total.check("tollgate audit finds nothing", crash.run_command(bench, "audit"))
    return total


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--tollgate", required=True)
    parser.add_argument("--fake", required=True)
    parser.add_argument("--cuts", type=int, default=int(os.environ.get("POWER") or 200))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 1))
    parser.add_argument("--folder", help="where everything is kept (else it is thrown away)")
    return parser.parse_args()


def main():
    arguments = read_arguments()
    harness.use_binaries(arguments.tollgate, arguments.fake)
    rng = random.Random(arguments.seed)
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))
    with tempfile.TemporaryDirectory(prefix="tollgate-power-") as own:
        bench = Bench(arguments.folder or own)
        try:
            bench.start_fakes()
            for number in range(arguments.cuts):
                bench.cut(number, rng)
            code = bench.end_in_order()
            ready = sorted(bench.ready_s)
            print(f"{arguments.cuts} power cuts and {bench.killed} kills before one, {bench.stillborn} "
                  f"while it started, in {time.monotonic() - began:.0f} s (seed {arguments.seed}); ready again after "
                  f"{statistics.median(ready) * 1000:.0f} ms (median), {ready[-1] * 1000:.0f} ms "
                  "(most)")
            total = judge(bench, code, arguments.cuts)
        finally:
            bench.stop_fakes()
    print(f"{total.passed} passed, {total.failed} failed")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
