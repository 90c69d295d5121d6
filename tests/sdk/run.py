#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs OpenAI's Node client against the gateway.

For:       `tests/sdk/run.py [--tollgate PATH] [--fake PATH]`: installs the pinned client into
           node_modules here when it is not there, starts a gateway before a simulated model
           server, runs openai.mjs; its lines and its exit code.
Used by:   make test.
Knows not: what is checked.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "cases")]

import harness

INSTALL_SECONDS = 300
RUN_SECONDS = 120


def install():
    """npm ci by the lock file, once. True when the client is there."""
    if (HERE / "node_modules" / "openai" / "package.json").exists():
        return True
    done = subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], cwd=HERE,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=INSTALL_SECONDS)
    if done.returncode != 0:
        print(f"FAIL npm ci: {(done.stdout + done.stderr)[-2000:]}")
    return done.returncode == 0


def configuration(fake):
    return {
        "models": {"small": harness.model(("s1", fake.port)),
                   "org/large": harness.model(("l1", fake.port), upstream_model="large"),
                   "hidden": harness.model(("x1", fake.port), upstream_model="large")},
        "classes": [{"name": "default", "match": {}}],
        "tenants": harness.tenants(acme={"models": ["small", "org/large"]}),
        "health": {"out_after": 1000},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tollgate", help="the gateway to test (default: build/tollgate)")
    parser.add_argument("--fake", help="the simulated model server (default: build/fake)")
    options = parser.parse_args()
    harness.use_binaries(options.tollgate, options.fake)
    if not install():
        print("0 passed, 1 failed")
        return 1
    with tempfile.TemporaryDirectory(prefix="tollgate-test-") as directory:
        fake = harness.Fake(directory, "s1")
        try:
            gateway = harness.Gateway(configuration(fake), harness.ENVIRONMENT)
            try:
                return subprocess.run(
                    ["node", str(HERE / "openai.mjs"), f"http://127.0.0.1:{gateway.port}/v1",
                     harness.KEY], stdin=subprocess.DEVNULL, timeout=RUN_SECONDS).returncode
            finally:
                gateway.stop()
        finally:
            fake.stop()


if __name__ == "__main__":
    sys.exit(main())
