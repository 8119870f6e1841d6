"""The page among what it was not made for: odd names, a gateway that goes and comes, locked doors, many streams; and for those who do not see it."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from page.shoot import LARGEST_BYTES, PICTURES, shoot
from page.test_page import PATIENCE_MS, page, play

__all__ = ["page"]  # a fixture
ROOT = Path(__file__).parents[2]
ODD = '<img src=x onerror="window.stolen=1">\u202eevil\n👩\u200d💻שלום'


def ask(gateway: str, model: str) -> http.client.HTTPConnection:
    """A stream that was asked for and is not read."""
    to = urlsplit(gateway)
    connection = http.client.HTTPConnection(to.hostname or "", to.port)
    body = json.dumps({"model": model, "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    return connection


def test_a_model_may_be_called_anything_and_is_only_ever_text(page: Page, gateway: str) -> None:
    connection = ask(gateway, ODD)
    assert connection.getresponse().status == 404
    connection.close()
    button = page.locator("#streams tbody button").first
    expect(button).to_contain_text('<img src=x onerror="window.stolen=1">', timeout=PATIENCE_MS)
    button.press("Enter")
    expect(page.locator("#detail-title")).to_contain_text("<img src=x")
    assert page.locator("#streams img, #detail img").count() == 0
    assert page.evaluate("window.stolen") is None
    assert not set(page.inner_text("#streams")) & {"\u202e", "\u200d"}, "nothing that turns the line round"


@contextlib.contextmanager
def served(port: int, *arguments: str) -> Iterator[str]:
    command = [sys.executable, "-m", "gateway", "serve", "--port", str(port), "--log-format", "json", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            assert any("listening" in line for line in process.stderr)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.stderr.read()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def blank(chromium: Browser) -> Iterator[Page]:
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    context.close()


def test_a_gateway_that_is_started_anew_under_the_open_page_is_seen_again(blank: Page, upstream: str) -> None:
    port = free_port()
    with served(port, "--upstream", upstream) as url:
        blank.goto(url)
        expect(blank.locator("#state")).to_have_text("live", timeout=PATIENCE_MS)
        play(blank, "instant")
        blank.locator("#streams button").first.click()
        expect(blank.locator("#detail")).to_be_visible()
    expect(blank.locator("#state")).to_contain_text("trying again", timeout=PATIENCE_MS)
    with served(port, "--upstream", upstream):
        expect(blank.locator("#state")).to_have_text("live", timeout=PATIENCE_MS)
        expect(blank.locator("#streams tbody tr")).to_have_count(0)
        expect(blank.locator("#detail")).to_be_hidden()
        play(blank, "instant")
        expect(blank.locator("#streams tbody tr")).to_have_count(2)


def test_from_elsewhere_a_client_key_opens_the_page_and_lists_the_models(blank: Page, upstream: str, tmp_path: Path) -> None:
    key = "dk-open"
    digest = hashlib.sha256(key.encode()).hexdigest()
    config = tmp_path / "c.yaml"
    config.write_text(
        f"upstreams: [{{name: main, base_url: {upstream}, api_key: x}}]\nclients: [{{name: c, key_sha256: {digest}}}]\nlisten: {{hosts: [gateway.test]}}\n"
    )
    with served(free_port(), "--config", str(config)) as url:
        blank.set_extra_http_headers({"via": "1.1 proxy"})  # as from elsewhere
        blank.goto(url)
        expect(blank.locator("#unlock")).to_be_visible()
        expect(blank.locator("#state")).to_have_text("a client key is needed")
        blank.get_by_label("client key").fill("dk-wrong")
        blank.get_by_role("button", name="Open").click()
        expect(blank.locator("#state")).to_contain_text("opens nothing")
        blank.get_by_label("client key").fill(key)
        blank.keyboard.press("Enter")
        expect(blank.locator("#state")).to_have_text("live")
        expect(blank.locator("#unlock")).to_be_hidden()
        expect(blank.locator("#models option[value=clusters]")).to_have_count(1)
        play(blank, "instant")
        expect(blank.locator("#smooth-figures")).to_contain_text("whole")


def test_of_two_hundred_streams_the_newest_are_shown_and_all_are_counted(page: Page, gateway: str) -> None:
    connections = [ask(gateway, "hangs-before-headers") for _ in range(200)]
    expect(page.locator("#active")).to_have_text("200", timeout=PATIENCE_MS)
    expect(page.locator("#streams tbody tr")).to_have_count(60)
    for connection in connections:
        connection.close()
    expect(page.locator("#active")).to_have_text("0", timeout=PATIENCE_MS)
    expect(page.locator("#streams tbody tr")).to_have_count(40)


def test_what_plays_can_be_stopped_by_keyboard(page: Page) -> None:
    page.fill("#model", "hangs-before-headers")
    page.click("#play")
    expect(page.locator("#play")).to_be_disabled()
    page.focus("#stop")
    page.keyboard.press("Enter")
    expect(page.locator("#raw-figures")).to_contain_text("ended: stopped")
    expect(page.locator("#play")).to_be_focused()
    expect(page.locator("#stop")).to_be_hidden()
    expect(page.locator("#active")).to_have_text("0", timeout=PATIENCE_MS)


def tree(page: Page) -> str:
    return page.locator("body").aria_snapshot()


def test_everything_has_a_role_and_a_name_for_those_who_hear_the_page(page: Page) -> None:
    play(page, "instant")
    page.locator("#streams button").first.press("Enter")
    heard = tree(page)
    for role in (
        'heading "Streams" [level=2]',
        'region "Totals"',
        'table "Streams"',
        'table "Upstreams"',
        'table "How streams ended"',
        'columnheader "Clusters in → out"',
        'button "curves of instant"',
        'button "Play twice: raw and smooth"',
        'textbox "Prompt"',
        'img "Tokens against time.',
        'region "Raw text"',
    ):
        assert role in heard, heard
    assert page.evaluate("document.querySelectorAll('[role=status]').length") == 2
    unnamed = """() => [...document.querySelectorAll("button, input, textarea, canvas, [tabindex='0']")].filter((each) =>
        !each.closest("[hidden]") && !(each.textContent.trim() || each.labels?.length || each.getAttribute("aria-label") || each.getAttribute("aria-labelledby"))).map((each) => each.outerHTML)"""
    assert page.evaluate(unnamed) == []


def test_all_text_stands_out_from_its_ground_in_both_schemes(page: Page) -> None:
    contrast = """() => {
      const channel = (value) => ((value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
      const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map(Number).map(channel).reduce((sum, value, i) => sum + value * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (element) => { for (let each = element; each; each = each.parentElement) { const colour = getComputedStyle(each).backgroundColor; if (!/, 0\\)$/.test(colour)) return colour; } return "rgb(255, 255, 255)"; };
      return [...document.querySelectorAll("body *")].filter((each) => each.offsetParent && !each.disabled && [...each.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
        .map((each) => { const [a, b] = [light(getComputedStyle(each).color), light(ground(each))].sort(); return [(b + 0.05) / (a + 0.05), each.outerHTML.slice(0, 80)]; })
        .filter(([ratio]) => ratio < 4.5);
    }"""
    play(page, "instant")
    schemes: tuple[Any, ...] = ("light", "dark")
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(contrast) == [], scheme


def test_where_motion_is_not_wanted_it_draws_twice_a_second(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.reload()
    expect(page.locator("#state[data-state=live]")).to_have_text("live", timeout=PATIENCE_MS)
    counted = """async () => {
      let drawn = 0;
      const original = window.requestAnimationFrame;
      window.requestAnimationFrame = (show) => { drawn += 1; return original(show); };
      await new Promise((done) => setTimeout(done, 1500));
      window.requestAnimationFrame = original;
      return drawn;
    }"""
    assert page.evaluate(counted) == 0
    page.emulate_media(reduced_motion="no-preference")
    assert page.evaluate(counted) > 2


def test_the_pictures_of_the_documents_are_made_by_the_same_page(chromium: Browser, gateway: str, tmp_path: Path) -> None:
    shoot(chromium, gateway, tmp_path)
    for name in PICTURES:
        assert 5_000 < (tmp_path / name).stat().st_size < LARGEST_BYTES
        kept = ROOT / "docs" / "images" / name
        assert kept.read_bytes()[16:24] == (tmp_path / name).read_bytes()[16:24], "as large as they are in the documents"
        assert kept.stat().st_size < LARGEST_BYTES
