# SPDX-License-Identifier: Apache-2.0
"""docs/billing.md, docs/journal.md and README.md say what is so.

For:       the page's commands, run in its order by one shell beside what `make run` starts; what
           each prints must be what the page shows. The journal that this leaves has the fields of
           docs/journal.md in its order, and that page's checker finds what is spoilt. The example
           of README.md is a configuration.
Knows not: what the amounts mean; other tests hold them against the journal.

In the page a block ```console is run: "$ " begins a command, "> " continues it, the rest is what
it prints. "…" alone stands for lines left out, at a line's end for the rest of the line. Moments,
hashes, signatures and the like are compared by shape only.
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
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
USAGE = ("input", "cached_input", "cache_write", "output", "reasoning")
SPOILT = (                      # in which file, what, into what
    ("g1-1-1.jsonl", rb'"output":8000', b'"output":80'),
    ("g1-1-1.jsonl", rb'"tenant":"demo"', b'"tenant":"dema"'),
    ("g1-1-1.jsonl", rb"[^\n]*order-2[^\n]*\n", b""),
    ("g1-2-1.jsonl", rb"[^\n]*\"kind\":\"head\"[^\n]*\n", b""),
    ("g1-2-1.jsonl", rb'"signature":"..', b'"signature":"AA'),
    ("g1-3-1.jsonl", rb"([^\n]*\"call\"[^\n]*\n)", rb"\1\1"),
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
        test.addClassCleanup(holder.cleanup)
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
        test.addClassCleanup(self.deploy, "exec deploy/run stop")
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
            script = script.replace("127.0.0.1:4000", f"127.0.0.1:{self.port}")
            subprocess.run(["bash", "-c", script], cwd=self.state, env=environment,
                           stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                           timeout=RUN_SECONDS, check=False)
            output.seek(0)
            text = output.read().decode()
        return text.replace(f"127.0.0.1:{self.port}", "127.0.0.1:4000").split(f"\n{END}\n")[:-1]


class BillingPage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.steps = steps_of(PAGE.read_text("utf-8"))
        cls.shell = Shell(cls)
        cls.outputs = cls.shell.outputs([command for command, _ in cls.steps])

    def test_commands_print_what_the_page_shows(self):
        self.assertGreater(len(self.steps), 20)
        self.assertEqual(len(self.outputs), len(self.steps))
        for (command, lines), output in zip(self.steps, self.outputs):
            with self.subTest(command=command):
                shown = "".join(shape(line) + "\n" for line in output.splitlines() if line.strip())
                wanted = pattern_of([line for line in lines if line.strip()])
                self.assertIsNotNone(re.fullmatch(wanted, shown),
                                     "\nthe page:\n" + "\n".join(lines) + f"\nprinted:\n{output}")

    def test_rows_have_the_fields_of_the_journal_page(self):
        page = JOURNAL_PAGE.read_text("utf-8")
        calls = page.split("### call\n")[1].split("### adjust\n")[0]
        known = re.findall(r"\w+", " ".join(re.findall(r"^\| (\w[\w, ]*) \|", calls, re.M)[1:]))
        for row in self.rows():
            with self.subTest(kind=row["kind"], seq=row["seq"]):
                names = list(row)
                self.assertEqual(names[:5], ["v", "gateway", "epoch", "seq", "kind"])
                names = [name for name in names[5:] if name not in ("prev", "signature")]
                if row["kind"] == "call":
                    self.assertEqual(names, [name for name in known if name in row])
                else:
                    part = page.split(f"### {row['kind']}")[1].split("##")[0]
                    self.assertEqual([name for name in names if f"`{name}`" not in part],
                                     [name for name in names if name in USAGE])

    def test_the_checker_of_the_journal_page_finds_what_is_spoilt(self):
        journal = self.shell.state / "journal"
        self.assertEqual(self.check(journal), 0)
        for number, (name, old, new) in enumerate(SPOILT):
            with self.subTest(name=name, new=new):
                copy = self.shell.root / f"spoilt-{number}"
                shutil.copytree(journal, copy)
                text = (copy / name).read_bytes()
                (copy / name).write_bytes(re.sub(old, new, text, count=1))
                self.assertNotEqual((copy / name).read_bytes(), text)
                self.assertEqual(self.check(copy), 1)

    def check(self, journal):
        """The exit code of the page's checker."""
        program = re.search(r"^```python\n(.*?)^```$", JOURNAL_PAGE.read_text("utf-8"), re.M | re.S)
        found = subprocess.run([sys.executable, "-c", program[1], str(journal),
                                str(self.shell.state / "journal" / "signing.pub")],
                               timeout=RUN_SECONDS, stdout=subprocess.PIPE, check=False)
        self.assertRegex(found.stdout.decode(), r" faults\n\Z")    # it came to its end
        return found.returncode

    def rows(self):
        for path in sorted((self.shell.state / "journal").glob("g1-*.jsonl")):
            for line in path.read_bytes().split(b"\n")[:-1]:
                yield json.loads(line)


class Metrics(unittest.TestCase):
    def test_those_that_pages_name_are_there(self):
        holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(holder.cleanup)
        folder = holder.name
        fake = harness.Fake(folder, "s1")
        self.addCleanup(fake.stop)
        gateway = harness.Gateway(
            {"models": {"small": harness.model(("s1", fake.port))},
             "classes": [{"name": "default", "match": {}}], "tenants": harness.tenants(),
             "meter": {"journal": f"{folder}/journal", "ledger": f"sqlite:{folder}/ledger.db",
                       "anchor": {"file": f"{folder}/anchors"}, "anchor_every": "1s"}},
            harness.ENVIRONMENT, directory=folder)
        self.addCleanup(gateway.stop)

        def metrics():
            text = gateway.admin("/metrics").body.decode()
            known = set(re.findall(r"^# TYPE (\w+) ", text, re.M))
            return known if "tollgate_anchor_age_ms" in known else None

        known = harness.wait_until(metrics, 20)
        self.assertTrue(known)
        named = {}
        for path in (harness.ROOT / "README.md", *sorted((harness.ROOT / "docs").glob("*.md"))):
            for name in re.findall(r"\btollgate_\w+", path.read_text("utf-8")):
                named.setdefault(name, path.name)
        self.assertGreater(len(named), 10)
        # A name that ends in _ stands for all that begin so.
        self.assertEqual({name: page for name, page in named.items()
                          if name not in known and not (
                              name[-1] == "_" and any(one.startswith(name) for one in known))}, {})


class Readme(unittest.TestCase):
    def test_its_example_is_a_configuration(self):
        page = (harness.ROOT / "README.md").read_text("utf-8")
        with tempfile.TemporaryDirectory(prefix="tollgate-test-") as folder:
            path = pathlib.Path(folder) / "tollgate.yaml"
            path.write_text(re.search(r"^```yaml\n(.*?)^```$", page, re.M | re.S)[1])
            found = subprocess.run([harness.TOLLGATE, "check", str(path)], timeout=RUN_SECONDS,
                                   env=dict(os.environ, ACME_KEY=harness.KEY), check=False,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        # Certificates are the reader's own.
        self.assertEqual([line for line in found.stdout.decode().splitlines()
                          if "cannot be read: No such file or directory" not in line], [])
