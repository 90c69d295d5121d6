# SPDX-License-Identifier: Apache-2.0
"""h2load: some requests at once on a few connections, all of them answered.

For:       see checks.py. HTTP/2 by ALPN over TLS, by prior knowledge without.
Used by:   run.py.
Knows not: the gateway's configuration; how fast anything is.
"""

import asyncio
import json
import re
import tempfile

import checks
from checks import check, said

REQUESTS = 60


class H2load:
    def __init__(self, target):
        self.target = target

    async def run(self, path, **body):
        """Sends the body that often; fails unless every answer is a 200."""
        with tempfile.NamedTemporaryFile("w") as file:
            json.dump({"model": self.target.model, **body}, file)
            file.flush()
            more = ["-m", "10"] if self.target.h2 else ["--h1"]
            child = await asyncio.create_subprocess_exec(
                "h2load", "-n", str(REQUESTS), "-c", "3", *more, "-d", file.name,
                "-H", f"authorization: Bearer {self.target.key}",
                "-H", "content-type: application/json", self.target.root + path,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT)
            out = (await child.communicate())[0].decode()
        assert re.search(rf"{REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout", out), out
        assert f"{REQUESTS} 2xx" in out, out
        protocol = re.search(r"Application protocol: (\S+)", out).group(1)
        assert protocol == ("http/1.1" if not self.target.h2 else
                            "h2" if self.target.root.startswith("https:") else "h2c"), protocol


def prepare(target):
    return (H2load(target),)


@check("chat", feature="many")
async def chats_are_answered(h2load):
    await h2load.run("/v1/chat/completions",
                     messages=[{"role": "user", "content": said("tokens=5")}])


@check("chat", "stream", feature="many")
async def chats_are_streamed(h2load):
    await h2load.run("/v1/chat/completions", stream=True,
                     messages=[{"role": "user", "content": said("tokens=20 delay_ms=2")}])


@check("embeddings", feature="many")
async def embeddings_are_made(h2load):
    await h2load.run("/v1/embeddings", input=["a", "b"])


if __name__ == "__main__":
    checks.main(prepare)
