# SPDX-License-Identifier: Apache-2.0
"""What the gateway must reach: one row per promise.

For:       ROWS, the table; judge() turns the rounds of a run into values, ratio and verdict.
Called by: run.py, report.py.
Knows not: how a figure was measured.

`less` names a candidate whose figure comes off ours first: what is left is what makes the two differ.
A ratio is taken within a round, between the gateway and its reference there; the median of the
rounds counts. `best` is the plain proxy whose median in this run is best. Without a reference the
value itself is compared.
"""

import collections
import statistics

from candidates import PLAIN_PROXIES

OURS = "tollgate"
LOAD_MARGIN = 1.05  # by so much the bare road must be faster than anybody on it
SATURATED = 0.9     # cores; a candidate below has been waiting for the load
OTHERS_MOST = 0.2   # cores
RESUMED_LEAST = 0.95  # of the handshakes that could be; below, sessions are not given anew
LOWER, HIGHER = "lower", "higher"

Row = collections.namedtuple("Row", "words scenario figure unit reference must aim better added less",
                             defaults=(LOWER, False, None))
OWN_BOUNDS = "tls-"  # what begins so is judged by bounds that are our own, see the end of ROWS

ROWS = {
    "saturation-h1": Row("h1 saturation, CPU per request", "saturation-h1", "cpu_us_per_request",
                         "us", "haproxy", 1.10, 0.95),
    "saturation-h2": Row("h2 saturation, CPU per request", "saturation-h2", "cpu_us_per_request",
                         "us", "haproxy", 1.10, 0.90),
    "sequential": Row("one after another, added p50", "sequential", "p50_us",
                      "us", "haproxy", 1.05, 1.00, LOWER, True),
    "rate": Row("200 requests/s, added p99", "rate", "p99_us",
                "us", "nginx", 1.25, 1.00, LOWER, True),
    "sse-h1": Row("SSE 10 ms, h1, CPU per chunk", "sse-h1", "cpu_us_per_chunk",
                  "us", "best", 1.05, 0.90),
    "sse-h2": Row("SSE 10 ms, h2, CPU per chunk", "sse-h2", "cpu_us_per_chunk",
                  "us", "best", 1.05, 0.90),
    "delivery-h1": Row("SSE 10 ms, h1, delivery p99", "sse-h1", "delivery_p99_us",
                       "us", "best", 1.10, 1.00),
    "delivery-h2": Row("SSE 10 ms, h2, delivery p99", "sse-h2", "delivery_p99_us",
                       "us", "best", 1.10, 1.00),
    "ttft-h1": Row("SSE 10 ms, h1, TTFT p99", "sse-h1", "ttft_p99_us",
                   "us", "best", 1.10, 1.00),
    "ttft-h2": Row("SSE 10 ms, h2, TTFT p99", "sse-h2", "ttft_p99_us",
                   "us", "best", 1.10, 1.00),
    "sse-flood": Row("SSE without delay, chunks per s", "sse-flood", "chunks_per_s",
                     "/s", "best", 0.95, 1.00, HIGHER),
    "prompt-h1": Row("256 KiB prompt, h1, CPU per request", "prompt-h1", "cpu_us_per_request",
                     "us", "nginx", 1.35, 1.15),
    "prompt-h2": Row("256 KiB prompt, h2, CPU per request", "prompt-h2", "cpu_us_per_request",
                     "us", "nginx", 1.35, 1.15),
    "rss-fresh": Row("RSS fresh", "memory", "rss_fresh_mib", "MiB", None, 12, 8),
    "rss-connection": Row("RSS per idle connection", "memory", "rss_per_connection_kib",
                          "KiB", None, 1.5, 0.8),
    "rss-stream": Row("RSS per open stream", "memory-streams", "rss_per_stream_kib",
                      "KiB", None, 6, 4),
    "metering": Row("metering, CPU per request", "saturation-h1", "cpu_us_per_request", "us",
                    "haproxy", 0.06, 0.04, LOWER, False, "tollgate-unmetered"),
    "vanish": Row("clients gone, replica free after", "vanish", "freed_ms", "ms", None, 100, 50),
    "calls-h1": Row("system calls per request, h1", "calls-h1", "calls", "", None, 4.5, 4.1),
    "calls-h2": Row("system calls per request, h2", "calls-h2", "calls", "", None, 3.5, 2.5),
    "calls-chunk": Row("system calls per chunk", "calls-chunk", "calls", "", None, 3.5, 3.1),
    "portkey-rps": Row("against Portkey, requests per s", "saturation-h1", "rps",
                       "/s", "portkey", 65, 80, HIGHER),
    "portkey-chunk": Row("against Portkey, CPU per chunk", "sse-h1", "cpu_us_per_chunk",
                         "us", "portkey", 1 / 4.5, 1 / 6),
    # Nobody has promised anything for TLS: the bounds are the ratios of the plain rows. Where those
    # are absolute they are divided by what the best plain proxy needed when they were written: 4.6
    # KiB a stream, 4.4 and 3.4 system calls a request, 3.1 a chunk. Idle connections are taken as
    # streams are, for beside a session of TLS what is ours does not weigh; handshakes as requests.
    "tls-saturation-h1": Row("TLS h1 saturation, CPU/request", "tls-saturation-h1",
                             "cpu_us_per_request", "us", "haproxy", 1.10, 0.95),
    "tls-saturation-h2": Row("TLS h2 saturation, CPU/request", "tls-saturation-h2",
                             "cpu_us_per_request", "us", "haproxy", 1.10, 0.90),
    "tls-sse-h1": Row("TLS SSE 10 ms, h1, CPU/chunk", "tls-sse-h1", "cpu_us_per_chunk",
                      "us", "best", 1.05, 0.90),
    "tls-sse-h2": Row("TLS SSE 10 ms, h2, CPU/chunk", "tls-sse-h2", "cpu_us_per_chunk",
                      "us", "best", 1.05, 0.90),
    "tls-delivery-h1": Row("TLS SSE 10 ms, h1, delivery p99", "tls-sse-h1", "delivery_p99_us",
                           "us", "best", 1.10, 1.00),
    "tls-delivery-h2": Row("TLS SSE 10 ms, h2, delivery p99", "tls-sse-h2", "delivery_p99_us",
                           "us", "best", 1.10, 1.00),
    "tls-ttft-h1": Row("TLS SSE 10 ms, h1, TTFT p99", "tls-sse-h1", "ttft_p99_us",
                       "us", "best", 1.10, 1.00),
    "tls-ttft-h2": Row("TLS SSE 10 ms, h2, TTFT p99", "tls-sse-h2", "ttft_p99_us",
                       "us", "best", 1.10, 1.00),
    "tls-sse-flood": Row("TLS SSE without delay, chunks/s", "tls-sse-flood", "chunks_per_s",
                         "/s", "best", 0.95, 1.00, HIGHER),
    "tls-prompt-h1": Row("TLS 256 KiB prompt, h1, CPU/req.", "tls-prompt-h1",
                         "cpu_us_per_request", "us", "nginx", 1.35, 1.15),
    "tls-prompt-h2": Row("TLS 256 KiB prompt, h2, CPU/req.", "tls-prompt-h2",
                         "cpu_us_per_request", "us", "nginx", 1.35, 1.15),
    "tls-full": Row("TLS new, full handshake, CPU", "tls-full", "cpu_us_per_connection",
                    "us", "haproxy", 1.10, 0.95),
    "tls-resumed": Row("TLS new, resumed, CPU", "tls-resumed", "cpu_us_per_connection",
                       "us", "haproxy", 1.10, 0.95),
    "tls-rss-connection": Row("TLS RSS per idle connection", "tls-memory",
                              "rss_per_connection_kib", "KiB", "best", 1.30, 0.87),
    "tls-rss-stream": Row("TLS RSS per open stream", "tls-memory-streams", "rss_per_stream_kib",
                          "KiB", "best", 1.30, 0.87),
    "tls-calls-h1": Row("TLS system calls/request, h1", "tls-calls-h1", "calls", "",
                        "best", 1.02, 0.93),
    "tls-calls-h2": Row("TLS system calls/request, h2", "tls-calls-h2", "calls", "",
                        "best", 1.03, 0.74),
    "tls-calls-chunk": Row("TLS system calls/chunk", "tls-calls-chunk", "calls", "",
                           "best", 1.13, 1.00),
}
LEFT_OUT = {"result-cache-hit": "a hit's CPU per request comes with the result cache"}


def judge(name, rounds):
    """The row as a dict: values (medians), rounds, ratio, verdict, marks, and why it is missing.

    rounds: {candidate: {figure: value}} per round of the row's scenario; a candidate that failed
    there has {"failed": why}."""
    row = ROWS[name]
    marks = []
    series = {}
    for candidate in sorted({candidate for results in rounds for candidate in results}):
        results = [results.get(candidate, {}) for results in rounds]
        wrong = [result["wrong"] for result in results if "wrong" in result]
        if wrong:
            marks.append(f"{candidate} is disqualified: {wrong[0]}")
        elif any(row.figure in result for result in results):
            series[candidate] = [result.get(row.figure) for result in results]
    if row.added:
        series = _without_direct(series)
    if row.less:
        series = _less(series, row.less)
    values = {candidate: statistics.median(known) for candidate, known in
              ((candidate, [value for value in numbers if value is not None])
               for candidate, numbers in series.items()) if known}
    reference = _reference(row, values)
    ratio = None
    if reference in values and OURS in values:
        ratio = _ratio(series[OURS], series[reference])
    measure = ratio if row.reference else values.get(OURS)
    return {"name": name, "words": row.words, "unit": row.unit, "better": row.better,
            "reference": reference, "must": row.must, "aim": row.aim,
            "own_bounds": name.startswith(OWN_BOUNDS), "values": values,
            "rounds": series, "ratio": ratio, "measure": measure,
            "verdict": _verdict(row, measure),
            "missing": None if measure is not None else _why_missing(row, rounds, values),
            "marks": (marks + _resumption_marks(rounds) + _load_marks(row, rounds)
                      + _other_marks(rounds))}


def _without_direct(series):
    direct = series.get("direct")
    if direct is None:
        return {}
    return {candidate: [None if value is None or bare is None else value - bare
                        for value, bare in zip(numbers, direct)]
            for candidate, numbers in series.items() if candidate != "direct"}


def _less(series, less):
    """Ours without what another needed in the same round, which must be there."""
    if OURS not in series or less not in series:
        return {name: numbers for name, numbers in series.items() if name not in (OURS, less)}
    ours = [None if value is None or other is None else value - other
            for value, other in zip(series[OURS], series[less])]
    return {**{name: numbers for name, numbers in series.items() if name != less}, OURS: ours}


def _reference(row, values):
    if row.reference != "best":
        return row.reference
    plain = [candidate for candidate in PLAIN_PROXIES if candidate in values]
    if not plain:
        return None
    return (max if row.better == HIGHER else min)(plain, key=values.get)


def _ratio(ours, theirs):
    """None when no round has both, or a difference that is no more than noise."""
    ratios = [our / their for our, their in zip(ours, theirs)
              if our is not None and their is not None and their > 0]
    return statistics.median(ratios) if ratios else None


def _verdict(row, measure):
    if measure is None:
        return "missing"
    for limit, word in ((row.aim, "aim"), (row.must, "must")):
        if measure >= limit if row.better == HIGHER else measure <= limit:
            return word
    return "MISSED"


def _why_missing(row, rounds, values):
    wanted = [OURS]
    if row.reference == "best":
        wanted += [] if any(name in values for name in PLAIN_PROXIES) else PLAIN_PROXIES
    elif row.reference:
        wanted.append(row.reference)
    if row.added:
        wanted.append("direct")
    if row.less:
        wanted.append(row.less)
    reasons = [f"{candidate}: {results[candidate]['failed']}" for candidate in wanted
               for results in rounds[:1] if "failed" in results.get(candidate, {})]
    absent = [candidate for candidate in wanted
              if candidate not in values and candidate != "direct"]
    return "; ".join(reasons) or (f"no figure of {', '.join(absent)}" if absent else
                                  "the reference adds nothing that can be measured")


def _resumption_marks(rounds):
    """Who made full handshakes where sessions could have been resumed?"""
    shares = collections.defaultdict(list)
    for results in rounds:
        for candidate, result in results.items():
            if "resumed_share" in result:
                shares[candidate].append(result["resumed_share"])
    return [f"{candidate} resumed only {statistics.median(known):.2f} of the sessions"
            for candidate, known in shares.items() if statistics.median(known) < RESUMED_LEAST]


def _load_marks(row, rounds):
    """Would the load client and the backend have been fast enough for anybody?"""
    speed = {"sse-flood": "chunks_per_s", "saturation-h1": "rps", "saturation-h2": "rps",
             "tls-sse-flood": "chunks_per_s", "tls-saturation-h1": "rps",
             "tls-saturation-h2": "rps", "tls-full": "connections_per_s",
             "tls-resumed": "connections_per_s"}.get(row.scenario)
    if speed is None:
        return []
    speeds, shares = collections.defaultdict(list), collections.defaultdict(list)
    for results in rounds:
        for candidate, result in results.items():
            if speed in result:
                speeds[candidate].append(result[speed])
                shares[candidate].append(result.get("core_share", 1.0))
    direct = speeds.pop("direct", None)
    if not speeds:
        return []
    fastest = max(speeds, key=lambda candidate: statistics.median(speeds[candidate]))
    if direct is not None:
        margin = statistics.median(direct) / statistics.median(speeds[fastest])
        if margin < LOAD_MARGIN:
            return [f"limited by the load: direct is {margin:.2f} x {fastest}"]
    elif statistics.median(shares[fastest]) < SATURATED:
        return [f"limited by the load: {fastest} used "
                f"{statistics.median(shares[fastest]):.2f} of its core"]
    return []


def _other_marks(rounds):
    disturbed = sum(any(result.get("disturbed") for result in results.values())
                    for results in rounds)
    return [f"others were busy in {disturbed} of {len(rounds)} rounds"] if disturbed else []
