# SPDX-License-Identifier: Apache-2.0
"""What the journal must be after any number of kills, read by other code than the gateway's.

For:       crash.py: files, chain, signatures, rows against what clients received and simulated
           servers generated.
Knows not: how the load was made.
"""

import base64
import collections
import ctypes
import hashlib
import json
import re

import harness

FILE_NAME = re.compile(r"(?P<gateway>.+)-(?P<epoch>\d+)-(?P<first_seq>\d+)\.jsonl$")
SIGNATURE = re.compile(rb',"signature":"([A-Za-z0-9+/=]+)"\}$')
ZEROS = "0" * 64
PUBLIC_DER = bytes.fromhex("302a300506032b6570032100")  # RFC 8410: what precedes the key's 32 bytes


class Ed25519:
    """Signatures by libcrypto: a process for each would take minutes."""

    EVP_PKEY_ED25519 = 1087

    def __init__(self, path):
        text = path.read_text()
        der = base64.b64decode("".join(text.split("\n")[1:-2]))
        if der[:-32] != PUBLIC_DER:
            raise ValueError(f"{path}: not an Ed25519 public key")
        self.key_id = hashlib.sha256(der[-32:]).hexdigest()[:16]
        self.library = library = ctypes.CDLL("libcrypto.so.3")
        library.EVP_PKEY_new_raw_public_key.restype = ctypes.c_void_p
        library.EVP_MD_CTX_new.restype = ctypes.c_void_p
        self.key = ctypes.c_void_p(library.EVP_PKEY_new_raw_public_key(
            self.EVP_PKEY_ED25519, None, der[-32:], ctypes.c_size_t(32)))

    def verifies(self, text, signature):
        library = self.library
        context = ctypes.c_void_p(library.EVP_MD_CTX_new())
        good = library.EVP_DigestVerifyInit(context, None, None, None, self.key) == 1 and \
            library.EVP_DigestVerify(context, signature, ctypes.c_size_t(len(signature)), text,
                                     ctypes.c_size_t(len(text))) == 1
        library.EVP_MD_CTX_free(context)
        return good


class Journal:
    """All rows of a folder, and what is wrong with files and chain."""

    def __init__(self, folder):
        self.folder = folder
        self.problems = []
        self.calls = []
        self.heads = self.opens = self.lines = self.torn = 0
        self.digest_of = {}               # (file, seq): SHA-256 of that line
        self.last_seq = {}                # file: seq of its last whole line
        self.befores = []                 # (file, [what its open row says came before])
        self.balance = None               # of the last open row: tenant to picodollars
        self.posted = collections.Counter()
        self.key = Ed25519(folder / "signing.pub")
        epochs = collections.defaultdict(list)
        for path in folder.glob("*.jsonl"):
            name = FILE_NAME.match(path.name)
            epochs[name["gateway"], int(name["epoch"])].append((int(name["first_seq"]), path))
        self.epochs = [(epoch, sorted(epochs[epoch])) for epoch in sorted(epochs)]
        for position, (epoch, files) in enumerate(self.epochs):
            self._read_epoch(epoch, files, position == len(self.epochs) - 1)
            # A file is made before the one before it is closed: its process may die in between.
            while files and files[-1][1].name not in self.last_seq:
                files.pop()
        self._check_befores()

    def wrong(self, path, number, what):
        self.problems.append(f"{path.name}:{number}: {what}")

    def _read_epoch(self, epoch, files, newest):
        seq, previous = None, ZEROS
        read = [(first_seq, path, path.read_bytes().split(b"\n")) for first_seq, path in files]
        while read and len(read[-1][2]) == 1 and not newest:
            self.torn += 1 if read.pop()[2][0].strip(b"\0") else 0
        for position, (first_seq, path, (*lines, rest)) in enumerate(read):
            if rest.strip(b"\0"):
                self.torn += 1
                if position < len(read) - 1:
                    self.wrong(path, len(lines) + 1, "torn, and a file follows")
            kind = None
            for number, line in enumerate(lines, 1):
                try:
                    row = json.loads(line)
                    kind, at = row["kind"], (row["gateway"], row["epoch"])
                except (ValueError, KeyError, TypeError):
                    self.wrong(path, number, f"not a row: {line[:80]!r}")
                    continue
                if at != epoch:
                    self.wrong(path, number, f"a row of {at}")
                expected = first_seq if seq is None or number == 1 else seq + 1
                if row["seq"] != expected or (seq is not None and row["seq"] != seq + 1):
                    self.wrong(path, number, f"seq {row['seq']} behind {seq}")
                if row.get("prev") != previous:
                    self.wrong(path, number, "prev is not the digest of the line before")
                seq, previous = row["seq"], hashlib.sha256(line).hexdigest()
                self.digest_of[path.name, seq] = previous
                self.last_seq[path.name] = seq
                self._read_row(path, number, line, row)
            if lines and (position < len(read) - 1 or newest) and kind != "head":
                self.wrong(path, len(lines), "closed without a head")

    def _read_row(self, path, number, line, row):
        self.lines += 1
        kind = row["kind"]
        if (kind == "open") != (number == 1):
            self.wrong(path, number, f"{kind} in line {number}")
        if kind == "open":
            self.opens += 1
            self.befores.append((path, row["before"]))
            self.balance = {entry["tenant"]: int(entry["posted_pusd"])
                            for entry in row["balances"]}
            if any(self.balance.get(tenant, 0) != posted
                   for tenant, posted in self.posted.items()):
                self.wrong(path, number, f"balances {self.balance}, posted {dict(self.posted)}")
        elif kind == "head":
            self.heads += 1
            signature = SIGNATURE.search(line)
            if row["key"] != self.key.key_id or signature is None or not self.key.verifies(
                    line[:signature.start()], base64.b64decode(signature.group(1))):
                self.wrong(path, number, "the head's signature is not good")
        elif kind == "call":
            self.calls.append(row)
            self.posted[row["tenant"]] += int(row.get("cost_pusd", "0"))
            if not costs_what_it_says(row):
                self.wrong(path, number, f"cost {row.get('cost_pusd')} is not tokens × prices")

    def _check_befores(self):
        """Every process but the first names the last line of the one before it."""
        last = {epoch: (files[-1][1].name, self.last_seq[files[-1][1].name])
                for epoch, files in self.epochs if files}
        first_befores = {}
        for path, befores in self.befores:
            name = FILE_NAME.match(path.name)
            first_befores.setdefault((name["gateway"], int(name["epoch"])), (path, befores))
            for before in befores:
                if self.digest_of.get((before["file"], before["seq"])) != before["sha256"]:
                    self.wrong(path, 1, f"names {before['file']}:{before['seq']}, another line")
        written = [epoch for epoch, _ in self.epochs if epoch in last]
        for epoch, previous in zip(written[1:], written):
            path, befores = first_befores.get(epoch, (None, []))
            if path is not None and \
                    last[previous] not in [(before["file"], before["seq"]) for before in befores]:
                self.wrong(path, 1, f"does not name the last line of {previous}: {last[previous]}")


def costs_what_it_says(row):
    """cost_pusd = the sum over classes of tokens × picodollars, when billable."""
    prices = row.get("prices", {})
    if not row.get("billable") or "steps" in prices:
        return int(row.get("cost_pusd", "0")) == 0 or "steps" in prices
    return int(row.get("cost_pusd", "0")) == harness.cost_of_row(row)


def billed_output(row):
    return row.get("output", 0) + row.get("reasoning", 0) if row.get("billable") else 0


def twice(rows, name):
    counted = collections.Counter(row[name] for row in rows if row.get(name))
    return [f"{value}: {count} rows" for value, count in counted.items() if count > 1]


class Verdict:
    """rows: those of calls; asks: every request of the clients; served: what simulated servers say
    they did, by exchange id: prompt tokens and generated ones."""

    def __init__(self, rows, asks, served):
        self.row_of = {row["request_id"]: row for row in rows if row.get("request_id")}
        self.rows, self.asks, self.served = rows, asks, served

    def lost(self):
        """An answer of which something came, or which a server worked on, has a row."""
        by_exchange = {row.get("exchange_id") for row in self.rows}
        found = [f"{ask.request_id}: {ask.received} tokens came" for ask in self.asks
                 if (ask.received or ask.finished) and ask.request_id not in self.row_of]
        return found + [f"exchange {exchange_id}: {generated} tokens generated"
                        for exchange_id, (_, generated) in self.served.items()
                        if exchange_id not in by_exchange]

    def unlike(self):
        """received ≤ billed ≤ generated."""
        for ask in self.asks:
            row = self.row_of.get(ask.request_id)
            if row is None:
                continue
            generated = self.served.get(row.get("exchange_id"), (0, 0))[1]
            if not ask.received <= billed_output(row) <= generated:
                yield self.words(ask, row, generated)

    def unequal(self):
        """received = billed = generated of answers that came whole, the prompt's tokens too."""
        for ask in self.asks:
            row = self.row_of.get(ask.request_id)
            if row is None or not ask.finished or ask.status != 200:
                continue
            prompt, generated = self.served.get(row.get("exchange_id"), (-1, -1))
            if not ask.received == billed_output(row) == generated or \
                    row.get("input", 0) + row.get("cached_input", 0) != prompt:
                yield self.words(ask, row, generated)

    @staticmethod
    def words(ask, row, generated):
        return (f"{ask.request_id} {ask.protocol} {ask.endpoint} {row.get('model')} "
                f"stream={ask.stream} finished={ask.finished}: received {ask.received}, billed "
                f"{billed_output(row)} ({row.get('source')}, {row.get('outcome')}), generated "
                f"{generated}")
