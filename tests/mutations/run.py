#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a journal with the real gateway, then lets mutate spoil it.

For:       `tests/mutations/run.py [--mutations N] [--seed N] [--tollgate PATH] [--fake PATH]
           [--mutate PATH]`; the last line is `N passed, N failed`. The journal has several files, a
           process that was killed with requests under way, a correction, and anchors.
Used by:   make mutations, make test.
Knows not: what is changed in the journal (mutate.c).
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "integration")]

import harness
import wire

SEGMENT = "1s"                   # a file of the journal each second in which there were rows
ASKS = 12                        # in each file: hashing is what an audit takes its time for


def start(directory, fake):
    return harness.Gateway(
        {"models": {"small": harness.model(("s1", fake.port))},
         "classes": [{"name": "default", "match": {}}],
         "tenants": harness.tenants(),
         "meter": {"journal": str(directory / "journal"), "segment_age": SEGMENT,
                   "signing_key": str(directory / "signing.key"),
                   "anchor": {"file": str(directory / "anchors")}, "anchor_every": "1s"}},
        harness.ENVIRONMENT, directory=directory)


def ask(gateway, count, prompt="[[fake tokens=5]]"):
    """Plain and streamed requests, one after another; the last one's row is on disk then."""
    conn = wire.H1(gateway.port)
    for number in range(count):
        request_id = harness.new_id()
        headers = dict(harness.bearer(harness.KEY), **{"x-request-id": request_id})
        reply = conn.request("POST", "/v1/chat/completions", headers,
                             harness.chat(prompt, stream=number % 2 == 0))
        assert reply.status == 200, reply.status
    conn.close()
    gateway.row_of(request_id)


def ask_and_kill(gateway):
    """kill -9 while four streams are under way."""
    def stream():
        try:
            ask(gateway, 1, "[[fake tokens=200 gap=20]]")
        except (OSError, wire.WireError, AssertionError):
            pass
    threads = [threading.Thread(target=stream) for _ in range(4)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    gateway.kill()
    for thread in threads:
        thread.join()


def run_tollgate(*arguments, expect=0):
    environment = dict(os.environ, **harness.ENVIRONMENT)
    done = subprocess.run([harness.TOLLGATE, *arguments], env=environment, capture_output=True,
                          text=True, timeout=60, check=False)
    if done.returncode != expect:
        raise RuntimeError(f"{' '.join(arguments)}: exit {done.returncode}\n{done.stdout}"
                           f"{done.stderr}")
    return done.stdout


def make_journal(directory):
    """Three processes of the gateway and one correction."""
    fake = harness.Fake(directory, "s1")
    try:
        gateway = start(directory, fake)
        ask(gateway, ASKS)
        time.sleep(1.2)
        ask(gateway, ASKS)
        ask_and_kill(gateway)
        gateway = start(directory, fake)
        ask(gateway, ASKS)
        row = next(row for row in gateway.calls() if row["cost_pusd"] != "0")
        run_tollgate("adjust", f"{row['gateway']}/{row['epoch']}/{row['seq']}", "--void", "--by",
                     "tests", "--why", "a dispute", "--config", str(gateway.config_path))
        time.sleep(1.2)
        ask(gateway, ASKS)
        assert gateway.stop() == 0, gateway.last_words
        gateway = start(directory, fake)
        ask(gateway, ASKS)
        assert gateway.stop() == 0, gateway.last_words
    finally:
        fake.stop()
    said = json.loads(run_tollgate("audit", "--config", str(gateway.config_path), "--json"))
    assert said["ok"], said
    return gateway.journal


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutations", type=int, default=10000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tollgate", help="default: build/tollgate")
    parser.add_argument("--fake", help="default: build/fake")
    parser.add_argument("--mutate", default=str(ROOT / "build" / "mutate"))
    options = parser.parse_args()
    harness.use_binaries(options.tollgate, options.fake)
    with tempfile.TemporaryDirectory(prefix="tollgate-mutations-") as holder:
        directory = pathlib.Path(holder)
        journal = make_journal(directory)
        began = time.monotonic()
        done = subprocess.run([options.mutate, str(journal), str(directory / "anchors"),
                               str(directory / "signing.pub"), str(options.mutations),
                               str(options.seed)], stdout=subprocess.PIPE, text=True, check=False)
        *lines, last = done.stdout.splitlines() or ["0 passed, 1 failed"]
        print("\n".join(lines + [f"{time.monotonic() - began:.1f} s", last]))
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
