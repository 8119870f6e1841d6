"""A real Firefox, spoken to by WebDriver BiDi, which it speaks by itself: Debian's has no patches for playwright."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from support.programs import program

PATIENCE_S = 60


class Firefox:
    """One tab. wrong: what went wrong in pages, as its console has it."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.wrong: list[str] = []
        self._send("session.new", capabilities={})
        self._send("session.subscribe", events=["log.entryAdded"])
        self._tab: str = self._send("browsingContext.getTree")["contexts"][0]["context"]

    def visit(self, url: str) -> None:
        self._send("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    def evaluate(self, script: str) -> Any:
        """A script's value, a promise's too: what JSON can say."""
        script = f"(async () => JSON.stringify(await ({script})))()"
        found = self._send("script.evaluate", expression=script, target={"context": self._tab}, awaitPromise=True)
        assert found["type"] == "success", found
        return json.loads(found["result"].get("value", "null"))

    def until(self, script: str) -> None:
        """Wait for a condition, by the page's own clock."""
        wait = "new Promise((done) => setTimeout(done, 50))"
        self.evaluate(f"(async () => {{ for (let i = 0; i < {PATIENCE_S * 20} && !({script}); i += 1) await {wait}; return true; }})()")
        assert self.evaluate(script), script

    def _send(self, method: str, **params: Any) -> Any:
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=2 * PATIENCE_S))
            if message.get("method") == "log.entryAdded" and message["params"]["level"] == "error":
                self.wrong.append(str(message["params"]["text"]))
            if message.get("id") == number:
                assert message["type"] == "success", message
                return message["result"]


@contextlib.contextmanager
def firefox(profile: Path) -> Iterator[Firefox]:
    command = [program("firefox-esr"), "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(match for line in process.stderr if (match := re.search(r"BiDi listening on (ws://\S+)", line)))
            threading.Thread(target=process.stderr.read, daemon=True).start()
            with connect(found[1] + "/session", max_size=None, proxy=None) as socket:
                yield Firefox(socket)
        finally:
            process.terminate()
