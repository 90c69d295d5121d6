#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/fake/test_fake.py: the promises of the simulated model server, one by one.

usage: test_fake.py [PATH OF THE PROGRAM]        (default build/fake)
Every check talks to the real program over loopback; the last line says how many passed and failed.
"""
import gzip
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
import traceback

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/fake"
PROMISES = []


def promise(check):
    PROMISES.append(check)
    return check


class Fake:
    def __init__(self, *options):
        self.process = subprocess.Popen(
            [PROGRAM, "--port", "0", *options], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        self.host = options[options.index("--host") + 1] if "--host" in options else "127.0.0.1"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(10) == 0

    def connect(self):
        connection = socket.create_connection((self.host, self.port), 10)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def counters(self):
        return json.loads(call(self, "GET", "/fake/counters")[2])


def request_bytes(method, path, body=b"", headers=()):
    lines = [f"{method} {path} HTTP/1.1", "Host: x"]
    lines += [f"{name}: {value}" for name, value in headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
        if not any(name.lower() == "content-type" for name, _ in headers):
            lines.append("Content-Type: application/json")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def read_answer(file):
    """Reads one answer: status, headers, body, its chunks, whether it ended as it should."""
    line = file.readline()
    if not line.startswith(b"HTTP/1.1 "):
        return 0, {}, line + file.read(), [], False
    status = int(line.split()[1])
    headers = {}
    while (line := file.readline().rstrip(b"\r\n")):
        name, _, value = line.decode().partition(": ")
        headers[name] = value
    if status < 200:
        return read_answer(file)
    if headers.get("transfer-encoding") != "chunked":
        if "content-length" not in headers:
            return status, headers, file.read(), [], True
        body = file.read(int(headers["content-length"]))
        return status, headers, body, [], len(body) == int(headers["content-length"])
    chunks = []
    try:
        while (size := int(file.readline(), 16)):
            chunks.append(file.read(size))
            file.readline()
        file.readline()
        return status, headers, b"".join(chunks), chunks, True
    except (ValueError, ConnectionResetError):
        return status, headers, b"".join(chunks), chunks, False


def exchange(connection, method, path, body=b"", headers=()):
    connection.sendall(request_bytes(method, path, body, headers))
    with connection.makefile("rb") as file:
        return read_answer(file)


def call(fake, method, path, body=b"", headers=()):
    with fake.connect() as connection:
        return exchange(connection, method, path, body, headers)


def chat(text="hello", **members):
    return json.dumps({"messages": [{"role": "user", "content": text}], **members}).encode()


def post_chat(fake, text="hello", headers=(), **members):
    return call(fake, "POST", "/v1/chat/completions", chat(text, **members), headers)


def events_of(body):
    assert body.endswith(b"\n\n")
    texts = body.decode().split("\n\n")[:-1]
    assert all(text.startswith("data: ") for text in texts)
    return [text[6:] if text == "data: [DONE]" else json.loads(text[6:]) for text in texts]


def post(fake, path, headers=(), **members):
    """POSTs a JSON body; status and the parsed answer."""
    status, _, body, _, _ = call(fake, "POST", path, json.dumps(members).encode(), headers)
    return status, json.loads(body) if body else None


def named_events(body):
    """Events with a name: (name, data) each; the name is also in the data."""
    events = []
    for block in body.decode().split("\n\n")[:-1]:
        name, data = block.split("\n")
        assert name.startswith("event: ") and data.startswith("data: ")
        events.append((name[7:], json.loads(data[6:])))
        assert events[-1][1]["type"] == events[-1][0]
    return events


def stream(fake, path, **members):
    body = json.dumps({**members, "stream": True}).encode()
    status, _, answer, _, whole = call(fake, "POST", path, body)
    assert status == 200 and whole
    return answer


def metrics_of(fake):
    """name{labels} to value, as the page has them."""
    page = call(fake, "GET", "/metrics")[2].decode()
    lines = [line for line in page.splitlines() if not line.startswith("#")]
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}


def form(fields, file, boundary="edge"):
    """A multipart body with its media type."""
    parts = [f'--{boundary}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
             .encode() for name, value in fields.items()]
    parts.append(f'--{boundary}\r\ncontent-disposition: form-data; name="file"; filename="a.wav"'
                 f"\r\ncontent-type: audio/wav\r\n\r\n".encode() + file + b"\r\n")
    parts.append(f"--{boundary}--\r\n".encode())
    return b"".join(parts), [("content-type", f"multipart/form-data; boundary={boundary}")]


def wait_for(condition, seconds=5):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.005)
    return False


@promise
def a_plain_chat_is_answered_with_the_usage_of_its_tokens():
    with Fake("--models", "m1,m2") as fake:
        status, headers, body, _, _ = post_chat(fake, "123456789", model="m2", max_tokens=5)
        answer = json.loads(body)
        assert status == 200 and headers["server"] == "uvicorn"
        assert headers["content-type"] == "application/json"
        assert answer["model"] == "m2" and answer["object"] == "chat.completion"
        assert answer["choices"][0]["message"]["content"] == "w0 w1 w2 w3 w4 "
        assert answer["choices"][0]["finish_reason"] == "length"
        assert answer["usage"] == {
            "prompt_tokens": 3, "total_tokens": 8, "completion_tokens": 5,
            "prompt_tokens_details": None}
        counters = fake.counters()
        assert counters["generated_tokens"] == 5 and counters["prompt_tokens"] == 3
        assert counters["complete"] == 1


@promise
def a_stream_is_one_event_a_chunk_with_role_tokens_finish_usage_and_done():
    with Fake() as fake:
        status, headers, body, chunks, whole = post_chat(
            fake, "[[fake tokens=3]]", stream=True, stream_options={"include_usage": True},
            headers=[("x-request-id", "r-1")])
        events = events_of(body)
        assert status == 200 and whole
        assert headers["content-type"] == "text/event-stream; charset=utf-8"
        assert len(chunks) == len(events) == 7
        assert all(event["id"] == "chatcmpl-r-1" for event in events[:-1])
        assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        contents = [event["choices"][0]["delta"]["content"] for event in events[1:4]]
        assert contents == ["w0 ", "w1 ", "w2 "]
        assert events[4]["choices"][0]["finish_reason"] == "stop"
        assert events[5]["choices"] == [] and events[5]["usage"]["completion_tokens"] == 3
        assert events[6] == "[DONE]" and not any("usage" in event for event in events[:5])


@promise
def running_usage_counts_each_choice_by_itself():
    with Fake() as fake:
        _, _, body, _, _ = post_chat(
            fake, "[[fake tokens=4 per_event=2]]", stream=True, n=2,
            stream_options={"include_usage": True, "continuous_usage_stats": True})
        events = events_of(body)
        for index in (0, 1):
            mine = [event for event in events[:-2] if event["choices"][0]["index"] == index]
            assert [event["usage"]["completion_tokens"] for event in mine] == [0, 2, 4, 4]
        assert events[-2]["usage"]["completion_tokens"] == 8
        assert fake.counters()["generated_tokens"] == 8


@promise
def a_completion_has_sixteen_tokens_a_prompt_and_choice():
    with Fake() as fake:
        body = json.dumps({"prompt": ["12345", "1234"], "n": 2}).encode()
        answer = json.loads(call(fake, "POST", "/v1/completions", body)[2])
        assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2, 3]
        assert answer["usage"]["prompt_tokens"] == 3 and answer["usage"]["completion_tokens"] == 64
        body = json.dumps({"prompt": "x", "stream": True, "max_tokens": 2}).encode()
        events = events_of(call(fake, "POST", "/v1/completions", body)[2])
        assert [event["choices"][0]["text"] for event in events[:-1]] == ["w0 ", "w1 ", ""]


@promise
def embeddings_come_as_floats_and_as_base64_one_an_input():
    import base64
    with Fake() as fake:
        inputs = (("abcd", 1), (["abcd", "x", "abcd"], 3), ([1, 2, 3], 1), ([[1, 2], [3]], 2))
        for value, count in inputs:
            body = json.dumps({"input": value}).encode()
            floats = json.loads(call(fake, "POST", "/v1/embeddings", body)[2])
            body = json.dumps({"input": value, "encoding_format": "base64"}).encode()
            packed = json.loads(call(fake, "POST", "/v1/embeddings", body)[2])
            assert len(floats["data"]) == len(packed["data"]) == count
            for plain, coded in zip(floats["data"], packed["data"]):
                vector = struct.unpack("<8f", base64.b64decode(coded["embedding"]))
                assert list(vector) == plain["embedding"]
            usage = floats["usage"]
            assert usage["completion_tokens"] == 0 and usage["prompt_tokens"] > 0
        assert floats["data"][0]["embedding"] != floats["data"][1]["embedding"]


@promise
def errors_have_the_shape_of_their_kind():
    with Fake("--key", "secret") as fake:
        good = [("authorization", "bearer secret")]
        assert json.loads(post_chat(fake)[2]) == {"error": "Unauthorized"}
        assert call(fake, "GET", "/v1/models")[0] == 401
        assert call(fake, "GET", "/health")[0] == 200
        status, _, body, _, _ = post_chat(fake, model="none", headers=good)
        assert status == 404 and json.loads(body) == {"error": {
            "message": "The model `none` does not exist.", "type": "NotFoundError",
            "param": "model", "code": 404}}
        assert post_chat(fake, headers=[*good, ("content-type", "text/plain")])[0] == 400
        assert call(fake, "POST", "/v1/chat/completions", b'{"messages":[}', good)[0] == 400
        assert post_chat(fake, stream_options={}, headers=good)[0] == 400
        assert call(fake, "GET", "/v1/chat/completions")[0] == 405
        assert call(fake, "GET", "/nothing")[0] == 404
        failing = "[[fake fail=503 retry_after=7]]"
        status, headers, body, _, _ = post_chat(fake, failing, headers=good)
        assert status == 503 and headers["retry-after"] == "7"
        assert json.loads(body)["error"]["code"] == 503
    with Fake("--kind", "openai") as fake:
        error = json.loads(post_chat(fake, "[[fake fail=429]]")[2])["error"]
        assert error["code"] == "rate_limit_exceeded"


@promise
def an_openai_stream_says_null_usage_and_knows_no_running_usage():
    with Fake("--kind", "openai") as fake:
        options = {"include_usage": True, "continuous_usage_stats": True}
        text = "[[fake tokens=2 cached=1]]"
        events = events_of(post_chat(fake, text, stream=True, stream_options=options)[2])
        assert all(event["usage"] is None for event in events[:-2])
        assert events[-2]["usage"]["prompt_tokens_details"]["cached_tokens"] == 1


@promise
def a_request_that_is_no_http_is_refused_as_uvicorn_does():
    with Fake() as fake, fake.connect() as connection:
        connection.sendall(b"this is nothing\r\n\r\n")
        with connection.makefile("rb") as file:
            status, headers, body, _, _ = read_answer(file)
            assert status == 400 and body == b"Invalid HTTP request received."
            assert headers["connection"] == "close"
            assert file.read() == b""


@promise
def an_idle_connection_is_closed_without_warning():
    with (Fake("--keep-alive-ms", "150") as fake, fake.connect() as connection,
          fake.connect() as fresh):
        status, headers, *_ = exchange(connection, "POST", "/v1/chat/completions", chat())
        begin = time.monotonic()
        assert status == 200 and "connection" not in headers
        assert connection.recv(1) == b"" and 0.1 < time.monotonic() - begin < 1
        assert exchange(fresh, "GET", "/health")[0] == 200, "an unused one is not timed out"


@promise
def a_client_that_closes_or_half_closes_ends_the_generation():
    for leave in (lambda c: c.close(), lambda c: c.shutdown(socket.SHUT_WR)):
        with Fake() as fake, fake.connect() as connection:
            body = chat("[[fake tokens=1000 delay_ms=20]]", stream=True)
            connection.sendall(request_bytes("POST", "/v1/chat/completions", body))
            assert connection.recv(10)
            assert fake.counters()["open_streams"] == 1
            leave(connection)
            assert wait_for(lambda: fake.counters()["aborted"] == 1, 1)
            counters = fake.counters()
            assert counters["open_streams"] == counters["running"] == 0
            assert 0 < counters["generated_tokens"] < 10 and counters["last_abort_ns"] > 0


@promise
def resets_and_closes_come_where_they_were_asked():
    with Fake() as fake:
        for fault in ("reset", "fin"):
            for when, events in (("before", None), ("head", 0), ("0", 1), ("2", 3)):
                try:
                    text = f"[[fake tokens=5 {fault}={when}]]"
                    status, _, body, _, whole = post_chat(fake, text, stream=True)
                except ConnectionResetError:
                    assert fault == "reset" and when == "before"
                    continue
                assert not whole and (status == 200) == (events is not None)
                assert body.count(b"\n\n") == (events or 0), (fault, when, body)
            try:
                assert not post_chat(fake, f"[[fake {fault}=1]]")[4]
            except ConnectionResetError:
                assert fault == "reset"
        assert fake.counters()["failed"] == 10


@promise
def an_error_event_is_followed_by_done():
    with Fake() as fake:
        events = events_of(post_chat(fake, "[[fake tokens=5 error_event=2]]", stream=True,
                                     stream_options={"include_usage": True})[2])
        assert len(events) == 5 and events[3]["error"]["code"] == 500 and events[4] == "[DONE]"
        assert fake.counters()["generated_tokens"] == 2


@promise
def a_stall_is_silent_until_the_client_leaves():
    with Fake() as fake, fake.connect() as connection:
        body = chat("[[fake stall=2]]", stream=True)
        connection.sendall(request_bytes("POST", "/v1/chat/completions", body))
        connection.settimeout(0.3)
        received = b""
        try:
            while True:
                received += connection.recv(65536)
        except TimeoutError:
            pass
        assert received.count(b"\n\n") == 3
        connection.close()
        assert wait_for(lambda: fake.counters()["aborted"] == 1)


@promise
def a_fault_with_once_spares_the_second_request_even_on_another_server():
    with tempfile.TemporaryDirectory() as folder:
        shared = os.path.join(folder, "once")
        with Fake("--once-file", shared) as one, Fake("--once-file", shared) as other:
            assert post_chat(one, "[[fake fail=500 once=k1 tokens=2]]")[0] == 500
            assert post_chat(other, "[[fake fail=500 once=k1 tokens=2]]")[0] == 200
            assert post_chat(other, "[[fake fail=500 once=k2 tokens=2]]")[0] == 500


@promise
def bodies_are_compressed_split_padded_and_framed_on_demand():
    with Fake() as fake:
        plain = json.loads(post_chat(fake)[2])["choices"]
        for directive in ("gzip=1", "split=3", "chunked_body=1", "until_close=1", "interim=1",
                          "close=1"):
            status, headers, body, _, whole = post_chat(fake, f"[[fake {directive}]]")
            if directive == "gzip=1":
                assert headers["content-encoding"] == "gzip"
                body = gzip.decompress(body)
            assert status == 200 and whole and json.loads(body)["choices"] == plain, directive
            text = f"[[fake {directive} tokens=40]]"
            status, headers, body, _, whole = post_chat(fake, text, stream=True)
            body = gzip.decompress(body) if directive == "gzip=1" else body
            assert status == 200 and whole and len(events_of(body)) == 43, directive
        _, headers, body, _, whole = post_chat(fake, "[[fake length_body=1]]", stream=True)
        assert "content-length" in headers and whole and events_of(body)[-1] == "[DONE]"
        assert len(post_chat(fake, "[[fake big=3000000]]")[2]) > 3000000
        assert len(post_chat(fake, "[[fake big=3000000]]", stream=True)[2]) > 3000000
        assert post_chat(fake, "[[fake junk=1]]")[0] == 0
        status, headers, body, _, _ = post_chat(fake, "[[fake status_only=502]]")
        assert status == 502 and body == b"" and headers["content-length"] == "0"
        usage = json.loads(post_chat(fake, "[[fake cached=2 claim_output=99]]")[2])["usage"]
        assert usage["prompt_tokens_details"] == {"cached_tokens": 2}
        assert usage["completion_tokens"] == 99
        assert "usage" not in json.loads(post_chat(fake, "[[fake no_usage=1]]")[2])


@promise
def a_poisoned_connection_resets_the_next_request():
    with Fake() as fake, fake.connect() as connection:
        poison = chat("[[fake poison=1]]")
        assert exchange(connection, "POST", "/v1/chat/completions", poison)[0] == 200
        try:
            assert exchange(connection, "POST", "/v1/chat/completions", chat())[0] == 0
        except ConnectionResetError:
            pass


@promise
def pipelined_and_chunked_and_expecting_requests_are_read():
    with Fake() as fake, fake.connect() as connection:
        one = request_bytes("POST", "/v1/chat/completions", chat("[[fake first_ms=50 tokens=1]]"))
        two = request_bytes("POST", "/v1/chat/completions", chat("[[fake tokens=2]]"))
        connection.sendall(one + two)
        with connection.makefile("rb") as file:
            assert json.loads(read_answer(file)[2])["usage"]["completion_tokens"] == 1
            assert json.loads(read_answer(file)[2])["usage"]["completion_tokens"] == 2
        body = chat("[[fake tokens=3]]")
        head = (b"POST /v1/chat/completions HTTP/1.1\r\n"
                b"content-type: application/json\r\nexpect: 100-continue\r\n")
        connection.sendall(head + b"transfer-encoding: chunked\r\n\r\n")
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        for byte in body:
            connection.sendall(b"1\r\n" + bytes([byte]) + b"\r\n")
        connection.sendall(b"0\r\n\r\n")
        with connection.makefile("rb") as file:
            assert json.loads(read_answer(file)[2])["usage"]["completion_tokens"] == 3
        big = chat("x" * 1000000)
        assert json.loads(exchange(connection, "POST", "/v1/chat/completions", big)[2])["usage"][
            "prompt_tokens"] == 250000


@promise
def events_keep_their_pace_and_bear_their_time():
    with Fake() as fake, fake.connect() as connection:
        body = chat("[[fake tokens=20 delay_ms=10 stamp=1 first_ms=30 head_ms=30]]", stream=True)
        begin = time.monotonic()
        _, _, answer, _, _ = exchange(connection, "POST", "/v1/chat/completions", body)
        assert 0.24 < time.monotonic() - begin < 0.5
        stamps = [int(event["choices"][0]["delta"]["content"].split()[0][1:])
                  for event in events_of(answer)[1:-2]]
        gaps = [(b - a) / 1e6 for a, b in zip(stamps, stamps[1:])]
        assert len(stamps) == 20 and 9 < sum(gaps) / len(gaps) < 11


@promise
def a_slow_reader_stops_the_generation():
    with Fake() as fake, fake.connect() as connection:
        body = chat("[[fake tokens=100000]]", stream=True)
        connection.sendall(request_bytes("POST", "/v1/chat/completions", body))
        time.sleep(0.2)
        before = fake.counters()["generated_tokens"]
        time.sleep(0.1)
        assert 0 < before == fake.counters()["generated_tokens"] < 100000
        with connection.makefile("rb") as file:
            answer = read_answer(file)
        assert answer[4] and len(events_of(answer[2])) == 100003
        content = [e["choices"][0]["delta"]["content"] for e in events_of(answer[2])[1:-2]]
        assert content == [f"w{i} " for i in range(100000)], "nothing lost or doubled at a cut"
        assert fake.counters()["generated_tokens"] == 100000


@promise
def the_log_and_the_metrics_tell_what_was_done():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "log")
        with Fake("--log", path, "--record") as fake:
            post_chat(fake, "12345678", headers=[("x-request-id", "x-1")], max_tokens=3)
            post_chat(fake, "[[fake fail=500]]", headers=[("x-request-id", "x-2")])
            call(fake, "GET", "/fake/flush")
            with open(path) as log:
                assert log.read() == ("x-1 /v1/chat/completions fake 200 2 3 complete\n"
                                      "x-2 /v1/chat/completions fake 500 0 0 failed\n")
            metrics = call(fake, "GET", "/metrics")[2].decode()
            assert 'vllm:generation_tokens_total{engine="0",model_name="fake"} 3.0\n' in metrics
            assert ('vllm:request_success_total{engine="0",finished_reason="length",'
                    'model_name="fake"} 1.0') in metrics
            assert b"[[fake fail=500]]" in call(fake, "GET", "/fake/last")[2]
            assert call(fake, "POST", "/fake/set?fail=503&retry_after=1")[0] == 200
            assert post_chat(fake)[0] == 503
            assert call(fake, "POST", "/fake/set?nonsense=1")[0] == 400
            assert post_chat(fake)[0] == 200
            call(fake, "POST", "/fake/reset")
            assert fake.counters()["requests"] == 0


SCHEMA = {
    "type": "object", "required": ["city", "days", "tags", "unit"],
    "properties": {
        "city": {"type": "string"}, "days": {"type": "integer", "minimum": 3},
        "tags": {"type": "array", "minItems": 2, "items": {"enum": ["s\u00fcd", "nord"]}},
        "unit": {"$ref": "#/$defs/Unit"}, "optional": {"type": "number"}},
    "$defs": {"Unit": {"anyOf": [{"type": "object", "properties": {"c": {"type": "boolean"}}},
                                 {"type": "null"}]}}}
FITTING = {"city": "w0 w1", "days": 3, "tags": ["s\u00fcd", "s\u00fcd"], "unit": {"c": True}}
CHAT_TOOLS = [{"type": "function", "function": {"name": "other", "parameters": {}}},
              {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
MESSAGE = [{"role": "user", "content": "12345678"}]


@promise
def each_kind_has_its_endpoints_and_refuses_the_others_in_its_own_shape():
    has = {
        "vllm": "chat/completions completions embeddings responses messages messages/count_tokens "
                "rerank score audio/transcriptions audio/translations",
        "sglang": "chat/completions completions embeddings responses messages "
                  "messages/count_tokens rerank score audio/transcriptions classify",
        "llamacpp": "chat/completions completions embeddings responses messages "
                    "messages/count_tokens rerank",
        "tgi": "chat/completions completions",
        "openai": "chat/completions completions embeddings responses audio/transcriptions "
                  "audio/translations"}
    bare = {"vllm": "rerank score pooling classify tokenize detokenize",
            "sglang": "classify tokenize detokenize", "llamacpp": "rerank tokenize detokenize",
            "tgi": "", "openai": ""}
    every = {f"/v1/{name}" for names in has.values() for name in names.split()}
    every |= {f"/{name}" for names in bare.values() for name in names.split()}
    for kind, names in has.items():
        mine = {f"/v1/{name}" for name in names.split()}
        mine |= {f"/{name}" for name in bare[kind].split()}
        with Fake("--kind", kind) as fake:
            for path in every:
                status = call(fake, "POST", path, b"{}")[0]
                assert (status != 404) == (path in mine), (kind, path, status)
            status, _, body, _, _ = call(fake, "GET", "/v1/chat/completions")
            assert status == (404 if kind == "llamacpp" else 405)
            unknown = call(fake, "POST", "/v1/nothing", b"{}")[2]
            if kind == "tgi":
                assert unknown == b""
            elif kind == "sglang":
                assert json.loads(unknown) == {"detail": "Not Found"}
            else:
                assert json.loads(unknown)["error"]["code"] == (None if kind == "openai" else 404)


@promise
def an_error_has_the_shape_of_its_kind_and_of_its_api():
    failing = {"messages": [{"role": "user", "content": "[[fake fail=503]]"}], "max_tokens": 5}
    seen = {}
    for kind in ("vllm", "sglang", "llamacpp", "tgi", "openai"):
        with Fake("--kind", kind) as fake:
            status, answer = post(fake, "/v1/chat/completions", **failing)
            assert status == 503
            seen[kind] = answer
            if kind in ("vllm", "sglang"):
                answer = post(fake, "/v1/messages", **failing)[1]
                assert answer["type"] == "error" and answer["error"]["type"] == (
                    "ServiceUnavailableError" if kind == "vllm" else "overloaded_error")
    assert seen["vllm"]["error"]["code"] == seen["llamacpp"]["error"]["code"] == 503
    assert seen["llamacpp"]["error"]["type"] == "unavailable_error"
    assert seen["sglang"]["object"] == "error" and seen["sglang"]["code"] == 503
    assert set(seen["tgi"]) == {"error", "error_type"}
    assert seen["openai"]["error"]["code"] is None
    with Fake("--kind", "tgi", "--key", "k") as fake:
        assert call(fake, "POST", "/v1/chat/completions", chat())[::2][:2] == (401, b"")
        key = [("authorization", "Bearer k")]
        assert post_chat(fake, "[[fake fail=429]]", key)[2] == (
            b'{"error":"Model is overloaded","error_type":"overloaded"}')
        assert call(fake, "POST", "/v1/chat/completions", b"{", key)[0] == 422
        assert post_chat(fake, "[[fake fail=424]]", key)[0] == 424
    with Fake("--old-errors") as fake:
        answer = json.loads(post_chat(fake, model="none")[2])
        assert answer["object"] == "error" and answer["code"] == 404


@promise
def an_error_amidst_a_stream_is_an_event_of_its_kind():
    text = "[[fake tokens=5 error_event=1]]"
    for kind in ("sglang", "llamacpp", "tgi"):
        with Fake("--kind", kind) as fake:
            events = events_of(post_chat(fake, text, stream=True)[2])
            error = events[-2]["error"]
            assert events[-1] == "[DONE]"
            assert error["http_status_code" if kind == "tgi" else "code"] == 500
    with Fake() as fake:
        message = [{"role": "user", "content": text}]
        events = named_events(stream(fake, "/v1/messages", messages=message, max_tokens=9))
        assert events[-1][0] == "error" and "message" in events[-1][1]["error"]
        events = named_events(stream(fake, "/v1/responses", input=text))
        assert events[-1][0] == "response.failed"
        assert events[-1][1]["response"]["error"]["code"] == "server_error"


@promise
def chunks_and_usage_have_the_quirks_of_their_kind():
    text = "[[fake tokens=2 reasoning=2 cached=0]]"
    options = {"include_usage": True, "continuous_usage_stats": True}
    for kind in ("vllm", "sglang", "llamacpp", "tgi", "openai"):
        with Fake("--kind", kind) as fake:
            events = events_of(post_chat(fake, text, stream=True, stream_options=options)[2])
            first, thought, last = events[0], events[1], events[-2]
            delta = thought["choices"][0]["delta"]
            usage = last["usage"]
            assert last["choices"] == [] and usage["completion_tokens"] == 4
            assert ("usage" in thought and thought["usage"] is not None) == (
                kind in ("vllm", "sglang")), kind
            if kind == "vllm":
                assert delta == {"reasoning": "r0 "}
                assert usage["completion_tokens_details"]["reasoning_tokens"] == 2
                assert usage["prompt_tokens_details"] == {"cached_tokens": 0}
            elif kind == "sglang":
                assert delta["reasoning_content"] == "r0 " and delta["content"] is None
                assert usage["reasoning_tokens"] == 2 and usage["prompt_tokens_details"] is None
                assert "matched_stop" in events[-3]["choices"][0]
            elif kind == "llamacpp":
                assert first["choices"][0]["delta"]["content"] is None
                assert delta == {"reasoning_content": "r0 "}
                assert events[-3]["choices"][0]["delta"] == {}
                assert last["timings"]["predicted_n"] == 4
            elif kind == "tgi":
                assert delta["role"] == "assistant" and thought["usage"] is None
                assert set(usage) == {"prompt_tokens", "completion_tokens", "total_tokens"}
            else:
                assert delta == {"content": ""} and thought["usage"] is None
                assert usage["completion_tokens_details"]["reasoning_tokens"] == 2
    with Fake("--kind", "tgi") as fake:
        headers = post_chat(fake)[1]
        assert headers["x-prompt-tokens"] == "2" and headers["x-generated-tokens"] == "8"
        assert post_chat(fake, stream=True)[1]["x-accel-buffering"] == "no"


@promise
def a_silent_stream_gives_signs_of_life():
    with Fake("--kind", "llamacpp") as fake:
        body = post_chat(fake, "[[fake tokens=1 head_ms=250 ping_ms=50]]", stream=True)[2]
        assert body.startswith(b":\n\n:\n\n") and body.count(b":\n\n") <= 5
        body = post_chat(fake, "[[fake tokens=3 delay_ms=120 ping_ms=50]]", stream=True)[2]
        assert b'w0 "' in body.partition(b"\n\n:\n\n")[0], "the first event comes first"
        assert 2 <= body.count(b"\n\n:\n\n") <= 4
        with fake.connect() as connection:
            stalled = chat("[[fake stall=1 ping_ms=30]]", stream=True)
            connection.sendall(request_bytes("POST", "/v1/chat/completions", stalled))
            received = b""
            while received.count(b"3\r\n:\n\n\r\n") < 3:
                received += connection.recv(65536)
    with Fake() as fake:
        body = stream(fake, "/v1/messages", max_tokens=1,
                      messages=[{"role": "user", "content": "[[fake head_ms=100 ping_ms=40]]"}])
        assert named_events(body)[0] == ("ping", {"type": "ping"})


@promise
def health_models_and_the_key_follow_the_kind():
    with Fake("--kind", "llamacpp", "--key", "k") as fake:
        assert json.loads(call(fake, "GET", "/health")[2]) == {"status": "ok"}
        assert call(fake, "POST", "/fake/set?health=503")[0] == 200
        status, _, body, _, _ = call(fake, "GET", "/health")
        assert status == 503 and json.loads(body)["error"]["message"] == "Loading model"
        key = [("x-api-key", "k")]
        assert post(fake, "/v1/messages", key, messages=MESSAGE, max_tokens=1)[0] == 200
        assert post(fake, "/tokenize", content="x")[0] == 401
        assert post(fake, "/v1/messages", key, messages=MESSAGE, model="any")[0] == 200
    with Fake("--key", "k") as fake:
        assert post(fake, "/tokenize", prompt="x")[0] == 200, "vLLM guards /v1 and /v2 alone"
        assert post(fake, "/v2/rerank", query="x", documents=["y"])[0] == 401
    for kind, status in (("sglang", 200), ("openai", 200), ("vllm", 404), ("tgi", 404)):
        with Fake("--kind", kind) as fake:
            assert call(fake, "GET", "/v1/models/fake")[0] == status
            assert json.loads(call(fake, "GET", "/v1/models")[2])["data"][0]["owned_by"] == kind
            assert call(fake, "GET", "/health")[0] == (404 if kind == "openai" else 200)


@promise
def each_kind_has_its_metrics_and_they_are_the_counters():
    names = {
        "vllm": ("vllm:num_requests_running", "vllm:num_requests_waiting",
                 "vllm:prompt_tokens_total", "vllm:generation_tokens_total"),
        "sglang": ("sglang:num_running_reqs", "sglang:num_queue_reqs",
                   "sglang:prompt_tokens_total", "sglang:generation_tokens_total"),
        "llamacpp": ("llamacpp:requests_processing", "llamacpp:requests_deferred",
                     "llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total"),
        "tgi": ("tgi_batch_current_size", "tgi_queue_size", "tgi_request_input_length_sum",
                "tgi_request_generated_tokens_sum")}
    for kind, (running, waiting, prompt, generated) in names.items():
        with Fake("--kind", kind) as fake, fake.connect() as connection:
            post_chat(fake, "12345678", max_tokens=3)
            body = chat("[[fake stall=0]]", stream=True)
            connection.sendall(request_bytes("POST", "/v1/chat/completions", body))
            assert connection.recv(10)
            page = {name.partition("{")[0]: value for name, value in metrics_of(fake).items()}
            tokens = fake.counters()
            assert page[running] == 1 and page[waiting] == 0
            assert page[prompt] == tokens["prompt_tokens"] == 6
            assert page[generated] == tokens["generated_tokens"] == 3
    with Fake("--old-metrics") as fake:
        page = metrics_of(fake)
        labels = '{engine="0",model_name="fake"}'
        assert f"vllm:gpu_cache_usage_perc{labels}" in page
        assert f"vllm:gpu_prefix_cache_hits_total{labels}" in page
        assert f"vllm:kv_cache_usage_perc{labels}" not in page
    with Fake("--kind", "openai") as fake:
        assert call(fake, "GET", "/metrics")[0] == 404


@promise
def a_tool_call_has_arguments_that_fit_its_schema_whole_and_in_pieces():
    named = {"type": "function", "function": {"name": "weather"}}
    for kind in ("vllm", "sglang", "llamacpp", "tgi", "openai"):
        with Fake("--kind", kind) as fake:
            members = {"tools": CHAT_TOOLS, "tool_choice": named}
            answer = json.loads(post_chat(fake, **members)[2])
            choice = answer["choices"][0]
            function = choice["message"]["tool_calls"][0]["function"]
            assert choice["finish_reason"] == "tool_calls" and function["name"] == "weather"
            assert json.loads(function["arguments"]) == FITTING
            events = events_of(post_chat(fake, stream=True, **members)[2])
            calls = [event["choices"][0]["delta"]["tool_calls"][0] for event in events[1:-2]]
            assert calls[0]["id"] and calls[0]["function"] == {"name": "weather", "arguments": ""}
            pieces = [call["function"]["arguments"] for call in calls[1:]]
            assert len(pieces) == answer["usage"]["completion_tokens"] > 3
            assert json.loads("".join(pieces)) == FITTING
            assert events[-2]["choices"][0]["finish_reason"] == "tool_calls"
    with Fake() as fake:
        first = json.loads(post_chat(fake, tools=CHAT_TOOLS, tool_choice="required")[2])
        assert first["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "other"
        told = json.loads(post_chat(fake, "[[fake tool=weather]]", tools=CHAT_TOOLS)[2])
        assert told["choices"][0]["finish_reason"] == "tool_calls"
        free = json.loads(post_chat(fake, tools=CHAT_TOOLS, tool_choice="auto")[2])
        assert free["choices"][0]["finish_reason"] == "stop"
        cut = json.loads(post_chat(fake, tools=CHAT_TOOLS, tool_choice=named, max_tokens=2)[2])
        assert cut["choices"][0]["finish_reason"] == "length"


@promise
def structured_output_is_an_object_that_fits():
    with Fake() as fake:
        wanted = {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA}}
        answer = json.loads(post_chat(fake, response_format=wanted)[2])
        assert json.loads(answer["choices"][0]["message"]["content"]) == FITTING
        events = events_of(post_chat(fake, response_format=wanted, stream=True)[2])
        content = "".join(event["choices"][0]["delta"]["content"] for event in events[:-1])
        assert json.loads(content) == FITTING
        answer = json.loads(post_chat(fake, response_format={"type": "json_object"})[2])
        assert isinstance(json.loads(answer["choices"][0]["message"]["content"]), dict)
        text = {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA}}
        answer = post(fake, "/v1/responses", input="x", text=text)[1]
        assert json.loads(answer["output"][0]["content"][0]["text"]) == FITTING


@promise
def logprobs_images_and_reasoning_are_counted():
    with Fake() as fake:
        answer = json.loads(post_chat(fake, logprobs=True, top_logprobs=2, max_tokens=3)[2])
        tokens = answer["choices"][0]["logprobs"]["content"]
        assert [token["token"] for token in tokens] == ["w0 ", "w1 ", "w2 "]
        assert tokens[0]["bytes"] == list(b"w0 ") and len(tokens[0]["top_logprobs"]) == 2
        events = events_of(post_chat(fake, logprobs=True, max_tokens=2, stream=True)[2])
        assert events[2]["choices"][0]["logprobs"]["content"][0]["token"] == "w1 "
        status, answer = post(fake, "/v1/completions", prompt="x", logprobs=1, max_tokens=2)
        assert answer["choices"][0]["logprobs"]["tokens"] == ["w0 ", "w1 "]
        parts = [{"type": "text", "text": "12345678"},
                 {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
        status, answer = post(fake, "/v1/chat/completions",
                              messages=[{"role": "user", "content": parts}])
        assert status == 200 and answer["usage"]["prompt_tokens"] == 102
        answer = json.loads(post_chat(fake, "[[fake reasoning=5]]", max_tokens=7)[2])
        message = answer["choices"][0]["message"]
        assert message["reasoning"] == "r0 r1 r2 r3 r4 " and message["content"] == "w0 w1 "
        assert answer["usage"]["completion_tokens"] == 7


@promise
def a_response_streams_every_event_of_each_item_in_order():
    with Fake() as fake:
        events = named_events(stream(fake, "/v1/responses", max_output_tokens=9,
                                     input="[[fake tokens=2 reasoning=2]]"))
        names = [name.removeprefix("response.") for name, _ in events]
        assert names == [
            "created", "in_progress", "output_item.added", "reasoning_part.added",
            "reasoning_text.delta", "reasoning_text.delta", "reasoning_text.done",
            "reasoning_part.done", "output_item.done", "output_item.added", "content_part.added",
            "output_text.delta", "output_text.delta", "output_text.done", "content_part.done",
            "output_item.done", "completed"]
        assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
        final = events[-1][1]["response"]
        assert [item["type"] for item in final["output"]] == ["reasoning", "message"]
        assert events[15][1]["item"] == final["output"][1] and events[15][1]["output_index"] == 1
        assert final["usage"]["output_tokens"] == 4 and final["status"] == "completed"
        assert final["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
        tools = [{"type": "function", "name": "weather", "parameters": SCHEMA}]
        choice = {"type": "function", "name": "weather"}
        body = stream(fake, "/v1/responses", tools=tools, tool_choice=choice,
                      input=[{"role": "user", "content": [{"type": "input_text", "text": "x"}]}])
        events = named_events(body)
        pieces = [data["delta"] for name, data in events if name.endswith("arguments.delta")]
        assert json.loads("".join(pieces)) == FITTING
        assert json.loads(events[-3][1]["arguments"]) == FITTING
        item = events[-1][1]["response"]["output"][0]
        assert item["type"] == "function_call" and item["name"] == "weather" and item["call_id"]


@promise
def a_response_is_completed_incomplete_or_failed():
    with Fake() as fake:
        status, answer = post(fake, "/v1/responses", input="12345678", instructions="1234")
        assert status == 200 and answer["status"] == "completed"
        assert answer["output"][0]["content"][0]["text"] == "w0 w1 w2 w3 w4 w5 w6 w7 "
        assert answer["usage"]["input_tokens"] == 3 and answer["usage"]["total_tokens"] == 11
        answer = post(fake, "/v1/responses", input="x", max_output_tokens=3)[1]
        assert answer["incomplete_details"] == {"reason": "max_output_tokens"}
        assert answer["status"] == "incomplete"
        events = named_events(stream(fake, "/v1/responses", input="x", max_output_tokens=3))
        assert events[-1][0] == "response.incomplete"
        assert post(fake, "/v1/responses", input="[[fake failed=1]]")[1]["status"] == "failed"
        events = named_events(stream(fake, "/v1/responses", input="[[fake failed=1]]"))
        assert events[-1][0] == "response.failed" and len(events) > 10
        assert fake.counters()["failed"] == 2


@promise
def a_message_streams_every_event_of_each_block_in_order():
    with Fake() as fake:
        text = "[[fake tokens=2 reasoning=1 cached=3]]"
        status, answer = post(fake, "/v1/messages", max_tokens=9, system="1234",
                              messages=[{"role": "user", "content": text}])
        assert status == 200 and answer["stop_reason"] == "end_turn"
        assert answer["content"] == [
            {"type": "thinking", "thinking": "r0 ", "signature": ""},
            {"type": "text", "text": "w0 w1 "}]
        usage = answer["usage"]
        assert usage["cache_read_input_tokens"] == 3 and usage["output_tokens"] == 3
        assert usage["input_tokens"] + 3 == (len(text) + 3) // 4 + 1
        events = named_events(stream(fake, "/v1/messages", max_tokens=9, system="1234",
                                     messages=[{"role": "user", "content": text}]))
        assert [name for name, _ in events] == [
            "message_start", "content_block_start", "content_block_delta", "content_block_delta",
            "content_block_stop", "content_block_start", "content_block_delta",
            "content_block_delta", "content_block_stop", "message_delta", "message_stop"]
        assert events[3][1]["delta"]["type"] == "signature_delta"
        assert [data["index"] for _, data in events[1:-2]] == [0, 0, 0, 0, 1, 1, 1, 1]
        assert events[-2][1]["usage"] == usage
        assert events[0][1]["message"]["usage"]["output_tokens"] == 0
        members = {"tools": [{"name": "weather", "input_schema": SCHEMA}], "max_tokens": 999,
                   "messages": MESSAGE, "tool_choice": {"type": "any"}}
        answer = post(fake, "/v1/messages", **members)[1]
        assert answer["stop_reason"] == "tool_use" and answer["content"][0]["input"] == FITTING
        events = named_events(stream(fake, "/v1/messages", **members))
        pieces = [data["delta"]["partial_json"] for _, data in events[2:-3]]
        assert json.loads("".join(pieces)) == FITTING
        short = post(fake, "/v1/messages", messages=MESSAGE, max_tokens=2)[1]
        assert short["stop_reason"] == "max_tokens"
        counted = post(fake, "/v1/messages/count_tokens", messages=MESSAGE)
        assert counted == (200, {"input_tokens": 2})


@promise
def rerank_and_score_and_their_kin_answer_each_text():
    with Fake() as fake:
        documents = ["first", "second", {"text": "third"}]
        status, answer = post(fake, "/v2/rerank", query="1234", documents=documents)
        scores = [result["relevance_score"] for result in answer["results"]]
        assert status == 200 and len(scores) == 3 and scores == sorted(scores, reverse=True)
        assert {result["document"]["text"] for result in answer["results"]} == {
            "first", "second", "third"}
        assert answer["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
        answer = post(fake, "/rerank", query="1234", documents=documents, top_n=1)[1]
        assert [result["relevance_score"] for result in answer["results"]] == scores[:1]
        answer = post(fake, "/score", text_1="1234", text_2=["a", "b"])[1]
        assert [entry["object"] for entry in answer["data"]] == ["score", "score"]
        assert post(fake, "/pooling", input=["a", "b"])[1]["data"][1]["object"] == "pooling"
        assert post(fake, "/classify", input=["a"])[1]["data"][0]["num_classes"] == 2
        answer = post(fake, "/v1/embeddings", input="a", dimensions=20)[1]
        assert len(answer["data"][0]["embedding"]) == 20
    with Fake("--kind", "sglang") as fake:
        answer = post(fake, "/v1/rerank", query="q", documents=["a", "b"])[1]
        assert len(answer) == 2 and answer[0]["score"] >= answer[1]["score"]
        assert len(post(fake, "/v1/score", query="q", items=["a", "b"])[1]["scores"]) == 2


@promise
def what_was_tokenized_comes_back():
    text = 'h\u00e4llo "w\u00f6rld"\n\u2713'
    members = {"vllm": ("prompt", "prompt"), "sglang": ("prompt", "text"),
               "llamacpp": ("content", "content")}
    for kind, (given, got) in members.items():
        with Fake("--kind", kind) as fake:
            tokens = post(fake, "/tokenize", **{given: text})[1]
            assert ("count" in tokens) == (kind != "llamacpp")
            assert len(tokens["tokens"]) == tokens.get("count", len(tokens["tokens"])) > 3
            assert post(fake, "/detokenize", tokens=tokens["tokens"])[1] == {got: text}
            assert post(fake, "/detokenize", tokens=[1, 50256])[1] == {got: "w1 w50256 "}
            assert fake.counters()["prompt_tokens"] == 0, "no model has seen them"


@promise
def audio_is_counted_and_answered_as_json_text_and_stream():
    sound = bytes(range(256)) * 250  # two seconds of 16-bit mono at 16 kHz
    path = "/v1/audio/transcriptions"
    with Fake("--models", "m1,m2") as fake:
        body, headers = form({"model": "m2"}, sound)
        status, _, answer, _, _ = call(fake, "POST", path, body, headers)
        assert status == 200 and json.loads(answer) == {
            "text": "w0 w1 w2 w3 w4 w5 w6 w7 ", "usage": {"type": "duration", "seconds": 2}}
        assert fake.counters()["audio_bytes"] == len(sound)
        body, headers = form({"response_format": "text"}, sound)
        _, got, answer, _, _ = call(fake, "POST", path, body, headers)
        assert got["content-type"].startswith("text/plain") and answer.startswith(b"w0 w1 ")
        body, headers = form({"prompt": "[[fake usage_tokens=1]]"}, sound)
        usage = json.loads(call(fake, "POST", path, body, headers)[2])["usage"]
        assert usage["type"] == "tokens" and usage["total_tokens"] == 28
        body, headers = form({"stream": "true", "stream_include_usage": "true"}, sound)
        events = events_of(call(fake, "POST", path, body, headers)[2])
        assert events[0]["object"] == "transcription.chunk" and events[-1] == "[DONE]"
        assert events[-2]["usage"]["completion_tokens"] == 8
        body, headers = form({"model": "none"}, sound)
        assert call(fake, "POST", path, body, headers)[0] == 404
        assert call(fake, "POST", path, body[:-9], headers)[0] == 400, "a form without its end"
        assert post(fake, path, model="m1")[0] == 400
    with Fake("--kind", "openai") as fake:
        body, headers = form({"stream": "true"}, sound)
        answer = call(fake, "POST", "/v1/audio/translations", body, headers)[2]
        last = json.loads(answer.decode().split("\n\n")[-2][6:])
        assert last["type"] == "transcript.text.done" and last["usage"]["seconds"] == 2


@promise
def it_listens_on_ipv6_and_at_a_path():
    with Fake("--host", "::1") as fake:
        assert post_chat(fake)[0] == 200
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        for options in ([], ["--port", "0"]):
            process = subprocess.Popen([PROGRAM, "--uds", path, *options],
                                       stdout=subprocess.PIPE, text=True)
            port = int(process.stdout.readline().split()[1])
            assert (port == 0) == (options == [])
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                body = chat(stream=True)
                assert exchange(connection, "POST", "/v1/chat/completions", body)[4]
                assert exchange(connection, "GET", "/health")[0] == 200
            if port > 0:
                socket.create_connection(("127.0.0.1", port), 5).close()
            process.terminate()
            assert process.wait(10) == 0 and not os.path.exists(path)


def several(fake, bodies):
    """Sends all at once, each on its own connection; the parsed answers in order."""
    connections = [fake.connect() for _ in bodies]
    for connection, body in zip(connections, bodies):
        connection.sendall(request_bytes("POST", "/v1/chat/completions", body))
    answers = []
    for connection in connections:
        with connection, connection.makefile("rb") as file:
            answers.append(json.loads(read_answer(file)[2]))
    return answers


@promise
def the_engine_takes_a_step_for_each_token_and_for_each_chunk_of_a_prompt():
    with Fake("--engine", "prefill_tps=1e6,step_ms=15,step_ms_per_seq=0,chunk=32") as fake:
        begin = time.monotonic()
        _, _, body, _, _ = post_chat(fake, "[[fake tokens=6 stamp=1]]", stream=True)
        assert time.monotonic() - begin >= 6 * 0.0149
        stamps = [int(event["choices"][0]["delta"]["content"].split()[0][1:])
                  for event in events_of(body)[1:-2]]
        assert len(stamps) == 6 and stamps[-1] - stamps[0] >= 4 * 14_000_000
        begin = time.monotonic()
        assert json.loads(post_chat(fake, "x" * 4 * 128, max_tokens=1)[2])["usage"][
            "prompt_tokens"] == 128
        assert time.monotonic() - begin >= 4 * 0.0149, "128 tokens are four chunks of 32"
        for path, members in (("/v1/responses", {"input": "x"}),
                              ("/v1/messages", {"messages": MESSAGE, "max_tokens": 3}),
                              ("/v1/completions", {"prompt": "x", "max_tokens": 3})):
            assert post(fake, path, **members)[0] == 200
            assert call(fake, "POST", path, json.dumps({**members, "stream": True}).encode())[4]
    with Fake("--engine", "prefill_tps=1000,step_ms=0,step_ms_per_seq=0") as fake:
        begin = time.monotonic()
        post_chat(fake, "x" * 400, max_tokens=1)
        assert time.monotonic() - begin >= 0.099, "100 tokens at 1000 a second"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "options")
        with open(path, "w") as file:
            file.write("step_ms=30\nchunk=64\n")
        with Fake("--engine", path) as fake:
            begin = time.monotonic()
            post_chat(fake, max_tokens=2)
            assert time.monotonic() - begin >= 0.059
    for wrong in ("nonsense=1", "blocks=0", "step_ms", "chunk=x"):
        assert subprocess.run([PROGRAM, "--port", "0", "--engine", wrong], stderr=subprocess.PIPE,
                              check=False).returncode == 2


@promise
def the_engine_runs_so_many_and_the_others_wait_or_are_refused():
    options = "step_ms=20,max_running=1,max_waiting=1"
    for kind, refused in (("vllm", None), ("llamacpp", None), ("sglang", 503), ("tgi", 429)):
        with Fake("--kind", kind, "--engine", options) as fake:
            held = [fake.connect() for _ in range(2)]
            for connection in held:
                body = chat("[[fake tokens=1000]]", stream=True)
                connection.sendall(request_bytes("POST", "/v1/chat/completions", body))
            assert wait_for(lambda: fake.counters()["waiting"] == 1)
            page = list(metrics_of(fake).items())
            assert any("waiting" in name or "queue" in name or "deferred" in name
                       for name, value in page if value == 1)
            with fake.connect() as third:
                third.sendall(request_bytes("POST", "/v1/chat/completions", chat(max_tokens=1)))
                if refused:
                    with third.makefile("rb") as file:
                        assert read_answer(file)[0] == refused
                else:
                    assert wait_for(lambda: fake.counters()["waiting"] == 2)
            for connection in held:
                connection.close()
            assert wait_for(lambda: fake.counters()["running"] == 0)
            counters = fake.counters()
            assert counters["waiting"] == counters["used_blocks"] == 0
            assert counters["aborted"] == (2 if refused else 3)


@promise
def the_engine_finds_the_blocks_of_a_prompt_again():
    with Fake("--engine", "step_ms=0.1,block=4,blocks=64,prefill_tps=1e6") as fake:
        def cached(text, **members):
            usage = json.loads(post_chat(fake, text, max_tokens=2, **members)[2])["usage"]
            return usage["prompt_tokens_details"]["cached_tokens"]
        text = "0123456789abcdef" * 4  # 16 tokens, 4 blocks
        assert cached(text) == 0
        assert cached(text) == 12, "the last token is always computed"
        assert cached(text + "more") == 16
        assert cached(text[:32] + "another end of it") == 8
        assert cached("x" + text) == 0
        assert cached(text, cache_salt="s") == 0 and cached(text, cache_salt="s") == 12
        assert cached(text) == 12
        counters = fake.counters()
        assert counters["cached_tokens"] == 60 and counters["used_blocks"] == 0
        hits = 'vllm:prefix_cache_hits_total{engine="0",model_name="fake"}'
        assert metrics_of(fake)[hits] == 60
        for i in range(8):  # 64 blocks, eight at a time: what is oldest is given up
            cached(f"{i:04}" * 32)
        assert cached(text) == 0
        events = events_of(post_chat(fake, text, stream=True, max_tokens=1,
                                     stream_options={"include_usage": True})[2])
        assert events[-2]["usage"]["prompt_tokens_details"]["cached_tokens"] == 12


@promise
def the_engine_puts_the_newest_back_when_no_block_is_free():
    with Fake("--engine", "step_ms=0.5,block=4,blocks=10,prefill_tps=1e6") as fake:
        bodies = [chat(f"{i:016}", max_tokens=28) for i in range(3)]  # 8 blocks each, at their end
        bodies = [body.replace(b'"max_tokens": 28', b'"x": "[[fake tokens=28]]"')
                  for body in bodies]
        answers = several(fake, bodies)
        words = "".join(f"w{i} " for i in range(28))
        assert [answer["choices"][0]["message"]["content"] for answer in answers] == [words] * 3
        counters = fake.counters()
        assert counters["preemptions"] > 0 and counters["complete"] == 3
        assert counters["used_blocks"] == counters["waiting"] == 0
        preempted = 'vllm:num_preemptions_total{engine="0",model_name="fake"}'
        assert metrics_of(fake)[preempted] == counters["preemptions"]
        status, answer = post(fake, "/v1/chat/completions", max_tokens=1,
                              messages=[{"role": "user", "content": "x" * 200}])
        assert status == 400 and "maximum context length" in answer["error"]["message"]


def main():
    failed = 0
    for check in PROMISES:
        try:
            check()
            print(f"ok      {check.__name__}")
        except Exception:  # a broken promise must not hide the others
            failed += 1
            print(f"FAILED  {check.__name__}")
            traceback.print_exc()
    print(f"{len(PROMISES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
