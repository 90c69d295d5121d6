# SPDX-License-Identifier: Apache-2.0
"""Says where an outcome differs from what a case expects.

For:       expectation blocks (README.md, "Expect") against what was seen, into a list of texts.
Used by:   run.py, selftest.py.
Knows not: sockets, processes, files; all of it is handed in.
"""

import json
import re

ABSENT = object()
REPLACEMENT = "\ufffd"


def match(expected, actual, where):
    """Differences between a value and what is expected of it: [] when it fits."""
    if isinstance(expected, dict) and any(key.startswith("$") for key in expected):
        return [text for operator, operand in expected.items()
                for text in _operate(operator, operand, actual, where)]
    if isinstance(expected, dict):
        if not isinstance(actual, dict):
            return [f"{where}: {_show(actual)} is no object"]
        return [text for key, value in expected.items()
                for text in match(value, actual.get(key, ABSENT), f"{where}.{key}")]
    if isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            return [f"{where}: {_show(actual)} is no list of {len(expected)}"]
        return [text for index, value in enumerate(expected)
                for text in match(value, actual[index], f"{where}[{index}]")]
    if _same(expected, actual):
        return []
    return [f"{where}: {_show(actual)}, expected {_show(expected)}"]


def _same(left, right):
    """Equality of JSON values: true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


def _show(value):
    if value is ABSENT:
        return "(absent)"
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 300 else text[:300] + "…"


def _type_of(value):
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (dict, "object"), (list, "array"), ((int, float), "number")):
        if isinstance(value, kind):
            return name
    return "null" if value is None else "absent"


def _is_empty(value):
    return value is ABSENT or value is None or (not isinstance(value, (bool, int, float))
                                                and len(value) == 0)


def _contains(value, part):
    return isinstance(value, (str, list, dict)) and part in value


OPERATORS = {
    "$in": lambda operand, value: any(not match(one, value, "") for one in operand),
    "$gte": lambda operand, value: _type_of(value) == "number" and value >= operand,
    "$lte": lambda operand, value: _type_of(value) == "number" and value <= operand,
    "$re": lambda operand, value: isinstance(value, str) and re.search(operand, value) is not None,
    "$contains": lambda operand, value: _contains(value, operand),
    "$lacks": lambda operand, value: not _contains(value, operand),
    "$not": lambda operand, value: bool(match(operand, value, "")),
    "$type": lambda operand, value: _type_of(value) == operand,
    "$present": lambda operand, value: (value is not ABSENT) == operand,
    "$absent": lambda operand, value: (value is ABSENT) == operand,
    "$empty": lambda operand, value: _is_empty(value) == operand,
}


def _operate(operator, operand, actual, where):
    if OPERATORS[operator](operand, actual):
        return []
    return [f"{where}: {_show(actual)} fails {operator} {_show(operand)}"]


class EventStream:
    """A body read as an event stream, as the standard says, with what its events add up to."""

    def __init__(self, body, arrivals):
        """body: the bytes; arrivals: (time, bytes so far) of each read."""
        self.problems = []
        self.events = []             # (offset of the event's end, data text)
        self.rest = b""
        self._split(bytes(body))
        self.content, self.finish_reason, self.tool_calls = {}, {}, {}
        self.usage = ABSENT
        self.empty_choices_events = 0
        self.done = False
        self.error = ABSENT
        self.ids = set()
        self.text_times = []
        for end, data in self.events:
            self._take(end, data, arrivals)

    def _split(self, body):
        try:
            body.decode("utf-8")
        except UnicodeDecodeError as error:
            self.problems.append(f"stream: not UTF-8: {error}")
        start = 3 if body.startswith(b"\xef\xbb\xbf") else 0
        data, event_start = [], start
        for line in re.finditer(rb"([^\r\n]*)(\r\n|\n|\r)", body[start:]):
            text = line.group(1).decode("utf-8", "replace")
            end = start + line.end()
            if text == "":
                if data:
                    self.events.append((end, "\n".join(data)))
                data, event_start = [], end
            elif text.split(":")[0] == "data":
                value = text.partition(":")[2]
                data.append(value[1:] if value.startswith(" ") else value)
        self.rest = body[event_start:]

    def _take(self, end, data, arrivals):
        if self.done:
            self.problems.append(f"stream: data after [DONE]: {data[:100]!r}")
        if data == "[DONE]":
            self.done = True
            return
        if REPLACEMENT in data:
            self.problems.append("stream: U+FFFD in an event")
        try:
            event = json.loads(data)
        except ValueError:
            self.problems.append(f"stream: an event is neither JSON nor [DONE]: {data[:100]!r}")
            return
        if event.get("error"):
            self.error = event["error"]
            return
        if event.get("id"):
            self.ids.add(event["id"])
        if event.get("usage"):
            self.usage = event["usage"]
        if event.get("choices") == []:
            self.empty_choices_events += 1
        for choice in event.get("choices", []):
            self._take_choice(choice, next((when for when, size in arrivals if size >= end), None))

    def _take_choice(self, choice, when):
        index = str(choice.get("index", 0))
        delta = choice.get("delta") or {}
        text = delta.get("content") or choice.get("text") or ""
        self.content[index] = self.content.get(index, "") + text
        if text and when is not None:
            self.text_times.append(when)
        if choice.get("finish_reason"):
            self.finish_reason[index] = choice["finish_reason"]
        for call in delta.get("tool_calls") or []:
            calls = self.tool_calls.setdefault(index, [])
            while len(calls) <= call.get("index", 0):
                calls.append({"function": {"name": "", "arguments": ""}})
            whole = calls[call.get("index", 0)]
            whole.update({key: call[key] for key in ("id", "type") if call.get(key)})
            for key, part in (call.get("function") or {}).items():
                whole["function"][key] = whole["function"].get(key, "") + (part or "")

    def spread_ms(self):
        """Time between the first and the last text."""
        return (self.text_times[-1] - self.text_times[0]) * 1000 if self.text_times else 0


def check_stream(expected, reply, where):
    """The `stream` member of a client block."""
    stream = EventStream(reply.decoded(), reply.arrivals)
    found = [f"{where}: {problem}" for problem in stream.problems]
    if stream.rest.strip():
        found.append(f"{where}: half an event at the end: {stream.rest[:80]!r}")
    for name, value in expected.items():
        at = f"{where}.{name}"
        if name in ("content", "finish_reason", "tool_calls", "empty_choices_events", "done"):
            found += match(value, getattr(stream, name), at)
        elif name == "content_length":
            found += match(value, {key: len(text) for key, text in stream.content.items()}, at)
        elif name == "usage":
            if value == "absent":
                value = {"$absent": True}
            found += match(value, stream.usage, at)
        elif name == "error":
            seen = stream.error
            found += match(value, seen is not ABSENT if isinstance(value, bool) else seen, at)
        elif name == "one_id":
            found += match(value, len(stream.ids) == 1, at)
        elif name == "min_spread_ms":
            found += match({"$gte": value}, stream.spread_ms(), at)
        elif name == "failure_visible":
            found += match(value, stream.error is not ABSENT or not reply.complete, at)
    return found


def check_reply(expected, step, where):
    """One client block against the outcome of one step."""
    if "statuses" in expected:
        found = _check_statuses(expected, step, where)
        if expected.get("statuses_only"):
            return found
        return found + [text for index, reply in enumerate(step.replies)
                        for text in _check_one(expected, reply, step, f"{where}[{index}]")]
    return [text for reply in step.replies for text in _check_one(expected, reply, step, where)]


def _check_statuses(expected, step, where):
    counts = {}
    for reply in step.replies:
        counts[str(reply.status)] = counts.get(str(reply.status), 0) + 1
    found = match(expected["statuses"], counts, f"{where}.statuses")
    found += [f"{where}.statuses: {status} came up {count} times"
              for status, count in counts.items() if status not in expected["statuses"]]
    for reply in step.replies:
        if "rejected" in expected and reply.status != 200:
            found += _check_one(expected["rejected"], reply, step, f"{where}.rejected")
    return found


def _check_one(expected, reply, step, where):
    found = []
    for name, value in expected.items():
        check = REPLY_CHECKS.get(name)
        if check is not None:
            found += check(value, reply, step, f"{where}.{name}")
    return found


def _decoded_json(reply):
    try:
        return reply.json()
    except ValueError:
        return ABSENT


def _check_headers(expected, seen, where):
    return [text for name, value in expected.items()
            for text in match(value, seen.get(name.lower(), ABSENT), f"{where}.{name}")]


def _check_error_shape(expected, reply, step, where):
    shape = {"error": {"message": {"$type": "string"}, "type": {"$type": "string"}}}
    found = match(shape, _decoded_json(reply), where)
    return found if expected else ([] if found else [f"{where}: it has the error shape"])


def _check_texts(wanted, present, text, where):
    return [f"{where}: {part!r} is {'missing' if present else 'there'}"
            for part in wanted if (part in text) != present]


def _check_h2_reset(expected, reply, step, where):
    stream, codes = expected["stream"], expected["codes"]
    raw = step.raw
    if raw.resets.get(stream) in codes or any(code in codes for code, _ in raw.goaways):
        return []
    if raw.statuses.get(stream) in expected.get("or_status", []):
        return []
    return [f"{where}: resets {raw.resets}, GOAWAY {raw.goaways}, statuses {raw.statuses}"]


REPLY_CHECKS = {
    "status": lambda value, reply, step, where: match(value, reply.status, where),
    "headers": lambda value, reply, step, where: _check_headers(value, reply.header_map(), where),
    "json": lambda value, reply, step, where: match(value, _decoded_json(reply), where),
    "error_shape": _check_error_shape,
    "body_contains": lambda value, reply, step, where:
        _check_texts(value, True, reply.text(), where),
    "body_lacks": lambda value, reply, step, where:
        _check_texts(value, False, reply.text(), where),
    "complete": lambda value, reply, step, where: match(value, reply.complete, where),
    "interim": lambda value, reply, step, where: match(value, reply.interim, where),
    "responses": lambda value, reply, step, where: match(value, step.responses, where),
    "closed": lambda value, reply, step, where: match(value, step.closed, where),
    "waited_for": lambda value, reply, step, where: match(value, step.waited_for, where),
    "max_ms": lambda value, reply, step, where: match({"$lte": value}, reply.took_ms(), where),
    "h2_reset": _check_h2_reset,
    "stream": lambda value, reply, step, where: check_stream(value, reply, where),
}


def exact_json(data):
    """JSON with numbers kept as they are spelt, so that 1.0 is not 1."""
    return json.loads(data, parse_int=lambda text: ("number", text),
                      parse_float=lambda text: ("number", text))


def _check_same_members(names, request, bodies, where):
    """Some step of the client sent these very values."""
    try:
        seen = exact_json(request.body)
    except ValueError:
        return [f"{where}: the body upstream is not JSON"]
    for body in bodies:
        try:
            sent = exact_json(body)
        except ValueError:
            continue
        if isinstance(sent, dict) and all(
                name in sent and name in seen and sent[name] == seen[name] for name in names):
            return []
    return [f"{where}: {names} differ from what the client sent: {request.body[:300]!r}"]


def _check_aborted(within_ms, request, steps, where):
    left = [reply.left_at for step in steps for reply in step.replies if reply.left_at]
    if request.aborted_at is None or not left:
        return [f"{where}: the request upstream was not closed"]
    return match({"$lte": within_ms}, (request.aborted_at - min(left)) * 1000, where)


def _check_request(expected, request, steps, where):
    found = []
    for name, value in expected.items():
        at = f"{where}.{name}"
        if name == "headers":
            found += _check_headers(value, request.headers, at)
        elif name == "json":
            try:
                found += match(value, json.loads(request.body), at)
            except ValueError:
                found.append(f"{at}: no JSON")
        elif name in ("body_contains", "body_lacks"):
            text = request.body.decode("utf-8", "replace")
            found += _check_texts(value, name == "body_contains", text, at)
        elif name == "same_members":
            found += _check_same_members(value, request, [step.body for step in steps], at)
        elif name == "aborted_within_ms":
            found += _check_aborted(value, request, steps, at)
    return found


def check_upstream(expected, requests, most_at_once, steps, where):
    """One of upstream.a and upstream.b."""
    found = []
    for name, value in expected.items():
        at = f"{where}.{name}"
        if name == "requests":
            found += match(value, len(requests), at)
        elif name == "requests_equal_statuses":
            replies = [reply for step in steps for reply in step.replies]
            found += match(sum(reply.status == value for reply in replies), len(requests), at)
        elif name == "max_concurrent":
            found += match(value if isinstance(value, dict) else {"$lte": value}, most_at_once, at)
        elif name == "request":
            if len(requests) < len(value):
                found.append(f"{at}: {len(requests)} requests came, {len(value)} are described")
            for index, (block, request) in enumerate(zip(value, requests)):
                found += _check_request(block, request, steps, f"{at}[{index}]")
        elif name == "each":
            for index, request in enumerate(requests):
                found += _check_request(value, request, steps, f"{at}[{index}]")
    return found


SOURCES = {"reported": "upstream", "running": "upstream", "estimated": "estimate", "cached": "cache"}


def check_meter(expected, rows, where):
    """The journal rows of a case."""
    billable = [row for row in rows if row.get("billable")]

    def total(*fields):
        return sum(row.get(field, 0) for row in billable for field in fields)

    sources = sorted({SOURCES.get(row.get("source"), row.get("source")) for row in billable}, key=str)
    seen = {
        "records": len(rows),
        "billable": len(billable),
        "prompt_tokens": total("input", "cached_input", "cache_write"),
        "completion_tokens": total("output", "reasoning"),
        "cached_tokens": total("cached_input"),
        "source": sources[0] if len(sources) == 1 else sources,
        "tenants": len({row.get("tenant") for row in billable}),
    }
    return match(expected, seen, where)


def check_logs(expected, log_text, where):
    return (_check_texts(expected.get("absent", []), False, log_text, f"{where}.absent")
            + _check_texts(expected.get("present", []), True, log_text, f"{where}.present"))


def check_block(expected, outcome, where="expect"):
    """A whole expect block, any_of included. outcome: see run.py, Outcome."""
    found = []
    for name, value in expected.items():
        at = f"{where}.{name}"
        if name == "client":
            blocks = value if isinstance(value, list) else [value] * len(outcome.steps)
            if len(blocks) != len(outcome.steps):
                found.append(f"{at}: {len(blocks)} blocks for {len(outcome.steps)} steps")
            for index, (block, step) in enumerate(zip(blocks, outcome.steps)):
                if block is not None:
                    found += check_reply(block, step, f"{at}[{index}]")
        elif name == "upstream":
            for server, block in value.items():
                found += check_upstream(block, outcome.requests[server],
                                        outcome.most_at_once[server], outcome.steps,
                                        f"{at}.{server}")
        elif name == "meter":
            found += check_meter(value, outcome.rows, at)
        elif name == "logs":
            found += check_logs(value, outcome.log_text, at)
        elif name == "any_of":
            tried = [check_block(block, outcome, f"{at}[{index}]")
                     for index, block in enumerate(value)]
            if all(tried):
                found += [text for differences in tried for text in differences]
    return found
