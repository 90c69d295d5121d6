# SPDX-License-Identifier: Apache-2.0
"""import litellm turns the configuration of a LiteLLM proxy into one that check finds good.

For:       files as operators have them: what is taken over, what is listed with file, line and key,
           that no secret gets out, exit codes, and a request through an imported file.
"""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import harness
import wire

# Everything in it has a counterpart.
WHOLE = """\
model_list:
  - model_name: llama
    litellm_params:
      model: hosted_vllm/meta-llama/Llama-3.1-8B-Instruct
      api_base: http://10.1.0.1:8000/v1
      api_key: os.environ/VLLM_KEY
      max_parallel_requests: 24
    model_info:
      input_cost_per_token: 1.5e-07
      output_cost_per_token: 6e-7
      max_input_tokens: 126976
      max_output_tokens: 4096
  - model_name: llama
    litellm_params:
      model: hosted_vllm/meta-llama/Llama-3.1-8B-Instruct
      api_base: http://10.1.0.2:8000/v1
      api_key: os.environ/VLLM_KEY
  - model_name: mistral
    litellm_params: {model: huggingface/mistralai/Mistral-7B, api_base: "https://tgi.example"}
    model_info: {input_cost_per_token: 0.0000002, output_cost_per_token: 0.0000002}
router_settings:
  num_retries: 2
  routing_strategy: simple-shuffle
  timeout: 90
  cooldown_time: 45
  allowed_fails: 3
  model_group_alias: {gpt-3.5-turbo: llama}
  fallbacks: [{llama: [mistral]}]
general_settings:
  master_key: os.environ/LITELLM_MASTER_KEY
"""

# Much of it has none, and secrets stand in it.
MIXED = """\
x-common: &common
  api_base: http://gpu:8000/v1
  api_key: sk-plain-gpu
model_list:
  - model_name: team/qwen
    litellm_params:
      <<: *common
      model: openai/Qwen/Qwen3-8B
      rpm: 60
  - model_name: team/qwen
    litellm_params:
      model: azure/qwen
      api_base: https://u.openai.azure.com
      api_key: sk-plain-azure
  - model_name: team/qwen
    litellm_params:
      model: hosted_vllm/qwen3-8b
      api_base: http://gpu2:8000/v1
      api_key: sk-plain-gpu
  - model_name: claude
    litellm_params: {model: anthropic/claude-sonnet-4-5, api_key: sk-plain-claude}
  - model_name: gpt-4o
    litellm_params: {model: gpt-4o, api_key: sk-plain-openai}
  - model_name: "*"
    litellm_params: {model: "*"}
  - model_name: bad base
    litellm_params: {model: openai/x, api_base: "http://user:sk-plain-base@gpu/v1"}
  - model_name: bad-base
    litellm_params: {model: openai/x, api_base: "http://user:sk-plain-base@gpu/v1"}
  - model_name: whisper
    litellm_params: {model: openai/whisper-1, litellm_credential_name: speech}
    model_info: {mode: audio_transcription, input_cost_per_second: 0.0001}
credential_list:
  - credential_name: speech
    credential_values: {api_base: "http://speech:9000/v1", api_key: sk-plain-speech}
litellm_settings:
  drop_params: true
  set_verbose: true
  cache: true
  cache_params: {type: redis, host: redis, password: sk-plain-redis}
  request_timeout: 600
  default_fallbacks: [whisper, claude]
router_settings:
  routing_strategy: latency-based-routing
  redis_password: sk-plain-redis
  model_group_alias: {"gpt-4": gpt-4o}
  num_retries: 20
general_settings:
  master_key: sk-plain-master
  database_url: postgresql://litellm:sk-plain-db@db/litellm
environment_variables:
  REDIS_PASSWORD: sk-plain-redis
"""

# line and key of everything in MIXED that must be listed as left out
LEFT_OUT = [(1, "x-common"), (9, "model_list[0].litellm_params.rpm"),
            (12, "model_list[1].litellm_params.model"), (15, "model_list[2]"),
            (21, "model_list[3].litellm_params.model"), (23, "model_list[4].litellm_params.model"),
            (24, "model_list[5].model_name"), (26, "model_list[6].model_name"),
            (29, "model_list[7].litellm_params.api_base"),
            (32, "model_list[8].model_info.input_cost_per_second"),
            (37, "litellm_settings.drop_params"), (39, "litellm_settings.cache"),
            (40, "litellm_settings.cache_params"), (42, "litellm_settings.default_fallbacks"),
            (44, "router_settings.routing_strategy"), (45, "router_settings.redis_password"),
            (46, "router_settings.model_group_alias.gpt-4"), (47, "router_settings.num_retries"),
            (50, "general_settings.database_url"),
            (52, "environment_variables.REDIS_PASSWORD")]


class ImportLitellm(unittest.TestCase):
    def setUp(self):
        self.holder = tempfile.TemporaryDirectory(prefix="tollgate-test-")
        self.addCleanup(self.holder.cleanup)
        self.folder = pathlib.Path(self.holder.name)
        self.source = self.folder / "litellm.yaml"
        self.made = self.folder / "tollgate.yaml"

    def run_tollgate(self, *arguments, **environment):
        """(exit code, standard output, standard error)."""
        done = subprocess.run([harness.TOLLGATE, *map(str, arguments)], capture_output=True,
                              timeout=20, text=True, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, **environment))
        return done.returncode, done.stdout, done.stderr

    def take_over(self, text, *arguments):
        self.source.write_text(text)
        return self.run_tollgate("import", "litellm", self.source, *arguments)

    def check(self, yaml):
        """What check says of it when every variable that its head names is set."""
        self.made.write_text(yaml)
        names = re.findall(r"^#   (\w+)", yaml, re.MULTILINE)
        code, out, err = self.run_tollgate(
            "check", self.made, **{name: f"value-of-{name}" for name in names})
        self.assertEqual(code, 0, out + err + yaml)
        return names

    def test_a_file_whose_every_part_has_a_counterpart_is_taken_over_whole(self):
        code, yaml, notes = self.take_over(WHOLE)
        self.assertEqual(code, 0, notes)
        self.assertIn("2 models with 3 replicas taken over, 0 left out", notes)
        self.assertEqual(sorted(self.check(yaml)), ["LITELLM_MASTER_KEY", "VLLM_KEY"])
        for part in ('"llama": # line 2', "kind: vllm", 'input: "0.15", output: "0.6"',
                     "context: 131072", "output: 4096",
                     'upstream_model: "meta-llama/Llama-3.1-8B-Instruct"',
                     'aliases: ["gpt-3.5-turbo"]', 'fallback: ["mistral"]',
                     'url: "http://10.1.0.1:8000/v1", key: "${VLLM_KEY}", slots: 24',
                     'url: "http://10.1.0.2:8000/v1", key: "${VLLM_KEY}"}', "kind: tgi",
                     'input: "0.2", output: "0.2"', 'key: "${LITELLM_MASTER_KEY}"',
                     "attempts: 3", "whole: 90s", "out_for: 45s", "out_after: 4"):
            self.assertIn(part, yaml)
        self.assertNotIn("first_byte", yaml)  # the usual ones are longer than the whole

    def test_what_has_no_counterpart_is_listed_with_file_line_and_key(self):
        code, yaml, notes = self.take_over(MIXED)
        self.assertEqual(code, 1, notes)
        listed = [line for line in notes.splitlines() if ": left out: " in line]
        places = [tuple(re.match(rf"{re.escape(str(self.source))}:(\d+): (\S+): left out: .",
                                 line).groups()) for line in listed]
        self.assertEqual(sorted(places, key=lambda place: int(place[0])),
                         [(str(line), key) for line, key in LEFT_OUT])
        self.assertIn(f"{len(LEFT_OUT)} left out", notes.splitlines()[-1])
        self.assertRegex(listed[-1], "set it in the environment")
        self.check(yaml)
        for part in ('"team/qwen": # line 5', '"team/qwen-2": # line 15',
                     'fallback: ["team/qwen-2", "whisper"]', '"whisper":', "whole: 600s",
                     "first_byte: 600s", 'url: "http://speech:9000/v1", key: "${WHISPER_API_KEY}"'):
            self.assertIn(part, yaml)
        for part in ("claude", "gpt-4o", "azure", "retry:"):
            self.assertNotIn(part, yaml)

    def test_a_secret_of_the_file_gets_nowhere(self):
        for arguments in ((), ("--json",)):
            _, yaml, notes = self.take_over(MIXED, *arguments)
            self.assertNotIn("sk-plain", yaml + notes)
        self.assertIn("LITELLM_MASTER_KEY (stood in the file in plain text)", yaml)
        # One secret, one variable, wherever it stands.
        self.assertEqual(yaml.count('key: "${TEAM_QWEN_API_KEY}"'), 2)

    def test_a_secret_never_gets_the_name_of_another_variable(self):
        _, yaml, _ = self.take_over("""\
model_list:
  - {model_name: a, litellm_params: {model: vllm/a, api_base: "http://a:1/v1", api_key: sk-1}}
  - {model_name: b, litellm_params: {model: vllm/b, api_base: "http://b:1/v1", api_key: os.environ/A_API_KEY}}
""")
        self.check(yaml)
        self.assertIn('url: "http://a:1/v1", key: "${A_API_KEY_2}"', yaml)
        self.assertIn('url: "http://b:1/v1", key: "${A_API_KEY}"', yaml)

    def test_without_a_master_key_clients_need_one_nevertheless(self):
        code, yaml, notes = self.take_over(WHOLE.split("general_settings")[0])
        self.assertEqual(code, 1, notes)
        self.assertIn("general_settings.master_key: left out", notes)
        self.assertIn("LITELLM_MASTER_KEY", self.check(yaml))

    def test_notes_as_json(self):
        code, yaml, notes = self.take_over(MIXED, "--json")
        said = json.loads(notes)
        self.assertEqual((code, said["ok"], said["left_out"]), (1, True, len(LEFT_OUT)))
        self.assertEqual((said["models"], said["replicas"]), (3, 3))
        self.assertTrue(all(note.startswith(f"{self.source}:") for note in said["notes"]))
        self.check(yaml)

    def test_an_output_file_is_made_and_never_overwritten(self):
        code, out, notes = self.take_over(WHOLE, "--output", self.made)
        self.assertEqual((code, out), (0, ""), notes)
        self.check(self.made.read_text())
        self.made.write_text("mine")
        code, out, notes = self.take_over(WHOLE, "--output", self.made)
        self.assertEqual((code, out), (2, ""))
        self.assertIn(str(self.made), notes)
        self.assertEqual(self.made.read_text(), "mine")

    def test_what_is_no_yaml_map_is_2_with_its_place(self):
        for text in ("a: [", "- a\n- b\n", "", "\x01", "model_list"):
            with self.subTest(text):
                code, out, notes = self.take_over(text)
                self.assertEqual((code, out), (2, ""), notes)
                self.assertRegex(notes, rf"{re.escape(str(self.source))}:\d+: ")
        code, out, notes = self.run_tollgate("import", "litellm", self.folder / "nowhere.yaml")
        self.assertEqual((code, out), (2, ""))
        self.assertIn("nowhere.yaml", notes)

    def test_wrong_use_is_2_and_shows_how(self):
        for arguments in ((), ("litellm",), ("envoy", "x"), ("litellm", "a", "b"),
                          ("litellm", "a", "--output"), ("litellm", "a", "--nonsense")):
            with self.subTest(str(arguments)):
                code, out, notes = self.run_tollgate("import", *arguments)
                self.assertEqual((code, out), (2, ""))
                self.assertIn("tollgate import --help", notes)
        code, out, notes = self.run_tollgate("import", "--help")
        self.assertEqual((code, notes), (0, ""))
        self.assertIn("usage: tollgate import litellm FILE", out)

    def test_odd_shapes_are_listed_and_nothing_breaks(self):
        for text in ("model_list: {}\n", "model_list:\n", "model_list: [1, [], {}]\n",
                     "model_list: [{model_name: [a], litellm_params: b}]\n",
                     "model_list: [{model_name: a, litellm_params: {model: [vllm/a]}}]\n",
                     "router_settings: 7\nlitellm_settings: [1]\ngeneral_settings: x\n",
                     "a: &a {b: *a}\n", "a: &a {<<: *a}\n",
                     WHOLE.replace("[{llama: [mistral]}]", "{llama: mistral}"),
                     WHOLE.replace("[mistral]", "mistral"),
                     WHOLE.replace("{gpt-3.5-turbo: llama}", "{llama: llama, a b: llama, c: []}"),
                     WHOLE.replace("max_parallel_requests: 24", "max_parallel_requests: many")):
            with self.subTest(text):
                code, yaml, notes = self.take_over(text)
                self.assertEqual(code, 1, notes)
                self.assertIn("left out", notes)
                if "models: {}" not in yaml:
                    self.check(yaml)

    def test_requests_pass_through_an_imported_file(self):
        fake = harness.Fake(self.folder, "s1")
        self.addCleanup(fake.stop)
        _, yaml, _ = self.take_over(f"""\
model_list:
  - model_name: gpt-4o-mini
    litellm_params:
      model: hosted_vllm/small
      api_base: {fake.url}/v1
      api_key: {harness.REPLICA_KEY}
router_settings: {{model_group_alias: {{mini: gpt-4o-mini}}}}
general_settings: {{master_key: sk-master}}
""")
        port, admin_port = harness.free_ports(2)
        self.made.write_text(yaml.replace("0.0.0.0:4000", f"127.0.0.1:{port}")
                             .replace("127.0.0.1:4001", f"127.0.0.1:{admin_port}")
                             + "\nlog: {access: none}\n")
        gateway = harness.Process(
            [harness.TOLLGATE, "serve", "--config", str(self.made)], self.folder / "output.log",
            dict(os.environ, LITELLM_MASTER_KEY="sk-master",
                 GPT_4O_MINI_API_KEY=harness.REPLICA_KEY))
        self.addCleanup(gateway.stop)

        def ready():
            try:
                return harness.get(port, "/livez").status == 200
            except (OSError, wire.WireError):
                return False
        self.assertTrue(harness.wait_until(ready, harness.START_SECONDS), gateway.output())
        for model in ("gpt-4o-mini", "mini"):
            reply = harness.get(port, "/v1/chat/completions", harness.bearer("sk-master"), "POST",
                                harness.chat(model_name=model))
            self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual({row["model"] for row in fake.served()} - {"-"},
                         {"small"})
        self.assertEqual(gateway.stop(), 0)


if __name__ == "__main__":
    unittest.main()
