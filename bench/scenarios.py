# SPDX-License-Identifier: Apache-2.0
"""What is done to a candidate, and which figures come out.

For:       SCENARIOS: a name, who takes part, and a function (bench, candidate) -> {figure: value}.
Called by: run.py.
Knows not: which figure must be how good (rows.py), in which order they run.

A figure is a number; beside them stand `wrong` (what a wrong answer was, in words) and `others`
(cores that other processes took meanwhile).
"""

import collections
import json
import os
import subprocess
import threading
import time
import urllib.request

from candidates import PLAIN_PROXIES, Setting, program
from machine import CANDIDATE_CORE, OTHER_CORE, Watch, tree, tree_rss_bytes, tree_tasks

SSE_TOKENS = 100
SSE_DELAY_MS = 10
SSE_RATE = 127  # streams begun a second, so that 128 run; a prime, so that their events never meet
TRACED_RATE = 13
HOLD_SECONDS = 40
LOAD_SECONDS = 120
VANISH_SECONDS = 12
SETTLE_SECONDS = 1.0
COMPILER_WARM = 5  # times longer for a candidate that is compiled while it runs
TRACE_SECONDS = 10

Durations = collections.namedtuple("Durations", "warm closed single rate stream")
FULL = Durations(warm=0.4, closed=3, single=2, rate=8, stream=6)
QUICK = Durations(warm=0.2, closed=1.2, single=1, rate=3, stream=2.5)
Sizes = collections.namedtuple("Sizes", "idle streams vanish traced traced_streams")
SIZES = Sizes(idle=1000, streams=500, vanish=2000, traced=5000, traced_streams=32)


class Failed(Exception):
    """A measurement that gave no figure."""


class Bench:
    """What scenarios work with."""

    def __init__(self, field, durations, sizes=SIZES):
        self.field = field
        self.durations = durations
        self.sizes = sizes

    def backend_of(self, candidate):
        return self.field.backend("openai" if candidate.name == "tollgate-openai" else "vllm")

    def load(self, candidate, options, use_h2=False, connected=None):
        """Runs the load client once; its figures. With `connected` it first makes its connections,
        then that is called, then it begins."""
        command = [self.field.load, *candidate.address(use_h2), *options]
        child = self.field.processes.start(
            [*command, "--wait"] if connected else command, OTHER_CORE,
            stdin=subprocess.PIPE if connected else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(LOAD_SECONDS, child.kill)
        watchdog.start()
        try:
            if connected and child.stdout.readline().strip() == "ready":
                connected()
            output, errors = child.communicate("begin\n" if connected else None)
        finally:
            watchdog.cancel()
            self.field.processes.stop(child)
        return read_load(output, errors)

    def measured(self, candidate, options, use_h2=False):
        """A short warm-up, then one run with its CPU; (load's figures, ours)."""
        warm_seconds = self.durations.warm * (COMPILER_WARM if candidate.name == "portkey" else 1)
        self.load(candidate, [*options, "--seconds", warm_seconds], use_h2)
        pids = [self.backend_of(candidate)[0].pid]
        if candidate.child is not None:
            pids.append(candidate.child.pid)
        watch = Watch(*pids)
        loaded = self.load(candidate, options, use_h2,
                           watch.begin if candidate.tls and "--churn" not in options else None)
        used_ns, others = watch.done()
        figures = {"others": others}
        if loaded["wrong"] > 0:
            figures["wrong"] = f"{loaded['wrong']} wrong: {loaded['first_wrong']}"
        if loaded["requests"] == 0:
            raise Failed("no request was answered")
        if candidate.child is not None:
            if candidate.child.poll() is not None:
                raise Failed(f"{candidate.name} ended by itself")
            cpu_ns = used_ns[candidate.child.pid]
            figures["cpu_us_per_request"] = cpu_ns / 1000 / loaded["requests"]
            figures["core_share"] = cpu_ns / 1e9 / loaded["seconds"]
            if loaded["events"] > 0:
                figures["cpu_us_per_chunk"] = cpu_ns / 1000 / loaded["events"]
            if loaded["handshakes"] > 0:
                figures["cpu_us_per_connection"] = cpu_ns / 1000 / loaded["handshakes"]
        return loaded, figures

    def hold(self, candidate, options):
        """A load client that holds what it has opened; returns it when all stand."""
        child = self.field.processes.start(
            [self.field.load, *candidate.address(False), *options], OTHER_CORE,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(HOLD_SECONDS, child.kill)
        watchdog.start()
        line = child.stdout.readline()
        watchdog.cancel()
        if not line.startswith("holding"):
            errors = child.stderr.read()
            self.field.processes.stop(child)
            raise Failed(f"connections were not held: {line} {errors}".strip())
        return child

    def release(self, child):
        """Ends a holding load client; its figures."""
        try:
            output, errors = child.communicate(timeout=HOLD_SECONDS)
        except subprocess.TimeoutExpired:
            raise Failed("the load client did not end") from None
        finally:
            self.field.processes.stop(child)
        return read_load(output, errors)


def read_load(output, errors):
    for line in output.splitlines():
        if line.startswith("{"):
            return json.loads(line)
    raise Failed(f"the load client said: {(errors or output).strip()[-300:]}")


def closed_loop(use_h2, connections, streams, body):
    def measure(bench, candidate):
        options = ["--connections", connections, "--streams", streams, "--body", body]
        loaded, figures = bench.measured(
            candidate, [*options, "--seconds", bench.durations.closed], use_h2)
        return {**figures, "rps": loaded["rps"]}
    return measure


def new_connections(resume):
    """Each request on a connection of its own, 64 at a time: accept, handshake, request, close. A
    session is used once, as RFC 8446 appendix C.4 wants it: who gives no new one when it resumes
    makes every second handshake a full one. The first of each of the 64 has no session yet."""
    def measure(bench, candidate):
        connections = 64
        loaded, figures = bench.measured(
            candidate, ["--connections", connections, "--churn", *["--resume"] * resume,
                        "--seconds", bench.durations.closed])
        figures["connections_per_s"] = loaded["handshakes"] / loaded["seconds"]
        if resume:
            again = max(1, loaded["handshakes"] - connections)
            figures["resumed_share"] = loaded["resumed"] / again
        return figures
    return measure


def one_after_another(bench, candidate):
    loaded, figures = bench.measured(
        candidate, ["--connections", 1, "--seconds", bench.durations.single])
    return {**figures, "p50_us": loaded["latency_us"]["p50"], "p99_us": loaded["latency_us"]["p99"]}


def fixed_rate(bench, candidate):
    loaded, figures = bench.measured(
        candidate, ["--connections", 32, "--rate", 200, "--seconds", bench.durations.rate])
    return {**figures, "p50_us": loaded["latency_us"]["p50"], "p99_us": loaded["latency_us"]["p99"]}


def paced_streams(use_h2):
    """128 streams at a time: each lives a second and they begin evenly spaced, so that a delay is
    what the candidate adds and not a crowd at the start."""
    def measure(bench, candidate):
        links = ["--connections", 8, "--streams", 32] if use_h2 else ["--connections", 256]
        options = [*links, "--body", "sse", "--tokens", SSE_TOKENS, "--delay-ms", SSE_DELAY_MS,
                   "--rate", SSE_RATE]
        loaded, figures = bench.measured(
            candidate, [*options, "--seconds", bench.durations.stream], use_h2)
        return {**figures, "delivery_p99_us": loaded["delivery_us"]["p99"],
                "ttft_p99_us": loaded["ttft_us"]["p99"], "chunks_per_s": loaded["events_per_s"]}
    return measure


def flood_of_streams(bench, candidate):
    """Events are due sooner than anybody can pass them on, and each is a write of its own: without
    a pause at all the backend would put many into one, which no model server does."""
    options = ["--connections", 512, "--body", "sse", "--tokens", 200, "--delay-ms", 1]
    loaded, figures = bench.measured(
        candidate, [*options, "--seconds", bench.durations.closed])
    return {**figures, "chunks_per_s": loaded["events_per_s"]}


def resident(candidate):
    time.sleep(SETTLE_SECONDS)
    return tree_rss_bytes(candidate.child.pid)


def sources(connections):
    """Load comes from several addresses, as a cap per address would bite otherwise."""
    return ["--bind-range", max(1, connections // 200)]


def memory(bench, candidate):
    """Fresh; then with idle connections, each of which has served a request."""
    idle = bench.sizes.idle
    fresh = resident(candidate)
    bench.load(candidate, ["--connections", 8, "--requests", 200])
    before = resident(candidate)
    holding = bench.hold(candidate, ["--hold", idle, "--hold-request", *sources(idle)])
    during = resident(candidate)
    loaded = bench.release(holding)
    return with_wrong(loaded, {"rss_fresh_mib": fresh / 2**20,
                               "rss_per_connection_kib": (during - before) / 1024 / idle})


def memory_of_streams(bench, candidate):
    """What an open stream costs that has brought its first event and says no more."""
    streams = bench.sizes.streams
    bench.load(candidate, ["--connections", 8, "--requests", 200])
    before = resident(candidate)
    holding = bench.hold(candidate, ["--hold-streams", "--connections", streams,
                                     *sources(streams)])
    during = resident(candidate)
    loaded = bench.release(holding)
    return with_wrong(loaded, {"rss_per_stream_kib": (during - before) / 1024 / streams})


def with_wrong(loaded, figures):
    if loaded["wrong"] > 0:
        figures["wrong"] = f"{loaded['wrong']} wrong: {loaded['first_wrong']}"
    return figures


def backend_counters(bench, candidate):
    port = bench.backend_of(candidate)[1]
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/fake/counters", timeout=5) as reply:
        return json.load(reply)


def clients_vanish(bench, candidate):
    """How long the backend goes on for clients that have all left at once."""
    streams = bench.sizes.vanish
    holding = bench.hold(candidate, ["--vanish", "--connections", streams, *sources(streams)])
    began = backend_counters(bench, candidate)["open_streams"]
    if began < streams:
        bench.release(holding)
        raise Failed(f"only {began} of {streams} streams were open")
    loaded = bench.release(holding)
    limit = time.monotonic() + VANISH_SECONDS
    while True:
        counters = backend_counters(bench, candidate)
        if counters["open_streams"] == 0:
            freed_ns = counters["last_abort_ns"] - loaded["vanished_ns"]
            return with_wrong(loaded, {"freed_ms": freed_ns / 1e6})
        if time.monotonic() > limit:
            return with_wrong(loaded, {"freed_ms": VANISH_SECONDS * 1000.0, "never": 1})
        time.sleep(0.01)


def traced(bench, candidate, options, use_h2, path):
    """System calls of a candidate during one run of the load client: (load's figures, calls). With
    TLS the handshakes come before."""
    members = [str(pid) for pid, _ in tree(candidate.child.pid)]
    tracers = []

    def attach():
        tracers.append(bench.field.processes.start(
            [program("strace"), "-q", "-c", "-f", "-U", "calls,name", "-o", path,
             *(part for pid in members for part in ("-p", pid))], CANDIDATE_CORE,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True))
        wait_traced(candidate, tracers[0])

    bench.load(candidate, options, use_h2)
    try:
        if candidate.tls:
            loaded = bench.load(candidate, options, use_h2, attach)
        else:
            attach()
            loaded = bench.load(candidate, options, use_h2)
    finally:
        for tracer in tracers:
            bench.field.processes.stop(tracer, 2)
    calls = {}
    for line in path.read_text().splitlines():
        words = line.split()
        if len(words) == 2 and words[0].isdigit() and words[1] != "total":
            calls[words[1]] = int(words[0])
    path.unlink()
    if not calls:
        raise Failed("strace counted nothing")
    return loaded, calls


def wait_traced(candidate, tracer):
    limit = time.monotonic() + TRACE_SECONDS
    while time.monotonic() < limit:
        if tracer.poll() is not None:
            raise Failed(f"strace: {tracer.stderr.read().strip()[-200:]}")
        tasks = tree_tasks(candidate.child.pid)
        states = [(task / "status").read_text() for task in tasks if os.path.exists(task)]
        if states and all("TracerPid:\t0\n" not in state for state in states):
            return
        time.sleep(0.02)
    raise Failed("strace did not attach")


def system_calls(use_h2, streamed):
    def measure(bench, candidate):
        if streamed:
            options = ["--connections", 32, "--body", "sse", "--tokens", SSE_TOKENS, "--delay-ms",
                       SSE_DELAY_MS, "--rate", TRACED_RATE, "--requests",
                       bench.sizes.traced_streams]
        elif use_h2:
            options = ["--connections", 16, "--streams", 32, "--requests", bench.sizes.traced]
        else:
            options = ["--connections", 64, "--requests", bench.sizes.traced]
        path = bench.field.directory / "strace.txt"
        loaded, calls = traced(bench, candidate, options, use_h2, path)
        count = loaded["events"] if streamed else loaded["requests"]
        figures = with_wrong(loaded, {"calls": sum(calls.values()) / max(count, 1)})
        figures["by_name"] = {name: round(number / max(count, 1), 3) for name, number
                              in sorted(calls.items(), key=lambda item: -item[1])}
        return figures
    return measure


Scenario = collections.namedtuple("Scenario", "measure candidates quick rounds watched setting",
                                  defaults=(Setting(),))
GATEWAY = ("tollgate",)
BOTH_KINDS = ("tollgate", "tollgate-openai")
UNMETERED = ("tollgate-unmetered",)
PLAIN = PLAIN_PROXIES
BARE = ("direct",)
PORTKEY = ("portkey",)
COUNTED = Setting(counted=True)
TLS = Setting(tls=True)
TLS_COUNTED = Setting(tls=True, counted=True)

# rounds: at most so many, None: all; watched: others on the machine spoil it; setting: of the
# candidate.
SCENARIOS = {
    "saturation-h1": Scenario(closed_loop(False, 64, 1, "chat"),
                              PLAIN + PORTKEY + BARE + BOTH_KINDS + UNMETERED, True, None, True),
    "saturation-h2": Scenario(closed_loop(True, 16, 32, "chat"),
                              PLAIN + GATEWAY, True, None, True),
    "sequential": Scenario(one_after_another, PLAIN + BARE + GATEWAY, False, None, True),
    "rate": Scenario(fixed_rate, PLAIN + BARE + GATEWAY, False, None, True),
    "sse-h1": Scenario(paced_streams(False), PLAIN + PORTKEY + BARE + BOTH_KINDS,
                       True, None, True),
    "sse-h2": Scenario(paced_streams(True), PLAIN + GATEWAY, True, None, True),
    "sse-flood": Scenario(flood_of_streams, PLAIN + BARE + BOTH_KINDS, True, None, True),
    "prompt-h1": Scenario(closed_loop(False, 16, 1, "big"), PLAIN + GATEWAY, False, None, True),
    "prompt-h2": Scenario(closed_loop(True, 8, 2, "big"), PLAIN + GATEWAY, False, None, True),
    "vanish": Scenario(clients_vanish, PLAIN + GATEWAY, False, 3, False),
    "memory": Scenario(memory, PLAIN + GATEWAY, False, 1, False),
    "memory-streams": Scenario(memory_of_streams, PLAIN + GATEWAY, False, 1, False),
    "calls-h1": Scenario(system_calls(False, False), PLAIN + GATEWAY, False, 1, False, COUNTED),
    "calls-h2": Scenario(system_calls(True, False), PLAIN + GATEWAY, False, 1, False, COUNTED),
    "calls-chunk": Scenario(system_calls(False, True), PLAIN + GATEWAY, False, 1, False, COUNTED),
    "tls-saturation-h1": Scenario(closed_loop(False, 64, 1, "chat"), PLAIN + GATEWAY,
                                  True, None, True, TLS),
    "tls-saturation-h2": Scenario(closed_loop(True, 16, 32, "chat"), PLAIN + GATEWAY,
                                  True, None, True, TLS),
    "tls-sse-h1": Scenario(paced_streams(False), PLAIN + GATEWAY, False, None, True, TLS),
    "tls-sse-h2": Scenario(paced_streams(True), PLAIN + GATEWAY, False, None, True, TLS),
    "tls-sse-flood": Scenario(flood_of_streams, PLAIN + GATEWAY, False, None, True, TLS),
    "tls-prompt-h1": Scenario(closed_loop(False, 16, 1, "big"), PLAIN + GATEWAY,
                              False, None, True, TLS),
    "tls-prompt-h2": Scenario(closed_loop(True, 8, 2, "big"), PLAIN + GATEWAY,
                              False, None, True, TLS),
    "tls-full": Scenario(new_connections(False), PLAIN + GATEWAY, False, None, True, TLS),
    "tls-resumed": Scenario(new_connections(True), PLAIN + GATEWAY, False, None, True, TLS),
    "tls-memory": Scenario(memory, PLAIN + GATEWAY, False, 1, False, TLS),
    "tls-memory-streams": Scenario(memory_of_streams, PLAIN + GATEWAY, False, 1, False, TLS),
    "tls-calls-h1": Scenario(system_calls(False, False), PLAIN + GATEWAY, False, 1, False,
                             TLS_COUNTED),
    "tls-calls-h2": Scenario(system_calls(True, False), PLAIN + GATEWAY, False, 1, False,
                             TLS_COUNTED),
    "tls-calls-chunk": Scenario(system_calls(False, True), PLAIN + GATEWAY, False, 1, False,
                                TLS_COUNTED),
}
