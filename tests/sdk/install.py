# SPDX-License-Identifier: Apache-2.0
"""Installs the pinned clients, once.

For:       install() gives the Python that has them; package-lock.json and requirements.txt say
           which, with all that they stand on. Node's lie in node_modules here, Python's in
           build/sdk-venv. A copy of the pins beside them says that all of it is there.
Used by:   run.py.
Knows not: what the clients are for.
"""

import json
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
VENV = HERE.parents[1] / "build" / "sdk-venv"
INSTALL_SECONDS = 600


class InstallError(Exception):
    pass


def _call(command):
    done = subprocess.run(command, cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=INSTALL_SECONDS)
    if done.returncode != 0:
        raise InstallError(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr)[-2000:]}")


def _once(pins, stamp, *commands):
    """Runs the commands unless the stamp says that these pins are installed."""
    wanted = pins.read_text()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    print(f"installing the clients of {pins.name}", flush=True)
    for command in commands:
        _call(command)
    stamp.write_text(wanted)


def install():
    """The Python that has the clients; InstallError when they cannot be had."""
    python = VENV / "bin" / "python"
    _once(HERE / "package-lock.json", HERE / "node_modules" / ".installed",
          ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"])
    _once(HERE / "requirements.txt", VENV / ".installed",
          [sys.executable, "-m", "venv", "--clear", VENV],
          [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
           "--no-input", "--no-deps", "--only-binary", ":all:", "-r", "requirements.txt"])
    return python


def versions():
    """Version by package name, of both package managers: `openai` of Node is `npm:openai`."""
    found = dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", (HERE / "requirements.txt").read_text(),
                            re.MULTILINE))
    manifest = json.loads((HERE / "package.json").read_text())
    found.update({f"npm:{name}": version for name, version in manifest["dependencies"].items()})
    return found
