# SPDX-License-Identifier: Apache-2.0
"""The folder of a gateway that runs on shim.c: errors, slowness, and what a power cut leaves of it.

For:       power.py, and the integration tests of durability and of disks that fail.
Knows not: what a row is.

A cut leaves what POSIX lets it leave: the bytes of a file up to its last sync, and behind them
nothing, some first bytes, or some first bytes and then zeros; a name that was made, changed or
removed since the folder's last sync is there or not, file by file. The table of what is under way
is mapped: each of its pages is what it was at any moment since its last sync. Not simulated: a hole of zeros with later rows behind it (a filesystem writes a file's new
size when the bytes before it are there).
"""

import mmap
import os
import pathlib
import shutil
import struct
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHIM = pathlib.Path(os.environ.get("DISK_SHIM", ROOT / "build" / "disk.so"))
NUMBERS = ("write_error", "sync_error", "sync_delay_us", "sync_delay_varies", "sync_held",
           "space_error", "reserve_most", "syncs_begun", "syncs_done")
PAGE = 4096


def is_table(name):
    return ".inflight" in name or name.endswith(".new")


class Disk:
    """What shim.c reads: numbers that may be set and read at any moment, as attributes."""

    def __init__(self, beside, folder):
        """beside: where the shim's own files go; folder: the journal's."""
        self.folder = pathlib.Path(folder).resolve()
        self.path = pathlib.Path(beside) / "disk.control"
        self.path.write_bytes(bytes(8 * len(NUMBERS)))
        with open(self.path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), 0)

    def environment(self):
        found = {"LD_PRELOAD": str(SHIM), "DISK_FOLDER": str(self.folder),
                 "DISK_CONTROL": str(self.path)}
        # The shim makes its system calls by itself: it need not stand behind a sanitizer's own.
        options = (os.environ.get("ASAN_OPTIONS"), "verify_asan_link_order=0")
        return found | {"ASAN_OPTIONS": ":".join(filter(None, options))}

    def __getattr__(self, name):
        if name not in NUMBERS:
            raise AttributeError(name)
        return struct.unpack_from("<q", self.page, 8 * NUMBERS.index(name))[0]

    def __setattr__(self, name, value):
        if name in NUMBERS:
            struct.pack_into("<q", self.page, 8 * NUMBERS.index(name), value)
        else:
            super().__setattr__(name, value)


class MortalDisk(Disk):
    """One whose power can be cut."""

    def __init__(self, beside, folder):
        super().__init__(beside, folder)
        self.log = pathlib.Path(beside) / "disk.log"
        self.trash = pathlib.Path(beside) / "disk.trash"
        self.boot = pathlib.Path(beside) / "disk.boot"
        self.cuts = {"bytes dropped": 0, "bytes of zeros": 0, "names undone": 0,
                     "old pages of tables": 0}
        self.begin_anew()

    def environment(self):
        return super().environment() | {"DISK_LOG": str(self.log), "DISK_TRASH": str(self.trash),
                                        "DISK_BOOT": str(self.boot)}

    def begin_anew(self):
        """The power is there again: all that the folder has is on the disk."""
        self.log.write_bytes(b"")
        shutil.rmtree(self.trash, ignore_errors=True)
        self.trash.mkdir()
        self.boot.write_text(f"{uuid.uuid4()}\n")
        self.names = self._names()
        self.sizes = {number: path.stat().st_size for number, path in self._paths().items()}
        self.first = {number: path.read_bytes() for number, path in self._paths().items()
                      if is_table(path.name)}
        self.images = {}                  # table's inode: what it was at some moments

    def _paths(self):
        return {entry.inode(): pathlib.Path(entry.path) for entry in os.scandir(self.folder)} \
            if self.folder.exists() else {}

    def _names(self):
        return {number: path.name for number, path in self._paths().items()}

    def look(self):
        """Remembers the tables as they are now: what the kernel may have written out."""
        for number, path in self._paths().items():
            if is_table(path.name):
                self.images.setdefault(number, []).append(path.read_bytes())

    def cut_power(self, rng):
        """The gateway was killed: makes the folder what is on the disk."""
        before, sizes = self.names, dict(self.sizes)
        for line in self.log.read_text().splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "S":
                number, size = map(int, rest.split())
                sizes[number] = max(size, sizes.get(number, 0))
            else:
                entries = (entry.partition(":") for entry in rest.split("/")[:-1])
                before = {int(number): name for number, _, name in entries}
        now, paths = self._names(), self._paths()
        left = {}
        for number in sorted(before.keys() | now.keys()):
            name = rng.choice((before.get(number), now.get(number)))
            self.cuts["names undone"] += name != now.get(number)
            if name is None:
                continue
            path = paths.get(number, self.trash / str(number))
            data, about = path.read_bytes(), path.stat()
            if is_table(name):
                data = self._old_pages(number, data, rng)
            else:
                data = self._old_end(data, sizes.get(number, 0), rng)
            left[name] = (data, about.st_mtime_ns)
        for path in paths.values():
            path.unlink()
        for name, (data, changed_ns) in left.items():
            (self.folder / name).write_bytes(data)
            (self.folder / name).chmod(0o600)
            os.utime(self.folder / name, ns=(changed_ns, changed_ns))
        self.begin_anew()

    def _old_end(self, data, synced, rng):
        loose = len(data) - synced
        if loose <= 0:
            return data
        kept = rng.choice((0, 0, rng.randrange(loose + 1), loose))
        zeros = rng.choice((0, rng.randrange(loose - kept + 1)))
        self.cuts["bytes dropped"] += loose - kept
        self.cuts["bytes of zeros"] += zeros
        return data[:synced + kept] + bytes(zeros)

    def _old_pages(self, number, data, rng):
        synced = self.trash / f"{number}.synced"
        first = synced.read_bytes() if synced.exists() else self.first.get(number, b"")
        many = [first.ljust(len(data), b"\0"), *self.images.get(number, []), data]
        many = rng.choice((many[:1], many[-1:], many[:-1], many))
        pages = []
        for at in range(0, len(data), PAGE):
            pages.append(rng.choice(many)[at:at + PAGE])
            self.cuts["old pages of tables"] += pages[-1] != data[at:at + PAGE]
        return b"".join(pages)
