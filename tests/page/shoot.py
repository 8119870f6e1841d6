"""The pictures of the page in docs/images: `python tests/page/shoot.py` makes them anew, by the tests' own browser, gateway and upstream."""

from __future__ import annotations

import io
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

if __name__ == "__main__":  # as pytest has it
    sys.path[:0] = [str(Path(__file__).parents[1])]

from PIL import Image
from playwright.sync_api import Browser, Page, expect

from gateway.companion import Companion
from page.conftest import browser
from support.simulated import simulated

FOLDER: Final = Path(__file__).parents[2] / "docs" / "images"
PICTURES: Final = {
    "page-light.png": (1100, 900, "light"),
    "page-dark.png": (1100, 900, "dark"),
    "page-phone.png": (390, 844, "light"),
    "page-try.png": (1100, 790, "light"),  # the last, as its raw stream is in the figures that others show
}
MODELS: Final = ("smooth-then-clusters", "clusters", "no-finish")
LARGEST_BYTES: Final = 200_000
PATIENCE_MS: Final = 120_000


def shoot(chromium: Browser, gateway: str, folder: Path) -> None:
    """Answers streamed to their ends while all pages look; then one played twice by the page itself."""
    pages = {name: _opened(chromium, gateway, *form) for name, form in PICTURES.items()}
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda model: _stream(gateway, model), MODELS))
    for name, page in pages.items():
        expect(page.locator("#active")).to_have_text("0", timeout=PATIENCE_MS)
        if name == "page-try.png":
            page.fill("#model", MODELS[0])
            page.click("#play")
            expect(page.locator("#try-verdict")).to_contain_text("Clusters", timeout=PATIENCE_MS)
            page.evaluate("for (const each of document.querySelectorAll('.text')) each.scrollTop = 0")
            page.locator("#try-title").evaluate("element => element.scrollIntoView()")
        else:
            page.locator("#streams tbody tr").filter(has_text=MODELS[0]).locator("button").first.click()
            top = "document.getElementById('detail-title').offsetTop - 90" if name == "page-phone.png" else "0"
            page.evaluate(f"window.scrollTo(0, {top})")
        page.evaluate("document.activeElement.blur()")
        _save(page.screenshot(), folder / name)
    for page in pages.values():
        page.context.close()


def _stream(gateway: str, model: str) -> None:
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]}
    request = urllib.request.Request(f"{gateway}/v1/chat/completions", json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request) as response:
        response.read()


def _opened(chromium: Browser, gateway: str, width: int, height: int, scheme: str) -> Page:
    context = chromium.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if scheme == "dark" else "light")
    page = context.new_page()
    page.goto(gateway + "/")
    expect(page.locator("#state[data-state=live]")).to_have_text("live", timeout=PATIENCE_MS)
    return page


def _save(shot: bytes, path: Path) -> None:
    Image.open(io.BytesIO(shot)).convert("RGB").quantize(96).save(path, "PNG", optimize=True)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with browser() as chromium, simulated() as upstream, Companion(upstream, direct=True) as gateway:
        shoot(chromium, gateway.url, FOLDER)
    for name in PICTURES:
        print(f"{FOLDER / name}: {(FOLDER / name).stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
