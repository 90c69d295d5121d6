#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the clients that people use, unchanged, against the gateway.

For:       `tests/sdk/run.py [--tollgate PATH] [--fake PATH] [NAME PART...]`: installs the pinned
           clients once, starts gateways before simulated model servers, runs each client's script
           by each protocol that it speaks and prints the table client x endpoint x plain/stream x
           h1/h2. Without name parts the table must be the one in docs/compatibility.md, which
           --write-doc writes, and the same scripts must pass before a model server itself, too;
           --direct does that alone.
Used by:   make test.
Knows not: what is checked.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "integration"), str(HERE.parent / "cases")]

import harness
import install
import table
from authority import Authority

DOCUMENT = HERE.parents[1] / "docs" / "compatibility.md"
LANES = 2
SCRIPT_SECONDS = 120
QUIET_SECONDS = 10

BOTH = ("h1", "h2")
SWAPPED = "(h1 with TLS, h2 without)"
# Name in the tables, script, protocols, packages whose versions are told.
CLIENTS = (
    ("OpenAI Node", "openai.mjs", BOTH, ("npm:openai", "npm:undici")),
    ("OpenAI Python", "openai_python.py", BOTH, ("openai",)),
    ("OpenAI Python async", "openai_python.py", BOTH, ()),
    ("Anthropic Node", "anthropic.mjs", BOTH, ("npm:@anthropic-ai/sdk",)),
    ("Anthropic Python", "anthropic_python.py", BOTH, ("anthropic",)),
    ("Anthropic Python async", "anthropic_python.py", BOTH, ()),
    ("LangChain OpenAI", "langchain_openai_python.py", BOTH, ("langchain-openai",)),
    ("LangChain Anthropic", "langchain_anthropic_python.py", ("h1",), ("langchain-anthropic",)),
    ("Vercel AI SDK", "vercel.mjs", BOTH,
     ("npm:ai", "npm:@ai-sdk/openai", "npm:@ai-sdk/openai-compatible", "npm:@ai-sdk/anthropic")),
    ("LiteLLM", "litellm_python.py", ("h1",), ("litellm",)),
    ("Open WebUI (recorded)", "openwebui.py", ("h1",), ("aiohttp", "requests")),
    ("curl", "curl.py", BOTH, ()),
    ("curl (h1 with TLS, h2 without)", "curl.py", BOTH, ()),
    ("h2load", "h2load.py", BOTH, ()),
    ("h2load (h1 with TLS, h2 without)", "h2load.py", BOTH, ()),
)
# Models whose servers lack an endpoint: model, kind of its server, endpoint, clients to run again.
TRANSLATED = (
    ("compat", "openai", "messages", ("Anthropic Node", "Anthropic Python", "LangChain Anthropic")),
    ("tgi-model", "tgi", "messages", ("Anthropic Python async",)),
    ("tgi-model", "tgi", "responses", ("OpenAI Node", "OpenAI Python")),
)


class TlsGateway(harness.Gateway):
    """A gateway with a second listener that speaks TLS."""

    def __init__(self, config, environment, authority):
        self.authority = authority
        self.tls_port = harness.free_ports(1)[0]
        super().__init__(config, environment)

    def _filled(self, config):
        whole = super()._filled(config)
        whole["listen"].append({"address": f"127.0.0.1:{self.tls_port}",
                                "tls": {"certificate": str(self.authority.certificate),
                                        "key": str(self.authority.key)}})
        return whole


class Lane:
    """One gateway and its model servers; clients use it one after the other."""

    def __init__(self, directory, authority, direct):
        self.authority, self.direct = authority, direct
        self.gateway, self.fakes = None, []
        try:
            self.small = self._fake(directory, "s1")
            if not direct:
                self.gateway = TlsGateway(
                    self._configuration(self._fake(directory, "c1", "--kind", "openai"),
                                        self._fake(directory, "t1", "--kind", "tgi")),
                    harness.ENVIRONMENT, authority)
        except BaseException:
            self.stop()
            raise

    def _fake(self, directory, name, *arguments):
        self.fakes.append(harness.Fake(directory, name, *arguments))
        return self.fakes[-1]

    def _configuration(self, compat, tgi):
        small = ("s1", self.small.port)
        return {
            "models": {
                "small": harness.model(small),
                "org/large": harness.model(("l1", self.small.port), upstream_model="large"),
                "hidden": harness.model(("x1", self.small.port), upstream_model="large"),
                "compat": harness.model(("c1", compat.port), kind="openai",
                                        upstream_model="small"),
                "tgi-model": harness.model(("t1", tgi.port), kind="tgi", upstream_model="small"),
            },
            "classes": [{"name": "default", "match": {}}],
            "tenants": harness.tenants(
                acme={"models": ["small", "org/large", "compat", "tgi-model"]}),
            "health": {"out_after": 1000},
        }

    def address(self, tls):
        if self.direct:
            return self.small.url
        if tls:
            return f"https://localhost:{self.gateway.tls_port}"
        return f"http://127.0.0.1:{self.gateway.port}"

    def left_behind(self):
        """Streams that model servers still work on after their clients left."""
        def none():
            return sum(fake.counters()["running"] for fake in self.fakes) == 0
        return not harness.wait_until(none, QUIET_SECONDS, 0.1)

    def stop(self):
        if self.gateway is not None:
            self.gateway.stop()
        for fake in self.fakes:
            fake.stop()


def jobs(wanted, direct):
    """(client, script, protocol, what more the script is told), in the order of the table."""
    found = []
    for client, script, protocols, _ in CLIENTS:
        if wanted and not any(part.lower() in client.lower() for part in wanted):
            continue
        for protocol in protocols:
            if direct and (protocol == "h2" or SWAPPED in client):
                continue
            found.append((client, script, protocol, {}))
            for model, kind, endpoint, clients in TRANSLATED:
                if client in clients and not direct:
                    found.append((client, script, protocol, {
                        "model": model, "endpoints": [endpoint], "translated": kind}))
    return found


def run_script(lane, python, client, script, protocol, more):
    """The results of one script, and its last words when it did not end well."""
    over_tls = (protocol == "h2") != (SWAPPED in client)
    told = {"client": client, "protocol": protocol, "direct": lane.direct,
            "root": lane.address(over_tls), "ca": str(lane.authority.ca),
            "key": harness.REPLICA_KEY if lane.direct else harness.KEY, **more}
    environment = dict(os.environ, NODE_EXTRA_CA_CERTS=told["ca"], SSL_CERT_FILE=told["ca"],
                       REQUESTS_CA_BUNDLE=told["ca"], NO_PROXY="*", PYTHONDONTWRITEBYTECODE="1")
    program = ["node"] if script.endswith(".mjs") else [str(python)]
    try:
        done = subprocess.run([*program, str(HERE / script), json.dumps(told)], cwd=HERE,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              env=environment, timeout=SCRIPT_SECONDS)
    except subprocess.TimeoutExpired as error:
        return [], f"{client} by {protocol}: no end\n{(error.stderr or b'').decode()[-2000:]}"
    results = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not results:
        return results, f"{client} by {protocol}: exit {done.returncode}\n{done.stderr[-3000:]}"
    return results, None


def run_all(todo, python, direct):
    """All results in the order of todo, and what else went wrong."""
    with tempfile.TemporaryDirectory(prefix="tollgate-test-") as directory:
        authority = Authority(directory)
        lanes = [Lane(directory, authority, direct) for _ in range(min(LANES, len(todo)))]
        free = list(lanes)

        def run_one(job):
            lane = free.pop()
            try:
                return run_script(lane, python, *job)
            finally:
                free.append(lane)

        troubles = []
        try:
            with concurrent.futures.ThreadPoolExecutor(len(lanes)) as pool:
                ended = list(pool.map(run_one, todo))
            troubles += [trouble for _, trouble in ended if trouble]
            for lane in lanes:
                if lane.left_behind():
                    troubles.append("a model server still works for a client that left")
                if lane.gateway is not None and lane.gateway.stop() != 0:
                    troubles.append(f"the gateway ended with {lane.gateway.child.returncode}:\n"
                                    f"{lane.gateway.last_words}")
        finally:
            for lane in lanes:
                lane.stop()
    return [result for results, _ in ended for result in results], troubles


def told_versions():
    pinned = install.versions()
    return [f"{name.removeprefix('npm:')} {pinned[name]}" + (" (Node)" if "npm:" in name else "")
            for _, _, _, names in CLIENTS for name in names]


def check_document(section, write):
    """None, or what is wrong with docs/compatibility.md."""
    document = DOCUMENT.read_text() if DOCUMENT.exists() else "# What works with Tollgate\n\n"
    if write:
        DOCUMENT.write_text(table.write_section(document, section))
        return None
    if table.read_section(document) != section:
        return f"docs/{DOCUMENT.name} says something else; tests/sdk/run.py --write-doc writes it"
    return None


def print_failures(results, where=""):
    """Says what failed without a known reason; these results."""
    bad = table.unexpected(results)
    for result in bad:
        print(f"FAIL {where}{result['client']}, {result['endpoint']} {result['form']}, "
              f"{result['protocol']}: {result['check']}\n{result['trouble']}")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tollgate", help="the gateway to test (default: build/tollgate)")
    parser.add_argument("--fake", help="the simulated model server (default: build/fake)")
    parser.add_argument("--direct", action="store_true", help="ask the model server itself")
    parser.add_argument("--write-doc", action="store_true", help="write docs/compatibility.md")
    parser.add_argument("parts", nargs="*", help="only clients whose name has one of these")
    options = parser.parse_args()
    harness.use_binaries(options.tollgate, options.fake)
    try:
        python = install.install()
    except (install.InstallError, subprocess.TimeoutExpired) as error:
        print(f"FAIL {error}\n0 passed, 1 failed")
        return 1
    results, troubles = run_all(jobs(options.parts, options.direct), python, options.direct)
    bad = print_failures(results)
    troubles += [f"{', '.join(key)}: works, table.py says that it does not"
                 for key in table.out_of_date(results)]
    print(table.matrix(results), table.features(results), sep="\n\n")
    passed = len(results) - len(bad)
    if not options.direct and not options.parts:
        wrong = check_document(table.section(results, told_versions()),
                               options.write_doc and not bad and not troubles)
        troubles += [wrong] if wrong else []
        passed += not wrong
        # What the gateway is compared with: the same scripts against the model server itself.
        plain, more = run_all(jobs([], True), python, True)
        worse = print_failures(plain, "without the gateway: ")
        bad, troubles, passed = bad + worse, troubles + more, passed + len(plain) - len(worse)
    for trouble in troubles:
        print(f"FAIL {trouble}")
    print(f"{passed} passed, {len(bad) + len(troubles)} failed")
    return 1 if bad or troubles else 0


if __name__ == "__main__":
    sys.exit(main())
