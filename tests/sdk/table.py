# SPDX-License-Identifier: Apache-2.0
"""What the clients' scripts said, as the tables of docs/compatibility.md.

For:       results (one dict a check, as checks.py prints them) in, Markdown out; the section
           "## Clients" of the document read and replaced.
Used by:   run.py.
Knows not: processes, clients.
"""

CELLS = (("plain", "h1"), ("stream", "h1"), ("plain", "h2"), ("stream", "h2"))
HEADING = "## Clients"

# What a client cannot do with the gateway, and why: (client, endpoint, form, protocol) to a reason.
KNOWN = {}

INTRODUCTION = """\
Clients as their makers publish them, pinned, against the gateway with simulated model servers
behind it. This section is written by `tests/sdk/run.py --write-doc`; `make test` runs all of it and
fails when a cell is not what stands here. `yes`: every check of that cell passed; `-`: the client
does not offer it, or no server has it in the client's form. h1 is HTTP/1.1 without TLS, h2 is
HTTP/2 by ALPN over TLS; what is different stands in the client's name. Servers are of kind vllm;
*translated*: the server is of the kind named, which lacks the endpoint, so the gateway speaks to
its chat completions instead.
"""


def _unique(values):
    return list(dict.fromkeys(values))


def _row_key(result):
    kind = result["translated"]
    return result["client"], result["endpoint"] + (f" (translated, {kind})" if kind else "")


def cells_of(results):
    """(client, endpoint, form, protocol) to True when each of its checks passed."""
    found = {}
    for result in results:
        key = (*_row_key(result), result["form"], result["protocol"])
        found[key] = found.get(key, True) and result["trouble"] is None
    return found


def unexpected(results):
    """Results that failed and whose cell has no known reason."""
    return [result for result in results if result["trouble"] is not None and
            (*_row_key(result), result["form"], result["protocol"]) not in KNOWN]


def out_of_date(results):
    """Cells that have a reason to be no, and are not."""
    cells = cells_of(results)
    return [key for key in KNOWN if cells.get(key) is True]


def _word(cells, key):
    if key not in cells:
        return "-"
    return "yes" if cells[key] else "no"


def _markdown(head, rows):
    """A table padded so that it reads as text, too."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    def line(row):
        return "| " + " | ".join(text.ljust(width) for text, width in zip(row, widths)) + " |"
    return "\n".join([line(head), "|" + "|".join("-" * (width + 2) for width in widths) + "|",
                      *map(line, rows)])


def matrix(results):
    """client x endpoint x plain/stream x h1/h2."""
    cells = cells_of(results)
    rows = [[*row, *(_word(cells, (*row, form, protocol)) for form, protocol in CELLS)]
            for row in _unique(map(_row_key, results))]
    return _markdown(["client", "endpoint", *(f"{protocol} {form}" for form, protocol in CELLS)],
                     rows)


def features(results):
    """What was checked of each client, over all endpoints and protocols."""
    names = _unique(result["feature"] for result in results)
    state = {}
    for result in results:
        key = result["client"], result["feature"]
        state[key] = state.get(key, True) and result["trouble"] is None
    rows = [[client, *(_word(state, (client, name)) for name in names)]
            for client in _unique(result["client"] for result in results)]
    return _markdown(["client", *names], rows)


def section(results, versions):
    """The whole section, heading included. versions: lines of what is pinned."""
    parts = [HEADING, INTRODUCTION.strip(), matrix(results),
             "What was checked of each client, over its endpoints and protocols; `-`: not checked.",
             features(results)]
    if KNOWN:
        parts.append("Each `no` and its reason:\n\n" + "\n".join(
            f"- {client}, {endpoint}, {protocol} {form}: {why}."
            for (client, endpoint, form, protocol), why in KNOWN.items()))
    parts.append("Versions: " + ", ".join(versions) + ".")
    return "\n\n".join(parts) + "\n"


def _bounds(document):
    """Where the section begins and ends; (end, end) when there is none."""
    begin = document.find(HEADING + "\n")
    if begin < 0:
        return len(document), len(document)
    end = document.find("\n## ", begin)
    return begin, len(document) if end < 0 else end + 1


def read_section(document):
    begin, end = _bounds(document)
    return document[begin:end].rstrip("\n") + "\n"


def write_section(document, new):
    """The document with this section in place of the old one, or at its end."""
    begin, end = _bounds(document)
    rest = document[end:]
    return document[:begin] + new + ("\n" + rest if rest else "")
