# SPDX-License-Identifier: Apache-2.0
"""Which members a case may have.

For:       an unknown member is a mistake in the case or something the runner would not honour;
           either way the run must fail before anything is played.
Used by:   run.py, selftest.py.
Knows not: what the members do.
"""

from check import OPERATORS

CASE = {"id", "title", "why", "source", "kind", "client", "upstream", "expect", "slow",
        "observe_ms", "avoid_minute_edge_ms"}
KINDS = {"unary", "stream", "raw-h1", "h2", "meter", "cache", "limit", "config", "fault"}
TRANSPORTS = {"h1", "raw-h1", "h2", "h2-raw"}
BODIES = {"body", "body_text", "body_b64", "body_parts"}
STEP = BODIES | {"transport", "method", "path", "key", "headers", "chunk_body", "raw", "frames",
                 "abort", "read", "conn", "h2_settings", "times", "parallel",
                 "start_without_waiting", "wait_before_ms", "timeout_ms", "idle_ms"}
ABORT = {"after_events", "after_ms"}
READ = {"pause_after_bytes", "resume_after_ms"}
H2_SETTINGS = {"initialWindowSize"}
PIECE = {"text", "b64", "hex", "repeat", "count", "parts"}
FRAME = {"stream", "headers", "end_stream", "data", "rst", "loop"}
LOOP = {"count", "from_stream", "frames"}
SERVER = {"replies", "repeat_last", "get"}
REPLY = {"status", "headers", "json", "writes", "framing", "content_length", "gzip", "interim",
         "wire_split", "end", "terminate", "delay_ms", "rst_after_ms", "hold_ms",
         "poison_connection"}
FRAMINGS = {"length", "chunked", "close", "raw"}
ENDS = {"keep", "fin", "rst", "hold"}
EXPECT = {"client", "upstream", "meter", "logs", "any_of"}
CLIENT = {"status", "headers", "json", "error_shape", "body_contains", "body_lacks", "complete",
          "interim", "responses", "closed", "max_ms", "statuses", "statuses_only", "rejected",
          "h2_reset", "stream", "waited_for"}
STREAM = {"content", "content_length", "finish_reason", "tool_calls", "usage",
          "empty_choices_events", "done", "error", "one_id", "min_spread_ms", "failure_visible"}
H2_RESET = {"stream", "codes", "or_status"}
UPSTREAM = {"requests", "requests_equal_statuses", "max_concurrent", "request", "each"}
REQUEST = {"headers", "json", "body_contains", "body_lacks", "same_members", "aborted_within_ms"}
METER = {"records", "billable", "prompt_tokens", "completion_tokens", "cached_tokens", "source",
         "tenants"}
LOGS = {"absent", "present"}


class Unknown(Exception):
    """A case says something that this runner does not know."""


def _members(value, known, where):
    if not isinstance(value, dict):
        raise Unknown(f"{where}: an object is needed")
    for name in value:
        if name not in known:
            raise Unknown(f"{where}: unknown member {name!r}")


def _one_of(value, known, where):
    if value not in known:
        raise Unknown(f"{where}: {value!r} is none of {sorted(known)}")


def _listed(value):
    return value if isinstance(value, list) else [value]


def _operators(value, where):
    """Every $name inside an expected value must be known."""
    if isinstance(value, dict):
        for name, inner in value.items():
            if name.startswith("$"):
                _one_of(name, OPERATORS, where)
                if len([key for key in value if not key.startswith("$")]):
                    raise Unknown(f"{where}: operators and members in one object")
            _operators(inner, f"{where}.{name}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _operators(inner, f"{where}[{index}]")


def _piece(value, where, more=frozenset()):
    if isinstance(value, str):
        return
    _members(value, PIECE | more, where)
    for index, inner in enumerate(value.get("parts", [])):
        _piece(inner, f"{where}.parts[{index}]")


def _frames(many, where):
    for index, frame in enumerate(many):
        at = f"{where}[{index}]"
        _members(frame, FRAME, at)
        if "loop" in frame:
            _members(frame["loop"], LOOP, f"{at}.loop")
            _frames(frame["loop"]["frames"], f"{at}.loop.frames")


def _step(step, where):
    _members(step, STEP, where)
    _one_of(step.get("transport", "h1"), TRANSPORTS, f"{where}.transport")
    if len(BODIES & step.keys()) > 1:
        raise Unknown(f"{where}: more than one body")
    _members(step.get("abort", {}), ABORT, f"{where}.abort")
    _members(step.get("read", {}), READ, f"{where}.read")
    _members(step.get("h2_settings", {}), H2_SETTINGS, f"{where}.h2_settings")
    for index, piece in enumerate(step.get("body_parts", [])):
        _piece(piece, f"{where}.body_parts[{index}]")
    for index, write in enumerate(step.get("raw", [])):
        _piece(write, f"{where}.raw[{index}]", {"wait_for", "max_ms", "wait_ms"})
    _frames(step.get("frames", []), f"{where}.frames")


def _reply(reply, where):
    _members(reply, REPLY, where)
    if "framing" in reply:
        _one_of(reply["framing"], FRAMINGS, f"{where}.framing")
    _one_of(reply.get("end", "keep"), ENDS, f"{where}.end")
    for index, write in enumerate(reply.get("writes", [])):
        _piece(write, f"{where}.writes[{index}]", {"delay_ms"})


def _server(server, where):
    _members(server, SERVER, where)
    for index, reply in enumerate(server.get("replies", [])):
        _reply(reply, f"{where}.replies[{index}]")
    for path, reply in server.get("get", {}).items():
        _reply(reply, f"{where}.get.{path}")


def _client_block(block, where):
    if block is None:
        return
    _members(block, CLIENT, where)
    _members(block.get("stream", {}), STREAM, f"{where}.stream")
    _members(block.get("h2_reset", {}), H2_RESET, f"{where}.h2_reset")
    if "rejected" in block:
        _client_block(block["rejected"], f"{where}.rejected")


def _expect(block, where):
    _members(block, EXPECT, where)
    for index, inner in enumerate(_listed(block.get("client", {}))):
        _client_block(inner, f"{where}.client[{index}]")
    _members(block.get("upstream", {}), {"a", "b"}, f"{where}.upstream")
    for name, server in block.get("upstream", {}).items():
        at = f"{where}.upstream.{name}"
        _members(server, UPSTREAM, at)
        for index, request in enumerate(server.get("request", []) + [server.get("each", {})]):
            _members(request, REQUEST, f"{at}.request[{index}]")
    _members(block.get("meter", {}), METER, f"{where}.meter")
    _members(block.get("logs", {}), LOGS, f"{where}.logs")
    for index, inner in enumerate(block.get("any_of", [])):
        _expect(inner, f"{where}.any_of[{index}]")


def check_case(case):
    """Raises Unknown at the first member, kind, framing or operator that is not in README.md."""
    _members(case, CASE, "case")
    _one_of(case.get("kind", "unary"), KINDS, "kind")
    for index, step in enumerate(_listed(case["client"])):
        _step(step, f"client[{index}]")
    upstream = case.get("upstream", {})
    _members(upstream, SERVER | {"a", "b"}, "upstream")
    _server({name: upstream[name] for name in SERVER & upstream.keys()}, "upstream")
    for name in ("a", "b"):
        _server(upstream.get(name, {}), f"upstream.{name}")
    _expect(case["expect"], "expect")
    _operators(case["expect"], "expect")
