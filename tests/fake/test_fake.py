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

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        assert self.process.wait(10) == 0

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), 10)
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
