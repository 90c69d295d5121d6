# SPDX-License-Identifier: Apache-2.0
"""Who is measured: the gateway, its rivals and the bare road, each started fresh.

For:       `field.start("nginx", Setting(tls=True))` gives a running Candidate that has answered;
           its configuration is made from the template in peers/.
Called by: run.py; scenarios.py asks a Candidate for its address.
Knows not: what is measured.
"""

import collections
import json
import pathlib
import re
import shutil
import subprocess
import time

from machine import CANDIDATE_CORE, OTHER_CORE, free_port

HERE = pathlib.Path(__file__).resolve().parent
PLAIN_PROXIES = ("nghttpx", "haproxy", "nginx")
ALL = (*PLAIN_PROXIES, "portkey", "direct", "tollgate", "tollgate-openai",
       "tollgate-unmetered")
KEY = "sk-bench-7b1f0c52d9e84a36"
START_SECONDS = 15.0
NPM_SECONDS = 180
KEEP_ALIVE_MS = 60000  # of the backend: no candidate is to meet a connection that has just closed


# tls: clients come by TLS; counted: nothing but requests is to make system calls.
Setting = collections.namedtuple("Setting", "tls counted", defaults=(False, False))


class Unavailable(Exception):
    """A candidate that cannot be had, and why."""


class Candidate:
    """One that runs. child is None for the bare road to the backend."""

    def __init__(self, name, child, port_h1, port_h2, tls=False, headers=()):
        self.name = name
        self.tls = tls
        self.child = child
        self.port_h1 = port_h1
        self.port_h2 = port_h2
        self.headers = headers

    def address(self, use_h2):
        """The options of the load client that lead here."""
        port = self.port_h2 if use_h2 else self.port_h1
        options = ["--url", f"http://127.0.0.1:{port}", "--key", KEY]
        for header in self.headers:
            options += ["--header", header]
        return options + ["--h2"] * use_h2 + ["--tls"] * self.tls


class Field:
    """Programs, ports and directories that all candidates share."""

    def __init__(self, processes, build, directory):
        self.processes = processes
        self.build = pathlib.Path(build)
        self.directory = pathlib.Path(directory)
        self.load = self.build / "load"
        self.backends = {}
        self.certified = False
        for program in ("load", "fake", "tollgate"):
            if not (self.build / program).exists():
                raise Unavailable(f"{self.build / program} is not there: run make")

    def backend(self, kind):
        """(process, port) of the simulated model server of that kind, started when first wanted."""
        if kind not in self.backends:
            child = self.processes.start(
                [self.build / "fake", "--port", "0", "--kind", kind,
                 "--keep-alive-ms", KEEP_ALIVE_MS], OTHER_CORE, stdout=subprocess.PIPE, text=True)
            words = child.stdout.readline().split()
            if words[:1] != ["ready"]:
                raise Unavailable("the simulated model server did not start")
            self.backends[kind] = (child, int(words[1]))
        return self.backends[kind]

    def certificate(self):
        """{name in templates: file} of the certificate for all, made when first wanted."""
        home = self.directory / "tls"
        files = {"CERTIFICATE": home / "certificate.pem", "KEY_FILE": home / "key.pem",
                 "BUNDLE": home / "bundle.pem"}
        if not self.certified:
            shutil.rmtree(home, ignore_errors=True)
            home.mkdir(mode=0o700)
            done = subprocess.run(
                [program("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt",
                 "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", "/CN=localhost",
                 "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost",
                 "-keyout", files["KEY_FILE"], "-out", files["CERTIFICATE"]],
                capture_output=True, text=True, timeout=START_SECONDS)
            if done.returncode != 0:
                raise Unavailable(f"openssl made no certificate: {done.stderr.strip()[-200:]}")
            files["BUNDLE"].write_text(files["CERTIFICATE"].read_text()
                                       + files["KEY_FILE"].read_text())
            self.certified = True
        return files

    def start(self, name, setting=Setting()):
        """A Candidate that has answered one request; Unavailable says why there is none."""
        kind = "openai" if name == "tollgate-openai" else "vllm"
        backend_port = self.backend(kind)[1]
        if name == "direct":
            return Candidate(name, None, backend_port, None)
        shutil.rmtree(self.directory / "state", ignore_errors=True)
        state = self.directory / "state"
        (state / "journal").mkdir(parents=True)
        ports = {"PORT_H1": free_port(), "PORT_H2": free_port(), "PORT_ADMIN": free_port(),
                 "PORT_BACKEND": backend_port, "KIND": kind, "DIRECTORY": state}
        if setting.tls:
            ports.update(self.certificate())
        candidate = self._launch(name, setting, ports, state)
        try:
            self._wait_ready(candidate)
        except Unavailable:
            self.processes.stop(candidate.child)
            raise
        return candidate

    def stop(self, candidate):
        if candidate.child is not None:
            self.processes.stop(candidate.child)
            shutil.rmtree(self.directory / "state", ignore_errors=True)

    def _launch(self, name, setting, ports, state):
        def filled(template):
            return fill(template, setting, ports, state, name != "tollgate-unmetered")

        def run(*command, **more):
            return self.processes.start(command, CANDIDATE_CORE, stdin=subprocess.DEVNULL,
                                        stdout=output, stderr=subprocess.STDOUT, **more)
        one_port = ports["PORT_H1"], ports["PORT_H1"]
        two_ports = ports["PORT_H1"], ports["PORT_H1" if setting.tls else "PORT_H2"]
        with open(self.directory / f"{name}.log", "wb") as output:
            if name == "nghttpx":
                child = run(program("nghttpx"), "--conf", filled("nghttpx.conf"))
                return Candidate(name, child, *one_port, setting.tls)
            if name == "haproxy":
                child = run(program("haproxy"), "-db", "-f", filled("haproxy.cfg"))
                return Candidate(name, child, *two_ports, setting.tls)
            if name == "nginx":
                child = run(program("nginx"), "-e", state / "nginx.log",
                            "-c", filled("nginx.conf"))
                return Candidate(name, child, *two_ports, setting.tls)
            if name == "portkey":
                child = run(program("node"), portkey_entry(self.build), "--headless",
                            f"--port={ports['PORT_H1']}", env={"NODE_ENV": "production",
                                                               "PATH": "/usr/bin:/bin"})
                return Candidate(name, child, ports["PORT_H1"], None, headers=(
                    "x-portkey-provider:openai",
                    f"x-portkey-custom-host:http://127.0.0.1:{ports['PORT_BACKEND']}/v1"))
            child = run(self.build / "tollgate", "serve", "--config",
                        filled("tollgate.yaml"),
                        env={"TOLLGATE_BENCH_KEY": KEY, "TOLLGATE_IDLE_KEY": KEY + "0"})
            return Candidate(name, child, *one_port, setting.tls)

    def _wait_ready(self, candidate):
        limit = time.monotonic() + START_SECONDS
        command = [str(self.load), *candidate.address(False), "--requests", "1"]
        while time.monotonic() < limit and candidate.child.poll() is None:
            done = subprocess.run(command, capture_output=True, text=True, timeout=START_SECONDS)
            if done.returncode == 0:
                return
            time.sleep(0.05)
        log = (self.directory / f"{candidate.name}.log").read_text(errors="replace")
        raise Unavailable(f"{candidate.name} did not answer: {' '.join(log.split())[-400:]}")


def fill(template, setting, values, state, metered=True):
    """A template of peers/ with its @NAME@ filled in, as a file in the state directory.

    A line that begins with @PLAIN@, @TLS@ or @COUNTED@ is for that setting only, one with @METERED@
    for a gateway that writes down what it serves."""
    marks = (["TLS" if setting.tls else "PLAIN"] + ["COUNTED"] * setting.counted
             + ["METERED"] * metered)
    lines = []
    for line in (HERE / "peers" / template).read_text().splitlines():
        marked = re.fullmatch(r"@(PLAIN|TLS|COUNTED|METERED)@ +(.*)", line)
        if marked is None or marked.group(1) in marks:
            lines.append(marked.group(2) if marked else line)
    text = "\n".join(lines) + "\n"
    path = state / template
    path.write_text(re.sub(r"@([A-Z0-9_]+)@", lambda match: str(values[match.group(1)]), text))
    return path


def program(name):
    """Where it is; rivals are often installed in sbin."""
    path = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
    if path is None:
        raise Unavailable(f"{name} is not installed: run make deps-bench")
    return path


def portkey_entry(build):
    """Portkey's gateway from npm, in the pinned version, below build/; installed when missing."""
    home = pathlib.Path(build) / "portkey"
    entry = home / "node_modules/@portkey-ai/gateway/build/start-server.js"
    wanted = json.loads((HERE / "peers/portkey/package.json").read_text())
    if entry.exists() and portkey_version(build) == wanted["dependencies"]["@portkey-ai/gateway"]:
        return entry.resolve()
    home.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "peers/portkey" / name, home / name)
    try:
        done = subprocess.run([program("npm"), "ci", "--omit=dev", "--ignore-scripts", "--no-audit",
                               "--no-fund"], cwd=home, capture_output=True, text=True,
                              timeout=NPM_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable("npm did not bring Portkey's gateway in time") from None
    if done.returncode != 0 or not entry.exists():
        raise Unavailable(f"npm did not bring Portkey's gateway: {done.stderr.strip()[-200:]}")
    return entry.resolve()


def portkey_version(build):
    """Of the one installed below build/; None: there is none."""
    path = pathlib.Path(build) / "portkey/node_modules/@portkey-ai/gateway/package.json"
    return json.loads(path.read_text())["version"] if path.exists() else None


def versions(build):
    """Of everybody, as they say it themselves."""
    def first_line(*command):
        try:
            done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                                  timeout=10)
        except OSError:
            return None
        lines = (done.stdout + done.stderr).strip().splitlines()
        return lines[0] if lines else None

    def rival(name, option):
        try:
            return first_line(program(name), option)
        except Unavailable:
            return None

    return {"nghttpx": rival("nghttpx", "--version"), "haproxy": rival("haproxy", "-v"),
            "nginx": rival("nginx", "-v"), "portkey": portkey_version(build),
            "node": rival("node", "--version"), "strace": rival("strace", "--version"),
            "openssl": rival("openssl", "version"),
            "tollgate": first_line("git", "-C", HERE, "describe", "--always", "--dirty")}
