# SPDX-License-Identifier: Apache-2.0
"""curl: every endpoint as a shell would call it.

For:       see checks.py. HTTP/2 by ALPN over TLS, by prior knowledge without.
Used by:   run.py.
Knows not: the gateway's configuration.
"""

import asyncio
import json
import pathlib
import tempfile

import checks
from checks import check, said

VERSION = {"h1": "1.1", "h2": "2"}


class Curl:
    def __init__(self, target):
        self.target = target
        over_tls = target.root.startswith("https:")
        self.ways = ["--cacert", target.ca] if over_tls else []
        self.ways.append("--http1.1" if not target.h2 else
                         "--http2" if over_tls else "--http2-prior-knowledge")

    async def run(self, path, *arguments, key=None, wait=10):
        """Status and body, also of an answer that is not whole when wait (seconds) is over."""
        mark = "\n%{http_code} %{http_version}"
        child = await asyncio.create_subprocess_exec(
            "curl", "-sS", "--max-time", str(wait), *self.ways, "-w", mark,
            "-H", f"authorization: Bearer {key or self.target.key}", *arguments,
            self.target.root + path, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        out, trouble = await child.communicate()
        body, _, last = out.rpartition(b"\n")
        status, version = last.decode().split()
        assert status != "000", trouble.decode()
        assert version == VERSION[self.target.protocol], version
        return int(status), body

    async def post(self, path, body, **more):
        """The answer to a JSON body; it must be a 200."""
        status, answer = await self.run(path, "-H", "content-type: application/json",
                                        "-d", json.dumps(body), **more)
        assert status == 200, (status, answer)
        return answer

    async def ask(self, path, **body):
        return json.loads(await self.post(path, {"model": self.target.model, **body}))

    async def listen(self, path, **body):
        """The data of all events of a stream as texts."""
        answer = await self.post(path, {"model": self.target.model, "stream": True, **body})
        return [line[6:].decode() for line in answer.splitlines() if line.startswith(b"data: ")]

    async def upload(self, path, *fields):
        """The answer to a form with a small WAV file and these fields."""
        with tempfile.TemporaryDirectory() as directory:
            sound = pathlib.Path(directory) / "a.wav"
            sound.write_bytes(checks.wav())
            arguments = ["-F", f"model={self.target.model}", "-F", f"file=@{sound}"]
            for field in fields:
                arguments += ["-F", field]
            status, answer = await self.run(path, *arguments)
        assert status == 200, (status, answer)
        return answer


def prepare(target):
    return (Curl(target),)


def messages(directives):
    return [{"role": "user", "content": said(directives)}]


@check("chat")
async def a_chat_is_answered(curl):
    answer = await curl.ask("/v1/chat/completions", messages=messages("tokens=7"))
    assert answer["usage"]["completion_tokens"] == 7, answer


@check("chat", feature="errors")
async def errors_bear_their_status(curl):
    for status, body in ((404, {"model": "none", "messages": messages("tokens=1")}),
                         (400, {"model": curl.target.model, "messages": messages("fail=400")})):
        got, answer = await curl.run("/v1/chat/completions", "-H", "content-type: application/json",
                                     "-d", json.dumps(body))
        assert got == status, (got, answer)
        assert curl.target.direct or json.loads(answer)["error"]["message"], answer


@check("chat", feature="vision")
async def a_picture_of_some_megabytes_goes_along(curl):
    with tempfile.NamedTemporaryFile("w") as file:
        image = {"type": "image_url",
                 "image_url": {"url": "data:image/png;base64," + "A" * (3 << 20)}}
        text = {"type": "text", "text": said("tokens=4")}
        json.dump({"model": curl.target.model,
                   "messages": [{"role": "user", "content": [text, image]}]}, file)
        file.flush()
        status, answer = await curl.run("/v1/chat/completions", "-d", f"@{file.name}",
                                        "-H", "content-type: application/json")
    assert status == 200 and json.loads(answer)["usage"]["completion_tokens"] == 4, answer[:500]


@check("chat, refused while it is sent", feature="errors", gateway=True)
async def a_refusal_is_read_although_the_body_is_on_its_way(curl):
    with tempfile.NamedTemporaryFile("w") as file:
        json.dump({"model": curl.target.model, "messages": messages("x" * (3 << 20))}, file)
        file.flush()
        for _ in range(3):
            status, answer = await curl.run(
                "/v1/chat/completions", "-d", f"@{file.name}",
                "-H", "content-type: application/json", key=checks.WRONG_KEY)
            assert status == 401 and json.loads(answer)["error"]["message"], (status, answer)


@check("chat", "stream", feature="usage")
async def a_chat_is_streamed(curl):
    events = await curl.listen("/v1/chat/completions", messages=messages("tokens=6"),
                               stream_options={"include_usage": True})
    assert events[-1] == "[DONE]"
    assert json.loads(events[-2])["usage"]["completion_tokens"] == 6


@check("chat", "stream", feature="abort")
async def a_stream_may_be_left(curl):
    status, answer = await curl.run(
        "/v1/chat/completions", "-N", "-H", "content-type: application/json", "-d",
        json.dumps({"model": curl.target.model, "stream": True,
                    "messages": messages("tokens=2000 delay_ms=20")}), wait=2)
    assert status == 200 and answer.count(b"data: ") > 5


@check("completions")
async def a_completion_is_served(curl):
    answer = await curl.ask("/v1/completions", prompt=said("tokens=4"), max_tokens=8)
    assert answer["usage"]["completion_tokens"] == 4, answer


@check("completions", "stream")
async def a_completion_is_streamed(curl):
    events = await curl.listen("/v1/completions", prompt=said("tokens=4"), max_tokens=8)
    assert events[-1] == "[DONE]" and json.loads(events[0])["choices"][0]["text"]


@check("embeddings")
async def embeddings_come_as_numbers_and_in_base64(curl):
    for coding, kind in (("float", list), ("base64", str)):
        answer = await curl.ask("/v1/embeddings", input=["a", "b"], encoding_format=coding)
        assert [type(one["embedding"]) for one in answer["data"]] == [kind, kind]


@check("models")
async def models_are_listed(curl):
    status, answer = await curl.run("/v1/models")
    assert status == 200
    assert curl.target.model in [model["id"] for model in json.loads(answer)["data"]]


@check("responses")
async def a_response_is_made(curl):
    answer = await curl.ask("/v1/responses", input=said("tokens=5"), store=False)
    assert answer["status"] == "completed" and answer["usage"]["output_tokens"] == 5, answer


@check("responses", "stream")
async def a_response_is_streamed(curl):
    events = await curl.listen("/v1/responses", input=said("tokens=5"), store=False)
    assert json.loads(events[0])["type"] == "response.created"
    assert json.loads(events[-1])["type"] == "response.completed"


@check("messages")
async def a_message_is_answered(curl):
    answer = await curl.ask("/v1/messages", messages=messages("tokens=5"), max_tokens=50)
    assert answer["type"] == "message" and answer["usage"]["output_tokens"] == 5, answer


@check("messages", "stream")
async def a_message_is_streamed(curl):
    events = await curl.listen("/v1/messages", messages=messages("tokens=5"), max_tokens=50)
    assert json.loads(events[0])["type"] == "message_start"
    assert json.loads(events[-1])["type"] == "message_stop"


@check("count_tokens")
async def tokens_are_counted(curl):
    answer = await curl.ask("/v1/messages/count_tokens", messages=messages("tokens=1"))
    assert answer["input_tokens"] > 0


@check("rerank")
async def documents_are_put_in_order(curl):
    for path in ("/v1/rerank", "/v2/rerank"):
        answer = await curl.ask(path, query="a", documents=["a", "b", "c"])
        assert sorted(result["index"] for result in answer["results"]) == [0, 1, 2], answer


@check("score")
async def pairs_are_scored(curl):
    answer = await curl.ask("/v1/score", text_1="a", text_2=["a", "b"])
    assert len(answer["data"]) == 2 and all("score" in one for one in answer["data"]), answer


@check("tokenize")
async def text_becomes_tokens(curl):
    answer = await curl.ask("/tokenize", prompt="one two three")
    assert answer["count"] == len(answer["tokens"]) > 0, answer


@check("detokenize")
async def tokens_become_text(curl):
    tokens = (await curl.ask("/tokenize", prompt="one two three"))["tokens"]
    assert "prompt" in await curl.ask("/detokenize", tokens=tokens)


@check("transcriptions")
async def speech_becomes_text(curl):
    assert json.loads(await curl.upload("/v1/audio/transcriptions"))["text"]


@check("transcriptions", "stream")
async def speech_becomes_text_in_pieces(curl):
    answer = await curl.upload("/v1/audio/transcriptions", "stream=true")
    assert answer.rstrip().endswith(b"data: [DONE]"), answer[-200:]


@check("translations")
async def speech_becomes_english_text(curl):
    assert json.loads(await curl.upload("/v1/audio/translations"))["text"]


@check("pooling")
async def hidden_states_are_pooled(curl):
    answer = await curl.ask("/pooling", input="one two")
    assert answer["data"][0]["data"], answer


@check("classify")
async def text_is_classified(curl):
    answer = await curl.ask("/classify", input="one two")
    assert answer["data"][0]["probs"], answer


if __name__ == "__main__":
    checks.main(prepare)
