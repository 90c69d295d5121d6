#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the cases of this folder against build/tollgate and says which hold.

For:       `tests/cases/run.py [--tollgate PATH] [names…]`: one line a case, then
           `N passed, N failed`; exit code 1 when one failed. SLOW=1 plays the slow ones too.
           Without names the runner's own test (selftest.py) comes first and counts.
Used by:   make test.
Knows not: how the gateway works; it sees answers, upstream requests, journal rows and logs.
"""

import argparse
import copy
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import time
import traceback
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

import harness
from check import check_block
from client import Player
from schema import Unknown, check_case
from upstream import Script, Upstream

LATE_ROWS_SECONDS = 1.5
KEYS = {"KEY_A": "sk-bench-a", "KEY_B": "sk-bench-b", "KEY_R": "sk-bench-r"}
NAMES = {"MODEL": "bench-small", "MODEL_B": "bench-large", "MODEL_PAIR": "bench-pair",
         "UPSTREAM_KEY": "up-bench-secret", "ORIGIN": "https://app.example", **KEYS}
SKIPPED = {
    "22-cache-tenant-and-hit": "the result cache is not built yet",
    "23-rpm-limit": "limits per minute are not built yet",
}
ORDINARY = {"json": {
    "id": "chatcmpl-after", "object": "chat.completion", "created": 1700000002,
    "model": "bench-small", "choices": [{"index": 0, "finish_reason": "stop",
                                         "message": {"role": "assistant", "content": "alive"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}}


class Outcome:
    """All that was seen of one case; check.py reads it."""

    def __init__(self):
        self.steps = []
        self.requests = {"a": [], "b": []}
        self.most_at_once = {"a": 0, "b": 0}
        self.rows = []
        self.log_text = ""


def bench_profile(port_a, port_b):
    """The configuration that README.md calls the bench profile, as far as it can be loaded."""
    def model(name, port, **more):
        return {"kind": "vllm", "context": 131072, "output": 4096,
                "price": [{"from": "2026-01-01", "input": "0.05", "cached_input": "0.0125",
                           "output": "0.20"}],
                "replicas": [{"name": name, "url": f"http://127.0.0.1:{port}/v1",
                              "key": "${BENCH_UPSTREAM_KEY}", "slots": 64}], **more}

    def tenant(key, text):
        return {"keys": [{"id": key, "key": text}]}

    digest = hashlib.sha256(KEYS["KEY_B"].encode()).hexdigest()
    return {
        "gateway": "bench",
        "cors": {"origins": [NAMES["ORIGIN"]]},
        "models": {
            "bench-small": model("a", port_a),
            "bench-large": model("b", port_b),
            "bench-pair": model("a", port_a, fallback=["bench-pair-b"]),
            "bench-pair-b": model("b", port_b, upstream_model="bench-pair"),
        },
        "classes": [{"name": "default", "match": {}}],
        "tenants": {"a": tenant("a", "${BENCH_KEY_A}"), "b": tenant("b", f"sha256:{digest}"),
                    "r": tenant("r", "${BENCH_KEY_R}")},
        "health": {"out_after": 20, "check_every": "0s"},
        "retry": {"attempts": 3},
    }


ENVIRONMENT = {"BENCH_KEY_A": KEYS["KEY_A"], "BENCH_KEY_R": KEYS["KEY_R"],
               "BENCH_UPSTREAM_KEY": NAMES["UPSTREAM_KEY"]}


def fill(value, names):
    """value with ${NAME} replaced in every text; BODY and BODYLEN are left to the step."""
    if isinstance(value, str):
        for name, text in names.items():
            value = value.replace("${" + name + "}", text)
        return value
    if isinstance(value, list):
        return [fill(inner, names) for inner in value]
    if isinstance(value, dict):
        return {fill(key, names): fill(inner, names) for key, inner in value.items()}
    return value


def load_cases(directory=HERE):
    """File stem to case, every member checked. Raises Unknown."""
    cases = {}
    for path in sorted(pathlib.Path(directory).glob("[0-9]*.json")):
        case = json.loads(path.read_text())
        try:
            check_case(case)
        except Unknown as problem:
            raise Unknown(f"{path.name}: {problem}") from None
        cases[path.stem] = case
    return cases


class Runner:
    """A gateway with the bench profile between two scripted servers."""

    def __init__(self):
        self.upstreams = {"a": Upstream(), "b": Upstream()}
        self.gateway = harness.Gateway(
            bench_profile(self.upstreams["a"].port, self.upstreams["b"].port), ENVIRONMENT)

    def close(self):
        code = self.gateway.stop()
        for upstream in self.upstreams.values():
            upstream.close()
        return code

    def run(self, case):
        """Differences between a case and what happened: [] when it holds."""
        names = dict(NAMES, NONCE=uuid.uuid4().hex[:12], HOST=f"127.0.0.1:{self.gateway.port}")
        case = fill(copy.deepcopy(case), names)
        self._avoid_minute_edge(case.get("avoid_minute_edge_ms", 0))
        rows_before = len(self.gateway.calls())
        for name in ("a", "b"):
            self.upstreams[name].load(self._script(case.get("upstream", {}), name))
        outcome = Outcome()
        steps = case["client"] if isinstance(case["client"], list) else [case["client"]]
        outcome.steps = Player(self.gateway.port, KEYS).play(steps)
        time.sleep(case.get("observe_ms", 0) / 1000)
        for name in ("a", "b"):
            script = self.upstreams[name].load(Script([ORDINARY], repeat_last=True))
            outcome.requests[name] = list(script.requests)
            outcome.most_at_once[name] = script.most_at_once
        found = self._ordinary_request(names["NONCE"])
        return found + self._check_when_rows_are_there(case, outcome, rows_before,
                                                       f"after-{names['NONCE']}")

    def _check_when_rows_are_there(self, case, outcome, rows_before, own_id):
        """Rows may come late: look again until all holds or the time is over."""
        deadline = time.monotonic() + LATE_ROWS_SECONDS
        while True:
            outcome.rows = [row for row in self.gateway.calls()[rows_before:]
                            if row.get("request_id") != own_id]
            outcome.log_text = self.gateway.logs()
            found = check_block(case["expect"], outcome)
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    def _ordinary_request(self, nonce):
        """After each case an ordinary request is answered, and has its row."""
        if not self.gateway.running():
            return [f"the gateway is gone: {self.gateway.output()[-2000:]}"]
        body = harness.chat(f"after {nonce}", NAMES["MODEL"])
        headers = dict(harness.bearer(KEYS["KEY_A"]), **{"x-request-id": f"after-{nonce}"})
        reply = harness.get(self.gateway.port, "/v1/chat/completions", headers, "POST", body)
        if reply.status != 200 or reply.json() != ORDINARY["json"]:
            return [f"an ordinary request afterwards got {reply}"]
        try:
            self.gateway.row_of(f"after-{nonce}")
        except AssertionError as problem:
            return [f"an ordinary request afterwards: {problem}"]
        return []

    @staticmethod
    def _script(upstream, name):
        members = dict(upstream) if name == "a" and "replies" in upstream else {}
        members.update(upstream.get(name, {}))
        return Script(members.get("replies", []), members.get("repeat_last", False),
                      members.get("get"))

    @staticmethod
    def _avoid_minute_edge(edge_ms):
        left_ms = 60000 - time.time() * 1000 % 60000
        if edge_ms and left_ms < edge_ms:
            time.sleep(left_ms / 1000 + 0.1)


def chosen(cases, names):
    """The cases to play and (name, reason) of those left out."""
    play, left_out = {}, []
    for name, case in cases.items():
        if names and not any(wanted in name for wanted in names):
            continue
        if name in SKIPPED:
            left_out.append((name, SKIPPED[name]))
        elif case.get("slow") and os.environ.get("SLOW") != "1":
            left_out.append((name, "slow: SLOW=1 plays it"))
        else:
            play[name] = case
    return play, left_out


def self_test():
    """(passed, failed) of selftest.py; what it prints, but for its sum."""
    done = subprocess.run([sys.executable, str(HERE / "selftest.py")], stdin=subprocess.DEVNULL,
                          capture_output=True, text=True)
    lines = done.stdout.splitlines() or ["0 passed, 1 failed"]
    print("\n".join(lines[:-1]) or done.stderr)
    return tuple(int(word) for word in lines[-1].replace(",", "").split()[::2])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tollgate", help="the binary to test (default: build/tollgate)")
    parser.add_argument("--fake", help="taken for the sake of one command line; not needed here")
    parser.add_argument("names", nargs="*", help="parts of case names (default: all)")
    options = parser.parse_args()
    harness.use_binaries(options.tollgate, options.fake)
    try:
        cases, left_out = chosen(load_cases(), options.names)
    except Unknown as problem:
        print(f"FAIL {problem}\n0 passed, 1 failed")
        return 1
    for name, reason in left_out:
        print(f"skip {name}: {reason}")
    if not cases:
        print("0 passed, 0 failed")
        return 0 if left_out else 1
    passed, failed = (0, 0) if options.names else self_test()
    runner = Runner()
    try:
        for name, case in cases.items():
            began = time.monotonic()
            try:
                found = runner.run(case)
            except Exception:
                found = [traceback.format_exc()]
            print(f"{'FAIL' if found else 'pass'} {name} ({time.monotonic() - began:.1f} s)",
                  flush=True)
            for text in found:
                print(f"     {text}")
            passed, failed = passed + (not found), failed + bool(found)
            if not runner.gateway.running():
                print(runner.gateway.output()[-4000:])
                runner.close()
                runner = Runner()
    finally:
        code = runner.close()
    if code != 0:
        print(f"FAIL the gateway ended with exit code {code}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
