# SPDX-License-Identifier: Apache-2.0
"""docs/billing.md says what its commands show.

For:       the page's commands, run in its order by one shell beside what `make run` starts; what
           each prints must be what the page shows. Row formats of docs/journal.md: a file's lines
           have the fields that the page's table has, and a chain that its recipe checks.
Knows not: what the amounts mean; other tests hold them against the journal.

In the page a block ```console is run: "$ " begins a command, "> " continues it, the rest is what it
prints. "…" alone stands for lines left out, at a line's end for the rest of the line. Moments, hashes,
signatures and the like are compared by shape only.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

PAGE = harness.ROOT / "docs" / "billing.md"
JOURNAL_PAGE = harness.ROOT / "docs" / "journal.md"
END = "\x1e"                    # between the outputs of two commands
RUN_SECONDS = 120
SHAPES = (                      # what differs from run to run
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d\d:\d\d|Z)?", "<moment>"),
    (r"\d{4}-\d\d-\d\d", "<day>"),
    (r"\b[0-9a-f]{16,}\b", "<hash>"),
    (r"[A-Za-z0-9+/]{80,}={0,2}", "<signature>"),
    (r"\b\d{16}\b", "<microseconds>"),
    (r"\bbyte \d+", "byte <n>"),
    (r"\bin \d+\.\d+ s\b", "in <seconds>"),
    (r"overhead-ms: [0-9.]+", "overhead-ms: <ms>"),
    (r"\s+", " "),
)


def steps_of(page):
    """(command, lines it prints) of each command in the page's console blocks."""
    steps = []
    for block in re.findall(r"^```console\n(.*?)^```$", page, re.M | re.S):
        for line in block.splitlines():
            if line.startswith("$ "):
                steps.append([line[2:], []])
            elif line.startswith("> "):
                steps[-1][0] += "\n" + line[2:]
            else:
                steps[-1][1].append(line)
    return steps


def shape(line):
    for pattern, name in SHAPES:
        line = re.sub(pattern, name, line)
    return line.strip()


def pattern_of(lines):
    """A regular expression for the whole output, from the page's lines."""
    parts = []
    for line in lines:
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
            continue
        cut = line.rstrip().endswith("…")
        text = re.escape(shape(line.rstrip().removesuffix("…")))
        parts.append(text + (r".*\n" if cut else r"\n"))
    return "".join(parts)


class Shell:
    """A folder as a clone of ours would be after make, and what make run starts in it."""

    def __init__(self, test):
        holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        test.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)
        for name in ("config", "deploy", "tests"):
            (self.root / name).symlink_to(harness.ROOT / name)
        (self.root / "build").mkdir()
        for name, path in (("tollgate", harness.TOLLGATE), ("fake", harness.FAKE)):
            shutil.copy2(path, self.root / "build" / name)
        # What runs is found by the path of its program, so deploy/run must be of this folder too.
        (self.root / "deploy").unlink()
        shutil.copytree(harness.ROOT / "deploy", self.root / "deploy")
        self.deploy("DETACH=1 exec deploy/run")
        test.addCleanup(self.deploy, "exec deploy/run stop")
        self.state = self.root / "build" / "run"
        self.port = re.search(r"127\.0\.0\.1:(\d+)", (self.state / "tollgate.yaml").read_text())[1]

    def deploy(self, command):
        with open(self.root / "deploy.log", "ab") as log:
            subprocess.run(["bash", "-c", command], cwd=self.root, stdin=subprocess.DEVNULL,
                           stdout=log, stderr=log, timeout=RUN_SECONDS, check=True)

    def outputs(self, commands):
        """What each command prints, all run by one shell."""
        script = "".join(f"{command}\nprintf '\\n{END}\\n'\n" for command in commands)
        environment = dict(os.environ, PATH=f"{self.root / 'build'}:{os.environ['PATH']}",
                           KEY=(self.state / "key").read_text().strip(), LC_ALL="C.UTF-8")
        with open(self.root / "output", "w+b") as output:
            subprocess.run(["bash", "-c", script.replace("127.0.0.1:4000", f"127.0.0.1:{self.port}")],
                           cwd=self.state, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                           stderr=subprocess.STDOUT, timeout=RUN_SECONDS, check=False)
            output.seek(0)
            text = output.read().decode()
        return text.replace(f"127.0.0.1:{self.port}", "127.0.0.1:4000").split(f"\n{END}\n")[:-1]


class BillingPage(unittest.TestCase):
    def test_commands_print_what_the_page_shows(self):
        steps = steps_of(PAGE.read_text("utf-8"))
        self.assertGreater(len(steps), 20)
        shell = Shell(self)
        outputs = shell.outputs([command for command, _ in steps])
        self.assertEqual(len(outputs), len(steps))
        for (command, lines), output in zip(steps, outputs):
            with self.subTest(command=command):
                shown = "".join(shape(line) + "\n" for line in output.splitlines() if line.strip())
                wanted = pattern_of([line for line in lines if line.strip()])
                self.assertIsNotNone(re.fullmatch(wanted, shown),
                                     f"\nthe page:\n" + "\n".join(lines) + f"\nprinted:\n{output}")
