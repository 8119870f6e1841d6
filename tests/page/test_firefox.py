"""The page in a real Firefox: side by side to its end, both curves, by keyboard's own events, and nothing wrong in its console."""

from __future__ import annotations

import json
from pathlib import Path

from page.firefox import firefox

COUNTED = """(() => {
  const probe = document.createElement("span");
  probe.style.color = getComputedStyle(document.documentElement).getPropertyValue("--%s");
  document.body.append(probe);
  const [r, g, b] = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  const canvas = document.getElementById("%s");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let count = 0;
  for (let i = 0; i < data.length; i += 4) if (Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b) < 12) count += 1;
  return count;
})()"""


def test_it_works_there_as_well(gateway: str, tmp_path: Path) -> None:
    with firefox(tmp_path) as browser:
        browser.visit(gateway + "/")
        browser.until('document.getElementById("state").textContent === "live"')
        browser.evaluate("(document.getElementById('model').value = 'clusters', document.getElementById('play').click())")
        browser.until('document.getElementById("try-verdict").textContent !== ""')
        assert "texts identical" in browser.evaluate('document.getElementById("try-verdict").textContent')
        browser.until('document.querySelectorAll("#streams tbody tr").length === 2')
        browser.evaluate('document.querySelector("#streams button").click()')
        assert browser.evaluate("document.activeElement.id") == "detail-title"
        for canvas, colour in (("try-curves", "raw"), ("try-curves", "smooth"), ("detail-curves", "raw"), ("detail-curves", "smooth")):
            assert browser.evaluate(COUNTED % (colour, canvas)) > 200, (canvas, colour)
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        told = json.dumps(browser.wrong)
    assert told == "[]"
