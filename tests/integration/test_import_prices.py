# SPDX-License-Identifier: Apache-2.0
"""import prices turns LiteLLM's public price map into price lists that a configuration can take.

For:       the command: its output, what it lists, its exit codes. What each field becomes stands in
           ../unit/test_import_prices.c.
"""

import json
import pathlib
import subprocess
import tempfile
import unittest

import harness

MAP = """\
{
 "sample_spec": {"mode": "one of: chat, embedding", "input_cost_per_token": 0.0},
 "good": {"mode": "chat", "input_cost_per_token": 1.5e-07, "output_cost_per_token": 6e-07,
  "input_cost_per_token_above_128k_tokens": 3e-07,
  "output_cost_per_token_above_128k_tokens": 1.2e-06,
  "input_cost_per_token_flex": 7.5e-08, "output_cost_per_token_flex": 3e-07},
 "noise": {"mode": "chat", "input_cost_per_token": 1.2345600000000001e-07,
  "output_cost_per_token": 6e-07},
 "embedder": {"mode": "embedding", "input_cost_per_token": 2e-08}
}
"""

REST = """\
    kind: vllm
    replicas: [{name: r, url: "http://127.0.0.1:1"}]
"""


class ImportPrices(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.folder = pathlib.Path(self.holder.name)
        self.map = self.folder / "map.json"
        self.map.write_text(MAP)

    def run_tollgate(self, *arguments):
        """(exit code, standard output, standard error)."""
        done = subprocess.run([harness.TOLLGATE, *map(str, arguments)], capture_output=True,
                              timeout=20, text=True, stdin=subprocess.DEVNULL, check=False)
        return done.returncode, done.stdout, done.stderr

    def test_lists_come_out_and_what_cannot_be_taken_is_listed(self):
        code, yaml, notes = self.run_tollgate("import", "prices", self.map)
        self.assertEqual(code, 1, notes)
        self.assertIn('- {input: "0.15", output: "0.6"', yaml)
        self.assertIn('{above: 128000, input: "0.3", output: "1.2"}', yaml)
        self.assertIn('tiers: {flex: "0.5"}', yaml)
        self.assertNotIn("noise", yaml)
        self.assertIn(f"{self.map}:7: noise.input_cost_per_token: left out: 1.2345600000000001e-07",
                      notes)
        self.assertIn("price lists of 2 models taken over, 2 left out", notes)

    def test_models_that_are_picked_make_a_configuration_with_their_servers(self):
        code, yaml, notes = self.run_tollgate("import", "prices", self.map, "--models",
                                              "good,embedder")
        self.assertEqual(code, 0, notes)
        whole = self.folder / "tollgate.yaml"
        lines = ['listen: [{address: "127.0.0.1:0"}]', "tenants: {t: {keys: [{id: k, key: s}]}}"]
        for line in yaml.splitlines():
            lines.append(line)
            if line.startswith('  "'):
                lines.append(REST.rstrip("\n"))
        whole.write_text("\n".join(lines) + "\n")
        code, out, err = self.run_tollgate("check", whole)
        self.assertEqual(code, 0, out + err + whole.read_text())

    def test_a_model_that_is_not_there_and_no_map_write_nothing(self):
        made = self.folder / "made.yaml"
        code, yaml, notes = self.run_tollgate("import", "prices", self.map, "--models", "good,bad",
                                              "--output", made)
        self.assertEqual((code, yaml), (2, ""), notes)
        self.assertIn('the file has no "bad"', notes)
        self.assertFalse(made.exists())
        self.map.write_text("[1]")
        self.assertEqual(self.run_tollgate("import", "prices", self.map)[0], 2)
        self.assertEqual(self.run_tollgate("import", "prices", self.folder / "none")[0], 2)
        self.assertEqual(self.run_tollgate("import", "prices")[0], 2)

    def test_a_file_that_is_there_is_not_written_over_and_notes_come_as_json(self):
        made = self.folder / "made.yaml"
        code, _, notes = self.run_tollgate("import", "prices", self.map, "--output", made, "--json")
        self.assertEqual(code, 1, notes)
        report = json.loads(notes)
        self.assertEqual((report["ok"], report["models"], report["left_out"]), (True, 2, 2))
        before = made.read_text()
        self.assertEqual(self.run_tollgate("import", "prices", self.map, "--output", made)[0], 2)
        self.assertEqual(made.read_text(), before)
