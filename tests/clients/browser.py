"""A web page in Chromium, with `fetch`: from another origin, shut out and let in, and from the page's own by a server in between."""

from __future__ import annotations

import http.client
import json
import shutil
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from sdks import processes
from sdks.answers import chat_outcome, typed_outcome
from sdks.cases import chat, messages, responses

from .checks import Check, same
from .servers import RUN_S, Site, run_script

PACKAGE: Final = "playwright-core"
SCRIPT: Final = "browser.mjs"
PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome")
SPEED: Final = "20"
APIS: Final = {"chat/completions": chat, "responses": responses, "messages": messages}
TEXT: Final = "smooth-then-clusters"
Json = dict[str, Any]


def program() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class _Page(BaseHTTPRequestHandler):
    """An empty page at /, and the gateway under /v1/ of the same origin, as a development server does it."""

    protocol_version = "HTTP/1.1"
    gateway: str

    def do_GET(self) -> None:
        body = b"<!doctype html><title>page</title>"
        self.send_response(200)
        self.send_header("content-type", "text/html")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        place = urlsplit(self.gateway)
        upstream = http.client.HTTPConnection(str(place.hostname), place.port, timeout=RUN_S)
        body = self.rfile.read(int(self.headers["content-length"]))
        fields = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection", "content-length")}
        upstream.request("POST", self.path, body, fields)
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() != "transfer-encoding":
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        while piece := answer.read1(65536):
            self.wfile.write(piece)
            self.wfile.flush()
        upstream.close()
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def page(gateway: str) -> Iterator[str]:
    handler = type("Page", (_Page,), {"gateway": gateway})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def job(base: str, path: str, model: str, name: str = "", **more: Any) -> Json:
    headers = {
        "content-type": "application/json",
        "authorization": "Bearer sk-test",
        "x-simulate-speed": SPEED,
        **({"x-request-id": name} if name else {}),
    }
    body = {**APIS[path](model), "stream": True}
    if path == "chat/completions":
        body["stream_options"] = {"include_usage": True}
    return {"url": f"{base}/v1/{path}", "headers": headers, "body": body, **more}


def direct(site: Site, path: str, model: str) -> Any:
    """The same request, sent to the upstream by this process, read the same way."""
    asked = job(site.direct, path, model)
    request = urllib.request.Request(asked["url"], json.dumps(asked["body"]).encode(), asked["headers"])
    with urllib.request.urlopen(request, timeout=RUN_S) as answer:
        frames = answer.read().decode().split("\n\n")
    data = ["\n".join(line.removeprefix("data: ") for line in frame.split("\n") if line.startswith("data: ")) for frame in frames]
    return outcome(path, [piece for piece in data if piece])


def outcome(path: str, data: Sequence[str]) -> Any:
    events = [json.loads(piece) for piece in data if piece != "[DONE]"]
    return (chat_outcome if path == "chat/completions" else typed_outcome)(events)


class Pages:
    """What the jobs of one page gave, all of them run together."""

    def __init__(self, site: Site, folder: Path, chromium: str) -> None:
        self.version = ""
        self.results: dict[str, Json] = {}
        with page(site.gateway) as own, processes.gateway(site.direct, site.root / "cors.log", cors(own)) as let_in:
            asked = {
                **{f"other {path}": job(let_in, path, TEXT) for path in APIS},
                **{f"own {path}": job(own, path, TEXT) for path in APIS},
                "shut out": job(site.gateway, "chat/completions", "instant", "page-shut-out"),
                "simple": {**job(site.gateway, "chat/completions", "refusal"), "headers": {"content-type": "text/plain"}},
                "refused": job(let_in, "chat/completions", "rate-limited"),
                "cut short": job(let_in, "chat/completions", "no-finish"),
                "left": job(let_in, "chat/completions", "clusters", "page-left", leaveAfter=5),
            }
            given = {"page": own, "program": chromium, "jobs": list(asked.values())}
            told = json.loads(run_script(SCRIPT, folder, json.dumps(given)))
            self.version = told["version"]
            self.results = dict(zip(asked, told["results"], strict=True))
            self.left = site.seen.ended("page-left")["outcome"]


def cors(origin: str) -> str:
    return f"listen: {{cors_origins: ['{origin}']}}\n"


def checks(pages: Pages, site: Site) -> Iterator[Check]:
    got = pages.results
    for path in APIS:
        whole = partial(direct, site, path, TEXT)
        for place in ("other", "own"):
            yield Check(
                f"{path}, page of {'another' if place == 'other' else 'its own'} origin: as a direct call",
                lambda path=path, place=place, whole=whole: _whole(path, got[f"{place} {path}"], whole()),
            )
    yield Check("not in listen.cors_origins: shut out, nothing reaches the upstream", lambda: _shut_out(got, site))
    yield Check("rate-limited: status, Retry-After and body can be read", lambda: _refused(got["refused"]))
    yield Check("no-finish: an error that names the cause", lambda: _cut_short(got["cut short"]))
    yield Check("aborted: cancelled at the upstream", lambda: same("cancelled", pages.left))


def _whole(path: str, result: Json, whole: Any) -> None:
    assert result["error"] is None, result["error"]
    assert result["status"] == 200
    assert result["fields"]["x-request-id"]
    assert result["reads"] > 20  # it streamed
    got = outcome(path, result["data"])
    assert whole.text
    assert got == whole


def _shut_out(got: dict[str, Json], site: Site) -> None:
    for name in ("shut out", "simple"):  # with a preflight, and as a request that needs none
        assert got[name]["error"] == {"kind": "TypeError", "message": "Failed to fetch"}, got[name]
    assert site.seen.entry("page-shut-out") is None
    with urllib.request.urlopen(f"{site.direct}/_sim/stats") as answer:
        chats = [entry for entry in json.load(answer)["log"] if entry["path"] == "/v1/chat/completions"]
    assert "refusal" not in [entry["model"] for entry in chats]  # the model that nothing else asks for on this path


def _refused(result: Json) -> None:
    assert (result["status"], result["fields"]["retry-after"]) == (429, "1")
    assert json.loads("".join(result["data"]))["error"]["code"] == "rate_limit_exceeded"


def _cut_short(result: Json) -> None:
    assert result["status"] == 200
    assert json.loads(result["data"][-1])["error"]["code"] == "upstream_incomplete"
