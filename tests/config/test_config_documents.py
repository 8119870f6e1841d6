"""Documents and examples that speak of settings and errors say all of them, and what is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.config import load
from gateway.config.schema import PAIRS, REQUIRED, Field, leaves
from gateway.config.values import amount
from gateway.errors import CODES
from gateway.settings import Range, Settings, Upstream

ROOT = Path(__file__).parents[2]
LEAVES = dict(leaves())


def rows(document: str, columns: int) -> dict[str, list[str]]:
    """The cells of the tables' rows that begin with a `name`, by that name."""
    found: dict[str, list[str]] = {}
    for line in (ROOT / "docs" / document).read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == columns:
            name = cells[0].strip("`")
            assert name not in found, f"{name} stands twice in {document}"
            found[name] = cells
    return found


SETTINGS = rows("configuration.md", 5)
ERRORS = rows("errors.md", 5)


def default_of(field: Field) -> str:
    if field.default is REQUIRED:
        return "required"
    if isinstance(field.mark, Range):
        return "off" if field.default is None else amount(field.default, field.mark.unit)
    empty = {None: "`null`", (): "`{}`" if field.type in PAIRS else "`[]`", False: "`false`", True: "`true`"}
    if isinstance(field.default, tuple) and field.default:
        return ", ".join(f"`{item}`" for item in field.default)
    return empty.get(field.default, f"`{field.default}`")


def range_of(field: Field) -> str | None:
    if isinstance(field.mark, Range):
        limits = f"{amount(field.mark.low, field.mark.unit)} to {amount(field.mark.high, field.mark.unit)}"
        return f"{limits}, off" if field.optional else limits
    return ", ".join(f"`{choice}`" for choice in field.choices) if field.choices else None


def type_of(field: Field) -> str:
    if isinstance(field.mark, Range):
        return {"s": "duration", "bytes": "size", "USD": "amount", "": "number" if field.type is float else "whole number"}[field.mark.unit]
    if field.choices:
        return "choice"
    if field.type is bool:
        return "true or false"
    if field.type in PAIRS:
        return "section of `name: value`"
    return "list of text" if field.many else "file" if field.mark and field.mark.role == "file" else "text"


def test_the_table_of_settings_is_whole_and_names_nothing_else() -> None:
    assert set(SETTINGS) == set(LEAVES)


@pytest.mark.parametrize("path", LEAVES)
def test_the_table_says_of_each_setting_what_is_so(path: str) -> None:
    _, kind, default, bounds, reason = SETTINGS[path]
    field = LEAVES[path]
    assert (kind, default) == (type_of(field), default_of(field))
    assert range_of(field) in (None, bounds)
    assert len(reason) > 10


def test_the_table_of_errors_is_whole_and_says_what_is_so() -> None:
    assert {code: (int(cells[1]), cells[2].strip("`")) for code, cells in ERRORS.items()} == CODES
    assert all(cells[3] and cells[4] for cells in ERRORS.values())


def test_the_example_loads_without_any_variable_and_holds_every_default() -> None:
    settings = load(ROOT / "config" / "decluster.example.yaml", {})
    assert settings == Settings(upstreams=(Upstream("openai", "https://api.openai.com/v1"),))


def test_the_example_mentions_every_setting() -> None:
    text = (ROOT / "config" / "decluster.example.yaml").read_text()
    assert [path for path, field in LEAVES.items() if not re.search(rf"^[ #-]*{field.name}:", text, re.MULTILINE)] == []


def test_what_is_commented_out_in_the_example_loads_too(tmp_path: Path) -> None:
    text = (ROOT / "config" / "decluster.example.yaml").read_text()
    text = text.replace("    api_key: null\n", "").replace("    headers: {}\n", "").replace("    ca_file: null\n", "")
    text = re.sub(r"^    # ((?:api_key|headers|  openai-organization|ca_file):.*)", r"    \1", text, flags=re.MULTILINE)
    (tmp_path / "company-ca.pem").write_text("x")
    (tmp_path / "decluster.yaml").write_text(text)
    settings = load(tmp_path / "decluster.yaml", {"OPENAI_API_KEY": "k", "OPENAI_ORG": "o"})
    (upstream,) = settings.upstreams
    assert (upstream.api_key, upstream.headers) == ("k", (("openai-organization", "o"),))
    assert upstream.ca_file is not None


def test_the_clients_limits_and_prices_that_the_example_shows_load_too(tmp_path: Path) -> None:
    text = (ROOT / "config" / "decluster.example.yaml").read_text()
    for name, first, indent in (
        ("clients: []", "#   - name: alice", ""),
        ("models: []", '  #   - models: ["gpt-5*"]\n  #', "  "),
        ("prices: []", '  #   - models: ["qwen', "  "),
    ):
        start = text.index(first)
        end = text.index(f"\n{indent}{name}", start)
        shown = re.sub(rf"^{indent}#", indent, text[start:end], flags=re.MULTILINE)
        text = text[:start] + f"{indent}{name.removesuffix(' []')}\n{shown}" + text[end + len(f"\n{indent}{name}") :]
    (tmp_path / "decluster.yaml").write_text(text)
    settings = load(tmp_path / "decluster.yaml", {})
    assert [client.budget_per_day for client in settings.clients] == [5.0]
    assert [limit.tokens_per_minute for limit in settings.admission.models] == [400_000]
    assert [price.models for price in settings.cost.prices] == [("qwen3-*",)]


def test_the_routes_that_the_example_shows_load_too(tmp_path: Path) -> None:
    text = (ROOT / "config" / "decluster.example.yaml").read_text()
    before, shown = text[: text.index("#   - models:")], text[text.index("#   - models:") : text.index("routes: []")]
    upstreams = [f"  - {{name: {name}, base_url: 'http://x', cut: {{prefill: plain}}}}" for name in ("azure", "local")]
    after = text[text.index("routes: []") :].replace("routes: []", "routes:\n" + re.sub(r"^#", "", shown, flags=re.MULTILINE))
    (tmp_path / "decluster.yaml").write_text(before + "\n" + "\n".join(upstreams) + "\n" + after)
    settings = load(tmp_path / "decluster.yaml", {})
    assert [len(route.targets) + len(route.fallbacks) for route in settings.routes] == [3, 1]
    assert settings.routes[0].targets[0].set == (("reasoning_effort", "low"),)
