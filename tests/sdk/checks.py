# SPDX-License-Identifier: Apache-2.0
"""What the scripts of the Python clients share: where to ask, what to ask for, how to tell.

For:       a client's script registers checks (`@check(endpoint, form, feature)`) and ends in
           `main()`, which reads the target from its argument, runs the checks in order and prints
           one JSON line for each.
Used by:   openai_python.py, anthropic_python.py, langchain_*_python.py, litellm_python.py,
           openwebui.py, curl.py, h2load.py; checks.mjs is the same for Node.
Knows not: any client, the gateway's configuration.
"""

import asyncio
import base64
import inspect
import io
import json
import struct
import sys
import traceback
import uuid
import wave
import zlib

WRONG_KEY = "sk-wrong"
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
           "additionalProperties": False}
REQUEST_ID = r"^[A-Za-z0-9._-]{1,128}$"


class Target:
    """What a script is pointed at; run.py says it as one JSON argument.

    base, root: the address with /v1 and without
    protocol:   h1 or h2, which the client must speak
    model:      the model to ask; translated: the kind of its server, which lacks the endpoint
    endpoints:  the endpoints to check; all when empty
    direct:     no gateway there: what only a gateway does is not asked for
    """

    def __init__(self, client, root, key, protocol, model="small", endpoints=(), direct=False,
                 translated="", ca=None):
        self.client, self.root, self.base = client, root, root + "/v1"
        self.key, self.protocol, self.model = key, protocol, model
        self.endpoints, self.direct, self.translated, self.ca = endpoints, direct, translated, ca

    @property
    def h2(self):
        return self.protocol == "h2"


class Check:
    def __init__(self, endpoint, form, feature, gateway, function):
        self.endpoint, self.form, self.feature = endpoint, form, feature
        self.gateway, self.function = gateway, function
        self.name = function.__name__.replace("_", " ")


_checks = []


def check(endpoint, form="plain", feature="text", gateway=False):
    """Registers a check: the cell that it belongs to, and what of that cell it proves.

    form:    plain or stream
    gateway: only a gateway does this, so nothing is asked of a model server itself
    """
    def add(function):
        _checks.append(Check(endpoint, form, feature, gateway, function))
        return function
    return add


async def settle(value):
    """The value of a call, whether the client is a waiting one or an asynchronous one."""
    return await value if inspect.isawaitable(value) else value


async def each(stream):
    """The items of a stream of either kind."""
    if hasattr(stream, "__aiter__"):
        async for item in stream:
            yield item
    else:
        for item in stream:
            yield item


class within:
    """`async with within(manager)`, whichever kind the manager is."""

    def __init__(self, manager):
        self.manager = manager

    async def __aenter__(self):
        enter = getattr(self.manager, "__aenter__", None)
        return await enter() if enter else self.manager.__enter__()

    async def __aexit__(self, *what):
        leave = getattr(self.manager, "__aexit__", None)
        return await leave(*what) if leave else self.manager.__exit__(*what)


async def rejection(call, kind):
    """The error of a call, which must be of that kind. call: a function without arguments."""
    try:
        await settle(call())
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected, nothing was raised")


def said(directives, text="hello"):
    """A prompt whose answer the simulated server steers by directives."""
    return f"{text} [[fake {directives}]]"


def once():
    """The directive that keeps faults to the first request of this name."""
    return "once=" + uuid.uuid4().hex[:12]


def png():
    """One red point as a PNG in base64."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    whole = (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) +
             chunk(b"IDAT", zlib.compress(b"\x00\xff\x00\x00")) + chunk(b"IEND", b""))
    return base64.b64encode(whole).decode()


def wav():
    """A tenth of a second of silence."""
    out = io.BytesIO()
    with wave.open(out, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(1600))
    return out.getvalue()


def tool(name="weather"):
    """A tool as chat completions have it."""
    return {"type": "function", "function": {"name": name, "description": "the weather of a city",
                                             "parameters": WEATHER}}


def picture_parts(text):
    """The content of a message with a picture beside its text."""
    return [{"type": "text", "text": text},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{png()}"}}]


def _wanted(target, one):
    return (not target.endpoints or one.endpoint in target.endpoints) and \
        not (target.direct and one.gateway)


async def _run(target, arguments):
    for one in _checks:
        if not _wanted(target, one):
            continue
        trouble = None
        try:
            await asyncio.wait_for(settle(one.function(*arguments)), 30)
        except Exception:
            trouble = traceback.format_exc(limit=-3)
        print(json.dumps({"client": target.client, "protocol": target.protocol,
                          "endpoint": one.endpoint, "form": one.form, "feature": one.feature,
                          "translated": target.translated, "check": one.name,
                          "trouble": trouble}), flush=True)


def main(prepare):
    """Runs all checks, each with what prepare(target) returns (a tuple of arguments)."""
    target = Target(**json.loads(sys.argv[1]))
    asyncio.run(_run(target, prepare(target)))
