"""The live page in a real browser: what it shows is so, and is all that it was told."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Request, expect

PATIENCE_MS = 60_000  # for a machine that does other things; nothing here is judged by time
PROMPT = "PROMPT-OF-THE-TEST"


@pytest.fixture
def page(chromium: Browser, gateway: str) -> Iterator[Page]:
    """The page, live; whatever it asks of anybody but the gateway, and whatever goes wrong in it, fails the test."""
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    asked: list[str] = []

    def note(request: Request) -> None:
        asked.append(request.url)

    page.on("request", note)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.goto(gateway + "/")
    expect(page.locator("#state[data-state=live]")).to_have_text("live", timeout=PATIENCE_MS)
    yield page
    context.close()
    assert wrong == []
    assert [url for url in asked if not url.startswith((gateway + "/", "data:"))] == [], "nothing leaves the machine"


def metric(gateway: str, name: str, labels: str = "") -> float:
    with urllib.request.urlopen(gateway + "/metrics") as response:
        text = response.read().decode()
    found = [float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(name + "{") and labels in line]
    return sum(found)


def play(page: Page, model: str) -> None:
    """Try it, to its end."""
    page.fill("#model", model)
    page.fill("#prompt", PROMPT)
    page.click("#play")
    expect(page.locator("#try-verdict")).to_contain_text("Clusters", timeout=PATIENCE_MS)


def painted(page: Page, canvas: str, colour: str) -> int:
    """How many pixels of a canvas have the colour of a curve."""
    script = """([id, name]) => {
      const probe = document.createElement("span");
      probe.style.color = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);
      document.body.append(probe);
      const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
      probe.remove();
      const canvas = document.getElementById(id);
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      let count = 0;
      for (let i = 0; i < data.length; i += 4) if (data[i] === r && data[i + 1] === g && data[i + 2] === b) count += 1;
      return count;
    }"""
    return int(page.evaluate(script, [canvas, colour]))


def test_side_by_side_runs_to_its_end_and_the_texts_are_the_same(page: Page) -> None:
    play(page, "clusters")
    verdict = page.inner_text("#try-verdict")
    assert int(re.findall(r"Clusters (\d+) → \d+", verdict)[0]) >= 10
    assert "texts identical" in verdict
    for side in ("raw", "smooth"):
        expect(page.locator(f"#{side}-figures")).to_contain_text("ended: whole")
        assert painted(page, "try-curves", side) > 300


def test_a_streams_two_curves_are_drawn_and_its_figures_agree_with_metrics(page: Page, gateway: str) -> None:
    play(page, "clusters")
    rows = page.locator("#streams tbody tr").filter(has_text="whole")
    expect(rows).to_have_count(2, timeout=PATIENCE_MS)
    pairs = [tuple(map(int, re.findall(r"(\d+) → (\d+)", text)[0])) for text in rows.all_inner_texts()]
    assert min(out for _, out in pairs) < min(came for came, _ in pairs), "one of the two was smooth"
    row = rows.first
    row.locator("button").press("Enter")
    expect(page.locator("#detail-title")).to_be_focused()
    assert painted(page, "detail-curves", "raw") > 300
    assert painted(page, "detail-curves", "smooth") > 300
    expect(page.locator("#detail-curves")).to_have_attribute("aria-label", re.compile(r"tokens arrived in \d+ clusters"))
    expect(page.locator("#active")).to_have_text("0")
    shown = [int(page.inner_text(f"#clusters-{side}")) for side in ("in", "out")]
    counted = [metric(gateway, "decluster_clusters_total", f'side="{side}"') for side in ("upstream", "downstream")]
    assert shown == counted
    ends = page.locator("#ends tbody tr")
    expect(ends).to_have_count(1)
    assert metric(gateway, "decluster_stream_end_total", 'reason="whole"') == 2


def test_a_stream_that_runs_is_shown_while_it_runs(page: Page) -> None:
    page.fill("#model", "hangs-before-headers")
    page.click("#play")
    expect(page.locator("#active")).to_have_text("2", timeout=PATIENCE_MS)
    expect(page.locator("#streams tbody tr")).to_have_count(2)
    expect(page.locator("#streams tbody tr").first).to_contain_text("holding")


def test_an_error_is_told_with_its_remedy(page: Page) -> None:
    play(page, "no-finish")
    expect(page.locator("#ends")).to_contain_text("upstream_incomplete")
    expect(page.locator("#ends")).to_contain_text("ask again")
    expect(page.locator("#smooth-figures")).to_contain_text("error:")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
def test_it_fits_a_phone_and_both_schemes_by_keyboard_alone(page: Page, width: int, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.fill("#model", "instant")
    page.focus("#model")
    for _ in range(3):
        page.keyboard.press("Tab")
    expect(page.locator("#play")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#try-verdict")).to_contain_text("texts identical", timeout=PATIENCE_MS)
    assert painted(page, "try-curves", "smooth") > 20


def test_no_text_and_no_key_is_in_what_the_page_is_told(page: Page, gateway: str) -> None:
    page.fill("#key", "sk-KEY-OF-THE-TEST")
    play(page, "instant")
    said = page.inner_text("#smooth-text")
    assert len(said) > 40
    with urllib.request.urlopen(gateway + "/-/live") as response:
        look = response.readline().decode()
    assert json.loads(look[6:])["ended"], "the look that is searched knows the stream"
    for secret in (PROMPT, "sk-KEY-OF-THE-TEST", *re.findall(r"\w{6,}", said)):
        assert secret not in look
