# SPDX-License-Identifier: Apache-2.0
"""check, explain and keys new help an operator who has made a mistake.

For:       every error of a file at once with file, line, key and the nearest known key; exit codes;
           help for options; new keys that fit their entry.
"""

import hashlib
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

import harness

GOOD = """\
listen:
  - {address: "127.0.0.1:4000"}
models:
  small:
    kind: vllm
    price: [{from: 2026-01-01, input: "0.05", output: "0.20"}]
    replicas: [{name: s1, url: "http://127.0.0.1:8001", slots: 4}]
tenants:
  acme:
    keys: [{id: web, key: "${TOLLGATE_TEST_KEY}"}]
"""

BAD = """\
listen:
  - {address: "nowhere"}
modles:
  x: 1
models:
  small:
    kind: vlm
    price: [{from: yesterday, input: 0.05, output: "many"}]
    replica: []
    replicas: [{name: s1, url: "ftp://x", slots: -1}]
    fallback: [missing]
tenants:
  acme:
    keys: [{id: web, key: "sha256:12"}]
timeouts:
  first_byte: 1 fortnight
  frist_byte: 5s
"""

# line and a part of what is said about it
MISTAKES = [(2, "address"), (3, "modles"), (3, "models"), (7, "kind"), (7, "vllm"), (8, "from"),
            (8, "output"), (9, "replica"), (9, "replicas"), (10, "url"), (10, "slots"),
            (11, "missing"), (14, "key"), (16, "first_byte"), (17, "frist_byte"),
            (17, "first_byte")]


class CommandLine(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.path = pathlib.Path(self.holder.name) / "tollgate.yaml"

    def run_tollgate(self, *arguments, **environment):
        """(exit code, everything printed)."""
        done = subprocess.run([harness.TOLLGATE, *arguments], capture_output=True, timeout=20,
                              text=True, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, TOLLGATE_TEST_KEY="sk-check", **environment))
        return done.returncode, done.stdout + done.stderr

    def check(self, text):
        self.path.write_text(text)
        return self.run_tollgate("check", str(self.path))

    def test_a_good_file_is_good(self):
        code, text = self.check(GOOD)
        self.assertEqual(code, 0, text)
        self.assertIn(": good: 1 model, 0 classes, 1 tenant\n", text)
        code, text = self.check(json.dumps({
            "listen": [{"address": "127.0.0.1:4000"}],
            "models": {"small": harness.model(("s1", 8001))},
            "tenants": {"acme": {"keys": [{"id": "web", "key": "sk-x"}]}}}))
        self.assertEqual(code, 0, text)

    def test_all_errors_come_at_once_with_file_line_and_key(self):
        code, text = self.check(BAD)
        self.assertEqual(code, 1, text)
        lines = text.splitlines()
        for number, part in MISTAKES:
            with self.subTest(line=number, part=part):
                place = f"{self.path}:{number}"
                self.assertTrue(any(re.search(rf"{re.escape(place)}\b", line) and part in line
                                    for line in lines), text)

    def test_the_nearest_known_key_is_named(self):
        _, text = self.check(GOOD.replace("tenants:", "tenats:"))
        self.assertRegex(text, r":8\b.*tenats.*tenants")

    def test_a_file_that_is_no_yaml_is_refused_with_its_place(self):
        for broken in ("models: [", "a: b: c\n", "\t- x\n", "models: {a: 1, a: 2}\n", ""):
            with self.subTest(broken):
                code, text = self.check(broken)
                self.assertEqual(code, 1, text)
                self.assertIn(str(self.path), text)

    def test_a_variable_that_is_not_set_is_an_error(self):
        code, text = self.check(GOOD.replace("TOLLGATE_TEST_KEY", "TOLLGATE_NOT_SET"))
        self.assertEqual(code, 1)
        self.assertIn("TOLLGATE_NOT_SET", text)

    def test_a_secret_is_not_printed(self):
        code, text = self.check(GOOD.replace("slots: 4", "slots: x"))
        self.assertEqual(code, 1)
        self.assertNotIn("sk-check", text)

    def test_it_is_said_what_a_start_does_with_the_signing_key(self):
        home = pathlib.Path(self.holder.name)
        key = home / "keys" / "signing.key"
        text = GOOD + (f"meter:\n  journal: {home}/books/rows\n"
                       f"  signing_key: PATH\n")
        (home / "books").mkdir()
        line = text.count("\n")
        code, said = self.check(text.replace("PATH", str(key)))
        self.assertEqual(code, 1, said)
        self.assertIn(f"{self.path}:{line}: meter.signing_key: ", said)
        self.assertIn(f"{home}/keys: No such file", said)

        key.parent.mkdir()
        code, said = self.check(text.replace("PATH", str(key)))
        self.assertEqual(code, 0, said)
        self.assertIn(f"{self.path}:{line}: meter.signing_key: note: there is no {key}: the start "
                      f"makes a new key, and its public key {home}/keys/signing.pub", said)
        self.assertEqual(list(key.parent.iterdir()), [])
        # The start makes the journal's folder before.
        code, said = self.check(text.replace("PATH", f"{home}/books/rows/s.key"))
        self.assertEqual(code, 0, said)
        self.assertIn("note: ", said)

        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True,
                       timeout=60)
        key.chmod(0o644)
        code, said = self.check(text.replace("PATH", str(key)))
        self.assertEqual(code, 1, said)
        self.assertIn("chmod 600", said)
        key.chmod(0o600)
        code, said = self.check(text.replace("PATH", str(key)))
        self.assertEqual((code, "signing_key" in said), (0, False), said)
        public = home / "keys" / "signing.pub"
        subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True,
                       timeout=60)
        public.chmod(0o600)
        code, said = self.check(text.replace("PATH", str(public)))
        self.assertEqual(code, 1, "a public key signs nothing: " + said)
        key.write_text("no key")
        code, said = self.check(text.replace("PATH", str(key)))
        self.assertEqual(code, 1, said)
        self.assertIn("expected an Ed25519 private key", said)

    def test_the_folders_that_a_start_does_not_make_have_to_be_there(self):
        home = pathlib.Path(self.holder.name)
        text = GOOD + (f"meter:\n  journal: {home}/JOURNAL/rows/\n"
                       f"  ledger: sqlite:{home}/LEDGER/l.db\n")
        (home / "there").mkdir()
        for journal, ledger, key in (("absent", "there", "journal"), ("there", "absent", "ledger"),
                                     ("there", "there", None), ("there", "there/rows", None),
                                     ("there", "there/rows/", None),
                                     ("absent/", "there", "journal")):
            code, said = self.check(text.replace("JOURNAL", journal).replace("LEDGER", ledger))
            self.assertEqual(code, 1 if key else 0, said)
            if key:
                self.assertIn(f": meter.{key}: expected a path in a folder that there is: "
                              f"{home}/absent", said)

    def test_a_file_that_is_not_there_is_the_answer_no(self):
        code, text = self.run_tollgate("check", str(self.path))
        self.assertIn(code, (1, 2))
        self.assertIn(str(self.path), text)

    def test_wrong_use_is_2_and_shows_how(self):
        for arguments in ((), ("nonsense",), ("check",), ("keys",), ("keys", "nonsense"),
                          ("serve", "--nonsense")):
            with self.subTest(str(arguments)):
                code, text = self.run_tollgate(*arguments)
                self.assertEqual(code, 2, text)
                self.assertTrue(text)

    COMMANDS = ("serve", "check", "explain", "keys", "import", "usage", "invoice", "why", "adjust",
                "rerate", "audit", "ledger")

    def test_every_command_names_an_option_that_it_does_not_know(self):
        for command in self.COMMANDS:
            with self.subTest(command):
                code, text = self.run_tollgate(command, "--nonsense", "x")
                self.assertEqual(code, 2, text)
                self.assertEqual(text, "tollgate: unknown option --nonsense\n"
                                       f"tollgate {command} --help says how it is used\n")

    def test_the_nearest_option_is_named(self):
        for command, wrong, meant in (("serve", "--confg", "--config"),
                                      ("usage", "--perod", "--period"),
                                      ("usage", "--perod=month", "--period"),
                                      ("rerate", "--price", "--prices"),
                                      ("audit", "--ledgr", "--ledger"),
                                      ("import", "--ouptut", "--output"),
                                      ("adjust", "--ten", "--tenant")):
            with self.subTest(command=command, wrong=wrong):
                code, text = self.run_tollgate(command, wrong, "x")
                self.assertEqual(code, 2, text)
                self.assertIn(f"unknown option {wrong.split('=')[0]}; did you mean {meant}?\n",
                              text)
        code, text = self.run_tollgate("invioce")
        self.assertEqual(code, 2)
        self.assertIn("unknown command invioce; did you mean invoice?", text)

    def test_a_value_that_is_missing_or_cannot_be_read_is_named_with_what_was_expected(self):
        journal = ("--journal", self.holder.name)
        for arguments, option, expected in (
                (("serve", "--config"), "--config", "file"),
                (("usage", "--period", "--json"), "--period", "2026-11"),
                (("usage", "--by", "modle"), "--by modle", "model"),
                (("usage", "--where", "model"), "--where model", "COLUMN=VALUE"),
                (("usage", "--bucket", "minute"), "--bucket minute", "hour, day"),
                (("usage", "--json=yes"), "--json", "no value"),
                (("usage", "--period", "2026-13", *journal), "--period 2026-13", "2026-11"),
                (("usage", "--zone", "Mars", *journal), "--zone Mars", "Europe/Berlin"),
                (("invoice", "acme", "november", *journal), "PERIOD november", "2026-11"),
                (("adjust", "g1/1/1", "--usd", "five", "--by", "a", "--why", "b", *journal),
                 "--usd five", "-0.01"),
                (("adjust", "--tenant", "a", "--at", "noon", "--usd=-5", "--by=a", "--why=b",
                  *journal), "--at noon", "2026-11-30T12:00:00Z"),
                (("keys", "new", "--id", "a b"), "--id a b", "letters"),
                (("keys", "nwe"), "nwe", "new"),
                (("ledger", "fede"), "fede", "feed"),
                (("import", "prices"), "FILE", "expected"),
                (("import", "litellm", "x", "--models", "y"), "--models", "prices")):
            with self.subTest(str(arguments)):
                code, text = self.run_tollgate(*arguments)
                self.assertEqual(code, 2, text)
                self.assertIn(option, text.splitlines()[0])
                self.assertIn(expected, text.splitlines()[0])
                self.assertEqual(text.splitlines()[1:],
                                 [f"tollgate {arguments[0]} --help says how it is used"])

    def test_help_that_was_asked_for_is_no_mistake(self):
        for command in self.COMMANDS:
            with self.subTest(command):
                code, text = self.run_tollgate(command, "--help")
                self.assertEqual(code, 0, text)
                self.assertTrue(text.startswith(f"usage: tollgate {command} "), text)
        code, text = self.run_tollgate("--help")
        self.assertEqual(code, 0, text)
        self.assertEqual(re.findall(r"^  (\S+) ", text, re.MULTILINE), list(self.COMMANDS))

    def test_options_are_explained(self):
        code, text = self.run_tollgate("explain", "timeouts.first_byte")
        self.assertEqual(code, 0, text)
        self.assertIn("first_byte", text)
        self.assertRegex(text, r"120 ?s|120000|2m")
        code, text = self.run_tollgate("explain", "timeouts")
        self.assertEqual(code, 0)
        self.assertIn("between_bytes", text)
        code, text = self.run_tollgate("explain")
        self.assertEqual(code, 0)
        for part in ("listen", "models", "tenants", "body_bytes"):
            self.assertIn(part, text)
        code, text = self.run_tollgate("explain", "timeouts.frist_byte")
        self.assertEqual(code, 1)
        self.assertIn("first_byte", text)

    def test_names_of_the_operators_choice_may_stand_in_the_key_asked_for(self):
        for key, row in (("models.small.price", "models.*.price"),
                         ("models.qwen2.5.price[0].input", "models.*.price[].input"),
                         ("models.price.input", "models.*.price[].input"),
                         ("models.small", "models.*"), ("tenants.acme.zone", "tenants.*.zone")):
            with self.subTest(key):
                code, text = self.run_tollgate("explain", key)
                self.assertEqual(code, 0, text)
                self.assertEqual(text.splitlines()[0], row)
        code, text = self.run_tollgate("explain", "models.small.prise")
        self.assertEqual(code, 1, text)
        self.assertIn("models.*.price", text)

    def test_the_end_of_a_key_is_enough_where_no_other_ends_so(self):
        code, text = self.run_tollgate("explain", "segment_bytes")
        self.assertEqual(code, 0, text)
        self.assertEqual(text.splitlines()[0], "meter.segment_bytes")
        code, text = self.run_tollgate("explain", "input")
        self.assertEqual(code, 1, text)
        self.assertIn("\n  models.*.price[].input\n", text)
        self.assertIn("\n  models.*.price[].brackets[].input\n", text)

    def test_a_new_key_fits_its_entry_and_is_new(self):
        keys = set()
        for _ in range(3):
            code, text = self.run_tollgate("keys", "new")
            self.assertEqual(code, 0, text)
            digest = re.search(r"sha256:([0-9a-f]{64})", text).group(1)
            words = re.findall(r"[A-Za-z0-9_-]{20,}", text.replace(digest, ""))
            matching = [word for word in words
                        if hashlib.sha256(word.encode()).hexdigest() == digest]
            self.assertEqual(len(matching), 1, text)
            keys.add(matching[0])
        self.assertEqual(len(keys), 3)

    def test_serve_refuses_a_bad_file_with_the_same_words(self):
        self.path.write_text(BAD)
        code, text = self.run_tollgate("serve", "--config", str(self.path))
        self.assertEqual(code, 1, text)
        self.assertIn("modles", text)

    def test_a_port_that_is_taken_is_said(self):
        taken = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(taken.close)
        port = taken.getsockname()[1]
        self.path.write_text(GOOD.replace("127.0.0.1:4000", f"127.0.0.1:{port}"))
        code, text = self.run_tollgate("serve", "--config", str(self.path))
        self.assertEqual(code, 1, text)
        self.assertIn(str(port), text)
