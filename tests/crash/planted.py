# SPDX-License-Identifier: Apache-2.0
"""Faults planted into what a run left, each of which verdict.py must find.

For:       crash.py: a judge that finds nothing must be known to be able to.
Knows not: how the load was made.
"""

import copy
import pathlib
import shutil
import tempfile

import verdict

FILES = 12                                # of the journal: enough for every kind of line


def change_digit(lines):
    """A billed token more or less."""
    for at, line in enumerate(lines):
        place = line.find(b'"output":')
        if place >= 0 and b'"billable":true' in line:
            digit = line[place + 9:place + 10]
            lines[at] = line[:place + 9] + (b"8" if digit != b"8" else b"7") + line[place + 10:]
            return


def drop_line(lines):
    del lines[len(lines) // 2]


def repeat_line(lines):
    lines.insert(len(lines) // 2, lines[len(lines) // 2])


def swap_lines(lines):
    lines[1], lines[2] = lines[2], lines[1]


def cut_head(lines):
    del lines[-1]


def change_signature(lines):
    place = lines[-1].rfind(b'"signature":"') + 20
    other = b"A" if lines[-1][place:place + 1] != b"A" else b"B"
    lines[-1] = lines[-1][:place] + other + lines[-1][place + 1:]


def change_balance(lines):
    lines[0] = lines[0].replace(b'"posted_pusd":"', b'"posted_pusd":"1')


CHANGES = (change_digit, drop_line, repeat_line, swap_lines, cut_head, change_signature,
           change_balance)


def not_found_in_files(folder):
    """Names of changes to a closed file of the journal that go unseen."""
    paths = sorted((path for path in folder.glob("*.jsonl") if path.stat().st_size),
                   key=lambda path: tuple(map(int, path.stem.rsplit("-", 2)[1:])))[:FILES]
    with tempfile.TemporaryDirectory(prefix="tollgate-planted-") as holder:
        copied = pathlib.Path(holder)
        for path in [*paths, folder / "signing.pub"]:
            shutil.copy(path, copied / path.name)
        closed = next(copied / path.name for path in paths[1:]
                      if b'"kind":"head"' in path.read_bytes())
        whole = closed.read_bytes()
        before = set(verdict.Journal(copied).problems)
        for change in CHANGES:
            lines = whole.split(b"\n")[:-1]
            change(lines)
            closed.write_bytes(b"\n".join(lines) + b"\n")
            if not set(verdict.Journal(copied).problems) - before:
                yield change.__name__


def not_found_in_rows(rows, asks, served):
    """Names of wrong rows that go unseen."""
    whole = next(ask for ask in asks if ask.finished and ask.received > 1)
    cut = next(ask for ask in asks if not ask.finished and ask.received > 1)
    by_request = {row.get("request_id"): row for row in rows}

    def changed(ask, tokens):
        """The rows, ask's billed so many tokens more."""
        row = copy.deepcopy(by_request[ask.request_id])
        row["output"] = row.get("output", 0) + tokens
        return verdict.Verdict([row], [ask], served)

    missing = verdict.Verdict([row for row in rows if row.get("request_id") != cut.request_id],
                              [cut], served)
    found = {
        "a lost row": len(missing.lost()) > 0,
        "a row twice": len(verdict.twice([by_request[cut.request_id]] * 2, "exchange_id")) > 0,
        "a token too few of a cut answer": any(changed(cut, -cut.received).unlike()),
        "a thousand tokens too many of a cut answer": any(changed(cut, 1000).unlike()),
        "a token too few of a whole answer": any(changed(whole, -1).unequal()),
        "a token too many of a whole answer": any(changed(whole, 1).unequal()),
    }
    return [what for what, seen in found.items() if not seen]
