# SPDX-License-Identifier: Apache-2.0
"""What the kernel knows of processes: CPU, memory, who else was busy; and processes on fixed cores.

For:       `with Processes() as processes:` starts programs and ends every one of them, whatever
           happens; tree_cpu_ns(), tree_rss_bytes() and Watch measure them.
Called by: candidates.py, scenarios.py, run.py.
Knows not: what the programs do.
"""

import ctypes
import os
import pathlib
import platform
import resource
import signal
import socket
import subprocess
import time

CANDIDATE_CORE = 0
OTHER_CORE = 1
STOP_SECONDS = 5.0
TICKS = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PR_SET_PDEATHSIG = 1
FIRST_PORT = 18100  # below the ports that the kernel gives to clients

_libc = ctypes.CDLL(None)
_next_port = FIRST_PORT


def free_port():
    """A loopback port that nobody listens on; no two calls return the same one."""
    global _next_port
    while True:
        port = _next_port
        _next_port = _next_port + 1 if _next_port < 32000 else FIRST_PORT
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


class Processes:
    """All that were started here; none outlives it."""

    def __init__(self):
        self.children = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for child in list(self.children):
            self.stop(child)

    def start(self, command, core, **more):
        """A program in a session of its own, on one core. It gets SIGTERM should we be killed."""
        def prepare():
            os.sched_setaffinity(0, {core})
            _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
        child = subprocess.Popen([str(part) for part in command], preexec_fn=prepare,
                                 start_new_session=True, **more)
        self.children.append(child)
        return child

    def stop(self, child, sign=signal.SIGTERM):
        """A signal, then SIGKILL to it and whatever it has started."""
        family = tree(child.pid)[1:]
        if child.poll() is None:
            child.send_signal(sign)
            try:
                child.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        for pid, started in family:
            if _start_time(pid) == started:
                os.kill(pid, signal.SIGKILL)
        for stream in (child.stdin, child.stdout, child.stderr):
            if stream is not None:
                stream.close()
        if child in self.children:
            self.children.remove(child)


def _start_time(pid):
    """Tells a process from a later one with the same id; None: it is gone."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def tree(pid):
    """(id, start time) of a process and all its descendants, itself first."""
    found = [(pid, _start_time(pid))]
    for entry in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = entry.read_text().split()
        except OSError:
            continue
        for child in children:
            found += tree(int(child))
    return found


def tree_tasks(pid):
    """Paths of all threads of a process tree."""
    return [task for member, _ in tree(pid)
            for task in pathlib.Path(f"/proc/{member}/task").glob("*")]


def tree_cpu_ns(pid):
    """User and system time of a process tree so far, in ns."""
    total = 0
    for task in tree_tasks(pid):
        try:
            total += int((task / "schedstat").read_text().split()[0])
        except OSError:
            continue
    return total


def tree_rss_bytes(pid):
    """Resident memory of a process tree; pages that two processes share count twice."""
    total = 0
    for member, _ in tree(pid):
        try:
            total += int(pathlib.Path(f"/proc/{member}/statm").read_text().split()[1])
        except OSError:
            continue
    return total * PAGE_BYTES


def _busy_seconds():
    """CPU time of all cores that was not idle, time stolen by the host included."""
    fields = pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    user, nice, system, _, _, irq, softirq, steal = (int(field) for field in fields)
    return (user + nice + system + irq + softirq + steal) / TICKS


def _own_seconds():
    """CPU time of this process and of those that it has waited for."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    theirs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


class Watch:
    """From its making, or begin(), to done(): what the process trees used, and what others took.

    Programs that ran in between and were waited for count as ours."""

    def __init__(self, *pids):
        self.pids = pids
        self.begin()

    def begin(self):
        """Forgets what was before."""
        self.trees_ns = {pid: tree_cpu_ns(pid) for pid in self.pids}
        self.own = _own_seconds()
        self.busy = _busy_seconds()
        self.began = time.monotonic()

    def done(self):
        """({pid: CPU ns}, cores that other processes took on average)"""
        seconds = time.monotonic() - self.began
        busy = _busy_seconds() - self.busy
        used_ns = {pid: tree_cpu_ns(pid) - before for pid, before in self.trees_ns.items()}
        ours = _own_seconds() - self.own + sum(used_ns.values()) / 1e9
        return used_ns, max(0.0, (busy - ours) / seconds)


def facts():
    """What a reader must know of this machine."""
    model = [line.split(":", 1)[1].strip()
             for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
             if line.startswith("model name")]
    memory = pathlib.Path("/proc/meminfo").read_text().split()[1]
    return {"cpu": model[0] if model else platform.machine(), "cores": os.cpu_count(),
            "memory_mib": int(memory) // 1024, "kernel": platform.release(),
            "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0]}
