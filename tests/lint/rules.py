# SPDX-License-Identifier: Apache-2.0
"""What every C file here keeps to, and a machine can tell.

For:       run (beside this file): the repository must have no violation, and the planted files under
           selftest/ exactly those that they mark.
Knows not: compilers.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# Data moves one way: a file includes from its own room and from lower ones, never from a sibling.
LEVEL = {"config/base": 0, "config": 1, "meter": 2, "cache": 2, "router": 2, "gateway": 3,
         "tests": 4, "bench": 4}
# Across folders only a door is included; tests look behind doors, and what measures one part.
DOORS = {"config/config.h", "meter/meter.h", "meter/books.h", "meter/record.h",
         "cache/cache.h", "router/router.h"}
BEHIND_DOORS = {"bench/journal.c"}
# Each library is known by one file (bench and tests stand outside the house).
LIBRARIES = {
    "nghttp2/": ("gateway/h2.c", "tests/", "bench/"),
    "openssl/": ("config/base/hash.c", "config/base/sign.c", "gateway/tls.c", "gateway/tls_context.", "tests/", "bench/"),
    "event2/": ("gateway/names.c", "tests/", "bench/"),
    "event.h": (),
    "jansson.h": ("gateway/admin.c", "gateway/usage_api.c", "gateway/cmd_", "gateway/quote.c",
                  "tests/"),
    "yaml.h": ("config/reader.c",),
    "zlib.h": ("gateway/unzip.c", "tests/", "bench/"),
    "hiredis/": (),
    "sqlite3.h": ("meter/ledger", "tests/unit/test_ledger"),
    "cmocka.h": ("tests/unit/",),
}
# Tested in microseconds, fuzzed without a socket: no I/O, no clock.
PURE = ["gateway/scan", "gateway/value", "gateway/ask", "gateway/ask_reader", "gateway/ask_prompt",
        "gateway/ask_splices", "gateway/ask_form", "gateway/multipart", "gateway/sse", "gateway/tap",
        "gateway/tally", "gateway/meaning", "gateway/fault",
        "gateway/translate_messages", "gateway/translate_messages_answer",
        "gateway/translate_messages_ask", "gateway/translate_messages_stream",
        "gateway/translate_messages_turns",
        "gateway/translate_responses", "gateway/translate_responses_answer",
        "gateway/translate_responses_ask", "gateway/translate_responses_echo",
        "gateway/translate_responses_events", "gateway/translate_responses_input",
        "router/classify", "router/policy",
        "router/balance", "router/queue", "router/window", "router/latency", "router/health",
        "cache/key", "cache/freshness", "cache/prefix", "meter/price", "meter/tokens",
        "meter/limit", "meter/budget", "meter/account", "meter/row", "meter/record",
        "meter/record_json", "meter/skim", "meter/quote", "meter/settle", "meter/invoice_lines",
        "meter/chain", "config/base/money", "config/base/period", "config/base/zone_rule",
        "config/base/span", "config/base/nearest", "config/base/err"]
C_LIBRARY = {"assert.h", "ctype.h", "errno.h", "float.h", "inttypes.h", "limits.h", "math.h",
             "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h", "stddef.h", "stdint.h",
             "stdio.h", "stdlib.h", "stdnoreturn.h", "string.h", "strings.h", "pthread.h",
             "sys/uio.h"}  # struct iovec is a pair, no I/O
# What carries amounts: no float in it, neither as a type, nor as a number, nor through a library.
MONEY = re.compile(r"meter/|config/base/money\.|config/prices\.|config/import_(prices|list|plan)\.|"
                   r"gateway/cmd_(usage|invoice|adjust|rerate|audit|why|books|ledger)|gateway/quote|"
                   r"gateway/(usage_api|focus|report|invoice)")
FLOAT = re.compile(r"\b(float|double|_Float\w*|strto(?:d|f|ld)|atof|json_real\w*|json_number_value|"
                   r"sqlite3_(?:column|bind|result|value)_double|fabsl?|l*lroundl?|roundl?|floorl?|"
                   r"ceill?|powl?)\b|(?<![\w.])(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|"
                   r"(?<![\w.])\d+[eE][+-]?\d+")
FLOAT_FORMAT = re.compile(r"(?<!%)%[-+#0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?L?[aefgAEFG]")
BANNED = re.compile(r"\b(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|alloca|strtok)\s*\(")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
COLUMNS = 100


def room_of(path):
    """The room that a file belongs to; None outside of the house."""
    if path.startswith("config/base/"):
        return "config/base"
    room = path.split("/")[0]
    return room if room in LEVEL and "/" in path else None


def without_comments_and_texts(source):
    """The same lines with comments, strings and characters blanked out."""
    token = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
    return token.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), source)


def texts_alone(source):
    """The same lines with all but what stands between double quotes blanked out."""
    token = re.compile(r'(/\*.*?\*/|//[^\n]*|\'(?:\\.|[^\'\\\n])*\')|("(?:\\.|[^"\\\n])*")', re.DOTALL)
    out, at = [], 0
    blank = lambda text: re.sub(r"[^\n]", " ", text)
    for match in token.finditer(source):
        out += [blank(source[at:match.start()]), match.group(2) or blank(match.group())]
        at = match.end()
    return "".join(out) + blank(source[at:])


def check_head(path, lines):
    if not lines or lines[0] != "/* SPDX-License-Identifier: Apache-2.0 */":
        yield 1, "spdx", "expected the SPDX line first"
    head = "\n".join(lines[1:40]).split("*/")[0]
    if not head.startswith(f"/* {path}: "):
        yield 2, "head", f"expected a head comment that begins '/* {path}: '"
    elif room_of(path) != "tests" and " For:" not in head:
        yield 2, "head", "expected the head comment to say what the file is for ('For:')"


def check_arrow(path, number, included):
    """A quoted include: which way does it point?"""
    own, other = room_of(path), room_of(included)
    if "/" not in included or other is None or own is None:
        return
    if path.startswith("tests/fake/") and not included.startswith("tests/fake/"):
        yield number, "arrow", "the simulated server knows nothing of the house"
    if other == own or own == "tests" or path in BEHIND_DOORS:
        return
    if LEVEL[other] >= LEVEL[own]:
        yield number, "arrow", f"{own} does not include from {other}"
    elif other != "config/base" and included not in DOORS:
        yield number, "door", f"{included} is not the door of {other}"


def check_library(path, number, included):
    for library, allowed in LIBRARIES.items():
        if included.startswith(library) and not any(path.startswith(file) for file in allowed):
            known = ", ".join(allowed) or "no file"
            yield number, "library", f"<{included}> is known by {known} alone"


def check_pure(path, number, quote, included):
    if path.rsplit(".", 1)[0] not in PURE:
        return
    if quote == "<" and included not in C_LIBRARY:
        yield number, "pure", f"a pure file does not include <{included}>"
    if quote == '"' and included == "config/base/clock.h":
        yield number, "pure", f"a pure file does not include {included}"


def check_lines(path, lines):
    formatted = True
    for number, line in enumerate(lines, 1):
        if "clang-format off" in line:
            formatted = False
        if "clang-format on" in line:
            formatted = True
        if formatted and len(line) > COLUMNS:
            yield number, "columns", f"expected at most {COLUMNS} columns, got {len(line)}"
        if "\t" in line:
            yield number, "columns", "expected spaces, got a tab"
        if line != line.rstrip():
            yield number, "columns", "expected nothing behind the line's end"


def check_file(root, path):
    """(line, rule, what is wrong) of one file, in no order."""
    source = (root / path).read_text(encoding="utf-8")
    lines = source.split("\n")
    yield from check_head(path, lines)
    yield from check_lines(path, lines)
    for number, line in enumerate(lines, 1):
        include = INCLUDE.match(line)
        if include:
            quote, included = include.groups()
            if quote == '"':
                yield from check_arrow(path, number, included)
            else:
                yield from check_library(path, number, included)
            yield from check_pure(path, number, quote, included)
    for number, line in enumerate(without_comments_and_texts(source).split("\n"), 1):
        call = BANNED.search(line)
        if call:
            yield number, "banned", f"{call.group(1)}() is not called here"
        if MONEY.match(path) and not INCLUDE.match(line) and FLOAT.search(line):
            yield number, "money", f"no float on a money path: {FLOAT.search(line).group()}"
    if MONEY.match(path):
        for number, line in enumerate(texts_alone(source).split("\n"), 1):
            if FLOAT_FORMAT.search(line):
                yield number, "money", f"no float on a money path: {FLOAT_FORMAT.search(line).group()}"


def c_files(root):
    for path in sorted(root.rglob("*.[ch]")):
        relative = path.relative_to(root).as_posix()
        if room_of(relative) and not relative.startswith("tests/lint/selftest/") and \
                "node_modules" not in relative:
            yield relative


def check_tree(root):
    """Every violation as (path, line, rule, what is wrong)."""
    return [(path, *found) for path in c_files(root) for found in check_file(root, path)]


def marked(root):
    """What the planted files say is wrong in them: a line that ends in /* lint: RULE */."""
    marks = set()
    for path in c_files(root):
        for number, line in enumerate((root / path).read_text().split("\n"), 1):
            for rule in re.findall(r"lint: (\w+)", line):
                marks.add((path, number, rule))
    return marks


RULES = ["spdx", "head", "arrow", "door", "library", "pure", "banned", "columns", "money"]


def main():
    passed = failed = 0
    violations = check_tree(ROOT)
    for rule in RULES:
        broken = [found for found in violations if found[2] == rule]
        for path, number, _, what in broken:
            print(f"{path}:{number}: {what} [{rule}]")
        passed, failed = (passed, failed + 1) if broken else (passed + 1, failed)
    planted = HERE / "selftest"
    found = {violation[:3] for violation in check_tree(planted)}
    for path, number, rule in sorted(found ^ marked(planted)):
        print(f"selftest: {path}:{number}: [{rule}] is not both planted and found")
    for rule in RULES:
        good = any(violation[2] == rule for violation in found) and found == marked(planted)
        passed, failed = (passed + 1, failed) if good else (passed, failed + 1)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
