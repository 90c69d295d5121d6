# SPDX-License-Identifier: Apache-2.0
"""Runs a unittest suite and prints it as this repository's tests do.

For:       one line a test, the reasons of a failure at once, `N passed, N failed` at the end.
Used by:   run.py, ../cases/selftest.py.
Knows not: what the tests do.
"""

import time
import unittest


class Result(unittest.TestResult):
    """One line a test with its time, and the reasons at once."""

    def __init__(self):
        super().__init__()
        self.passed = 0
        self.began = 0.0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def line(self, word, test, why=""):
        name = test.id().replace("__main__.", "")
        print(f"{word} {name} ({time.monotonic() - self.began:.1f} s)", flush=True)
        for text in why.rstrip().split("\n") if why else []:
            print(f"     {text}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        self.line("pass", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line("FAIL", test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.line("FAIL", test, self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            failed = issubclass(err[0], test.failureException)
            self.line("FAIL", subtest, (self.failures if failed else self.errors)[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line("skip", test, reason)


def run(suite):
    """Runs a suite; prints the sum; the exit code."""
    result = Result()
    suite.run(result)
    failed = len(result.failures) + len(result.errors)
    print(f"{result.passed} passed, {failed} failed")
    return 1 if failed or not result.passed else 0
