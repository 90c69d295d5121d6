# SPDX-License-Identifier: Apache-2.0
"""Open WebUI's calls as it makes them: the same libraries, the same headers and fields.

For:       see checks.py. aiohttp carries chat and models, requests carries embeddings, rerank and
           audio; both speak HTTP/1.1. Fields of its own (chat_id, session_id, features, ...) it
           takes out before a call, `metadata` too; options of a model stand beside the messages.
Used by:   run.py.
Knows not: the gateway's configuration.
"""

import json

import aiohttp
import requests

import checks
from checks import check, said

PERSON = {"X-OpenWebUI-User-Name": "Ada%20L", "X-OpenWebUI-User-Id": "7f2c",
          "X-OpenWebUI-User-Email": "ada@example.org", "X-OpenWebUI-User-Role": "user"}


class Caller:
    def __init__(self, target):
        self.target = target
        self.headers = {"Authorization": f"Bearer {target.key}",
                        "Content-Type": "application/json", **PERSON}

    async def exchange(self, method, path, body=None, headers=None, read=None):
        """Status and body of one call on a session of its own, as Open WebUI has it."""
        timeout = aiohttp.ClientTimeout(total=10)
        async with aiohttp.ClientSession(trust_env=True, timeout=timeout) as session:
            data = None if body is None else json.dumps(body)
            async with session.request(method, self.target.base + path, data=data,
                                       headers=headers or self.headers) as reply:
                return reply.status, await (read(reply) if read else reply.json())

    def post(self, path, **more):
        """The answer of one call by requests."""
        reply = requests.post(self.target.base + path, timeout=10, **more)
        reply.raise_for_status()
        return reply.json()


def chat(target, directives, **more):
    """A chat as the user interface asks for it: a system prompt and the options of the model."""
    return {"stream": True, "model": target.model,
            "messages": [{"role": "system", "content": "You are helpful."},
                         {"role": "user", "content": said(directives)}],
            "temperature": 0.7, "top_p": 0.9, "frequency_penalty": 0, "seed": 7, **more}


async def events_of(reply):
    """The data of each event; `[DONE]` stays a text."""
    assert reply.headers["content-type"].startswith("text/event-stream"), reply.headers
    data = [line[6:].strip() async for line in reply.content if line.startswith(b"data: ")]
    return [one if one == b"[DONE]" else json.loads(one) for one in data]


def prepare(target):
    return Caller(target), target


@check("chat")
async def a_title_is_made(caller, target):
    body = chat(target, "tokens=5", stream=False, max_completion_tokens=1000)
    status, answer = await caller.exchange("POST", "/chat/completions", body)
    assert status == 200 and answer["choices"][0]["message"]["content"], answer


@check("chat", feature="vision")
async def a_picture_goes_along(caller, target):
    body = chat(target, "", stream=False)
    body["messages"][1]["content"] = checks.picture_parts(said("tokens=4"))
    status, answer = await caller.exchange("POST", "/chat/completions", body)
    assert status == 200 and answer["usage"]["completion_tokens"] == 4, answer


@check("chat", feature="errors")
async def errors_come_with_a_message(caller, target):
    stranger = {**caller.headers, "Authorization": "Bearer " + checks.WRONG_KEY}
    for expected, body, headers in ((401, chat(target, "tokens=1"), stranger),
                                    (404, chat(target, "tokens=1", model="none"), None),
                                    (400, chat(target, "fail=400"), None)):
        status, answer = await caller.exchange("POST", "/chat/completions", body, headers)
        assert status == expected, answer
        assert target.direct or answer["error"]["message"], answer


@check("chat", "stream", feature="usage")
async def a_chat_is_streamed(caller, target):
    body = chat(target, "tokens=6", stream_options={"include_usage": True})
    status, events = await caller.exchange("POST", "/chat/completions", body, read=events_of)
    assert status == 200 and events[-1] == b"[DONE]"
    assert events[-2]["usage"]["completion_tokens"] == 6
    assert "".join(event["choices"][0]["delta"].get("content") or ""
                   for event in events[:-1] if event["choices"])


@check("chat", "stream", feature="tools")
async def a_tool_is_called_in_pieces(caller, target):
    body = chat(target, "tool=weather", tools=[checks.tool()])
    _, events = await caller.exchange("POST", "/chat/completions", body, read=events_of)
    calls = [call for event in events[:-1] for choice in event["choices"]
             for call in choice["delta"].get("tool_calls") or []]
    assert calls[0]["function"]["name"] == "weather"
    assert json.loads("".join(call["function"].get("arguments") or "" for call in calls))


@check("chat", "stream", feature="abort")
async def the_stop_button_works(caller, target):
    async def some(reply):
        return [await reply.content.readline() for _ in range(10)]
    status, lines = await caller.exchange("POST", "/chat/completions",
                                          chat(target, "tokens=2000 delay_ms=20"), read=some)
    assert status == 200 and any(lines)


@check("models")
async def models_are_listed(caller, target):
    headers = {"Authorization": caller.headers["Authorization"], **PERSON}
    status, answer = await caller.exchange("GET", "/models", headers=headers)
    assert status == 200 and target.model in [model["id"] for model in answer["data"]]


@check("embeddings")
async def documents_become_vectors(caller, target):
    answer = caller.post("/embeddings", headers=caller.headers,
                         json={"input": ["a", "b c"], "model": target.model})
    assert len(answer["data"]) == 2 and answer["data"][1]["embedding"]


@check("rerank")
async def documents_are_put_in_order(caller, target):
    answer = caller.post("/rerank", headers=caller.headers, json={
        "model": target.model, "query": "a", "documents": ["a", "b", "c"], "top_n": 3})
    assert sorted(result["index"] for result in answer["results"]) == [0, 1, 2]
    assert all("relevance_score" in result for result in answer["results"])


@check("audio")
async def speech_becomes_text(caller, target):
    answer = caller.post("/audio/transcriptions", data={"model": target.model, "language": "en"},
                         headers={"Authorization": caller.headers["Authorization"]},
                         files={"file": ("a.wav", checks.wav())})
    assert answer["text"]


if __name__ == "__main__":
    checks.main(prepare)
