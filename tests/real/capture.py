#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes down what a model server answers, byte for byte.

For:       `capture.py PORT MODEL FOLDER [--pooling]`: one file a request with the request, the
           answer's head and its body, before anything of ours stands between; the names of the
           metrics page; when an idle connection is closed. Facts for the gateway's tables.
Used by:   hand, and run.py --capture.
Knows not: the gateway.
"""

import json
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import wire

BODY_BYTES = 12000
SECONDS = 60.0
IDLE_SECONDS = 15.0
ASK = [{"role": "user", "content": "baba didi kuku"}]
SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
TOOL = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {
    "type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]}}}


def chat(**more):
    return dict({"messages": ASK, "max_tokens": 6, "temperature": 0}, **more)


def generating():
    """(name, path, body) of every request to a server that generates; model is added."""
    stream = {"stream": True}
    usage = {"stream_options": {"include_usage": True}}
    running = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    return [
        ("chat", "/v1/chat/completions", chat()),
        ("chat-again", "/v1/chat/completions", chat()),
        ("chat-long-prompt", "/v1/chat/completions",
         chat(messages=[{"role": "user", "content": "baba didi kuku " * 60}])),
        ("chat-long-prompt-again", "/v1/chat/completions",
         chat(messages=[{"role": "user", "content": "baba didi kuku " * 60}])),
        ("chat-n2-logprobs", "/v1/chat/completions",
         chat(n=2, logprobs=True, top_logprobs=2, temperature=1, seed=3, max_tokens=3)),
        ("chat-stream", "/v1/chat/completions", chat(**stream)),
        ("chat-stream-usage", "/v1/chat/completions", chat(**stream, **usage)),
        ("chat-stream-running", "/v1/chat/completions", chat(**stream, **running)),
        ("chat-stream-running-n2", "/v1/chat/completions", chat(n=2, **stream, **running)),
        ("chat-stream-per-token", "/v1/chat/completions",
         chat(timings_per_token=True, **stream, **usage)),
        ("chat-schema", "/v1/chat/completions", chat(max_tokens=40, response_format={
            "type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}})),
        ("chat-tools", "/v1/chat/completions", chat(max_tokens=20, tools=[TOOL])),
        ("chat-tools-required-stream", "/v1/chat/completions",
         chat(max_tokens=60, tools=[TOOL], tool_choice="required", **stream, **usage)),
        ("chat-extra-fields", "/v1/chat/completions",
         chat(cache_salt="abc", user="u", metadata={"a": "b"}, service_tier="auto",
              unknown_field=1)),
        ("completion", "/v1/completions", {"prompt": "baba didi", "max_tokens": 4}),
        ("completion-two-prompts", "/v1/completions",
         {"prompt": ["baba didi", "kuku"], "max_tokens": 3, "n": 2, "temperature": 1}),
        ("completion-stream-usage", "/v1/completions",
         {"prompt": "baba didi", "max_tokens": 4, **stream, **usage}),
        ("completion-stream-running", "/v1/completions",
         {"prompt": "baba didi", "max_tokens": 4, **stream, **running}),
        ("completion-stream-two-prompts", "/v1/completions",
         {"prompt": ["baba didi", "kuku"], "max_tokens": 3, **stream, **running}),
        ("responses", "/v1/responses", {"input": "baba didi", "max_output_tokens": 6}),
        ("responses-stream", "/v1/responses",
         {"input": "baba didi", "max_output_tokens": 6, **stream}),
        ("responses-bad", "/v1/responses", {"input": 7}),
        ("responses-previous", "/v1/responses",
         {"input": "baba", "max_output_tokens": 6, "previous_response_id": "resp_none"}),
        ("messages", "/v1/messages", {"messages": ASK, "max_tokens": 6}),
        ("messages-stream", "/v1/messages", {"messages": ASK, "max_tokens": 6, **stream}),
        ("messages-bad", "/v1/messages", {"messages": ASK}),
        ("messages-unknown-model", "/v1/messages",
         {"messages": ASK, "max_tokens": 6, "model": "nobody"}),
        ("count-tokens", "/v1/messages/count_tokens", {"messages": ASK}),
        ("embeddings-on-generating", "/v1/embeddings", {"input": "baba"}),
        ("tokenize-prompt", "/tokenize", {"prompt": "baba didi", "content": "baba didi"}),
        ("tokenize-messages", "/tokenize", {"messages": ASK}),
        ("detokenize", "/detokenize", {"tokens": [300, 301, 302]}),
        ("error-unknown-model", "/v1/chat/completions", chat(model="nobody")),
        ("error-unknown-model-completion", "/v1/completions",
         {"model": "nobody", "prompt": "x", "max_tokens": 2}),
        ("error-bad-value", "/v1/chat/completions", chat(temperature="hot")),
        ("error-range", "/v1/chat/completions", chat(temperature=-3)),
        ("error-no-messages", "/v1/chat/completions", {"max_tokens": 4}),
        ("error-context", "/v1/chat/completions",
         chat(messages=[{"role": "user", "content": "qxz " * 9000}])),
        ("error-max-tokens", "/v1/chat/completions", chat(max_tokens=999999)),
        ("error-stream-options", "/v1/chat/completions", chat(**usage)),
        ("error-context-stream", "/v1/chat/completions",
         chat(messages=[{"role": "user", "content": "qxz " * 9000}], **stream)),
        ("error-path", "/v1/nothing", {}),
    ]


def pooling():
    """The same for a server of an embedding model."""
    return [
        ("embeddings", "/v1/embeddings", {"input": "baba didi"}),
        ("embeddings-two-base64", "/v1/embeddings",
         {"input": ["baba", "didi kuku"], "encoding_format": "base64"}),
        ("embeddings-dimensions", "/v1/embeddings", {"input": "baba", "dimensions": 8}),
        ("embeddings-bad", "/v1/embeddings", {"input": None}),
        ("embeddings-unknown-model", "/v1/embeddings", {"model": "nobody", "input": "baba"}),
        ("embed-v2", "/v2/embed", {"texts": ["baba didi"], "input_type": "search_query",
                                   "embedding_types": ["float"]}),
        ("pooling", "/pooling", {"input": "baba didi"}),
        ("pooling-token-embed", "/pooling", {"input": "baba didi", "task": "token_embed"}),
        ("classify", "/classify", {"input": "baba didi"}),
        ("score", "/v1/score", {"text_1": "baba", "text_2": ["didi", "kuku"]}),
        ("score-root", "/score", {"queries": "baba", "documents": ["didi", "kuku"]}),
        ("rerank", "/v1/rerank", {"query": "baba", "documents": ["didi", "kuku"]}),
        ("rerank-v2", "/v2/rerank", {"query": "baba", "documents": ["didi", "kuku"], "top_n": 1}),
        ("rerank-bad", "/v1/rerank", {"query": "baba"}),
        ("tokenize-prompt", "/tokenize", {"prompt": "baba didi", "content": "baba didi"}),
        ("chat-on-pooling", "/v1/chat/completions", chat()),
        ("completion-on-pooling", "/v1/completions", {"prompt": "baba", "max_tokens": 2}),
    ]


def write(folder, name, sent, reply):
    """One exchange as text; long bodies cut in the middle."""
    body = bytes(reply.body)
    if len(body) > BODY_BYTES:
        half = BODY_BYTES // 2
        body = body[:half] + f"\n[... {len(body) - BODY_BYTES} bytes ...]\n".encode() + body[-half:]
    head = "".join(f"{key}: {value}\n" for key, value in reply.headers)
    sent = sent if len(sent) <= 800 else sent[:400] + " [...] " + sent[-200:]
    note = "" if reply.complete else f"(not complete: {reply.problem})\n"
    (folder / f"{name}.txt").write_bytes(
        f"> {sent}\n\n{reply.status}\n{head}{note}\n".encode() + body + b"\n")


def ask(port, method, path, body=None, content_type="application/json", key=None):
    connection = wire.H1(port, timeout=SECONDS)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if data is None else {"Content-Type": content_type}
        if key:
            headers["Authorization"] = f"Bearer {key}"
        return connection.request(method, path, headers, data)
    finally:
        connection.close()


def metric_names(page):
    """The families of a metrics page with their types, and one sample of each."""
    lines, wanted = [], None
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            wanted = True
            lines.append(line)
        elif wanted and not line.startswith("#"):
            lines.append("    " + line)
            wanted = False
    return "\n".join(lines)


def idle_close(port):
    """After how many seconds the server ends a connection that answered once; None: it did not."""
    connection = wire.H1(port, timeout=SECONDS)
    try:
        connection.request("GET", "/health")
        began = time.monotonic()
        closed = connection.wait_closed(IDLE_SECONDS * 1000)
        return round(time.monotonic() - began, 2) if closed else None
    finally:
        connection.close()


def capture(port, model, folder, is_pooling, key=None):
    """Every request of the lists, and the pages, into files of the folder."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    before = ask(port, "GET", "/metrics", key=key)
    (folder / "metrics-before.txt").write_bytes(bytes(before.body))
    for name, path, body in pooling() if is_pooling else generating():
        body = dict({"model": model}, **body)
        reply = ask(port, "POST", path, body, key=key)
        write(folder, name, f"POST {path} {json.dumps(body)}", reply)
    for name, method, path in (("models", "GET", "/v1/models"), ("health", "GET", "/health"),
                               ("model-one", "GET", f"/v1/models/{model}"),
                               ("version", "GET", "/version"), ("load", "GET", "/load"),
                               ("props", "GET", "/props"), ("slots", "GET", "/slots"),
                               ("error-method", "GET", "/v1/chat/completions")):
        write(folder, name, f"{method} {path}", ask(port, method, path, key=key))
    for name, body, content_type in (
            ("error-bad-json", b'{"model": ', "application/json"),
            ("error-content-type", b"hello", "text/plain")):
        write(folder, name, f"POST /v1/chat/completions {body!r}",
              ask(port, "POST", "/v1/chat/completions", body, content_type, key))
    after = ask(port, "GET", "/metrics", key=key)
    (folder / "metrics-after.txt").write_bytes(bytes(after.body))
    (folder / "metrics-names.txt").write_text(metric_names(after.text()))
    idle = idle_close(port)
    (folder / "keep-alive.txt").write_text(
        f"an idle connection was closed after {idle} s\n" if idle is not None else
        f"an idle connection was still open after {IDLE_SECONDS} s\n")


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: capture.py PORT MODEL FOLDER [--pooling]")
    capture(int(sys.argv[1]), sys.argv[2], sys.argv[3], "--pooling" in sys.argv)
