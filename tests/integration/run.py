#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the integration tests of this folder, one after another.

For:       `tests/integration/run.py [--tollgate PATH] [--fake PATH] [parts of names…]`: a line a
           test, then `N passed, N failed`; exit code 1 when one failed.
Used by:   make test.
Knows not: what the tests do.
"""

import argparse
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "cases")]

import harness
import suite


def flatten(many):
    """Every test of nested suites."""
    for test in many:
        if isinstance(test, unittest.TestSuite):
            yield from flatten(test)
        else:
            yield test


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tollgate", help="the gateway to test (default: build/tollgate)")
    parser.add_argument("--fake", help="the simulated model server (default: build/fake)")
    parser.add_argument("names", nargs="*", help="parts of test names (default: all)")
    options = parser.parse_args()
    harness.use_binaries(options.tollgate, options.fake)
    tests = list(flatten(unittest.defaultTestLoader.discover(str(HERE), "test_*.py")))
    wanted = options.names
    if wanted:
        tests = [test for test in tests if any(part in test.id() for part in wanted)
                 or test.id().startswith("unittest.loader")]
    return suite.run(unittest.TestSuite(tests))


if __name__ == "__main__":
    sys.exit(main())
