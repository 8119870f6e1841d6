"""Laws: no text makes the loader raise anything but ConfigError; what is printed loads again to the same settings."""

from __future__ import annotations

import string
from contextlib import suppress
from dataclasses import fields, replace
from typing import Any

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.config import ConfigError, loads, show
from gateway.config.schema import CAP, HEADER, MEMBER, REQUIRED, Field, fields_of, leaves
from gateway.config.texts import RESERVED_HEADERS, is_secret_header
from gateway.settings import Range, RouteTarget, Settings, Text, Upstream

_WORDS = sorted({field.name for _, field in leaves()} | {"upstreams", "pacing", "listen", "${A}", "${", "off", "1:30", "<<", "!!int"})
_BITS = [
    *_WORDS,
    *":-[]{},&*!|>'\"%@#? \n\t",
    "\n  ",
    "\n- ",
    ": ",
    "---\n",
    "&a ",
    "*a",
    "\\U",
    "\r",
    "\x85",
    "\ud800",
    "0x",
    ".nan",
]

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
models = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20).filter(str.isprintable)
visible = st.text(string.ascii_letters + string.digits + string.punctuation, min_size=1, max_size=20)
urls = st.builds(
    "{}://{}{}{}".format,
    st.sampled_from(["http", "https", "HTTPS"]),
    st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?(\.[a-z]{1,8})?", fullmatch=True) | st.just("[::1]"),
    st.sampled_from(["", ":1", ":8000"]),
    st.sampled_from(["", "/", "/v1", "/a%20b/v1/$${X}"]),
)
hosts = st.sampled_from(["127.0.0.1", "0.0.0.0", "::1", "localhost", "gateway.internal"])  # noqa: S104
headers = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9-]{0,15}", fullmatch=True).filter(lambda name: name not in RESERVED_HEADERS and not is_secret_header(name)),
    st.builds("{} {}".format, visible, visible),
    max_size=3,
).map(lambda found: tuple(found.items()))
members = st.dictionaries(
    st.from_regex(r"[a-z_]{1,8}(\.[a-z]{1,8})?", fullmatch=True).filter(
        lambda name: name not in ("model", "messages", "input", "prompt", "stream")
    ),
    st.booleans() | st.integers(0, 2**53) | st.text(string.ascii_letters + string.digits + " .:${-", min_size=1, max_size=12),
    max_size=3,
).map(lambda found: tuple(found.items()))
caps = st.dictionaries(st.from_regex(r"[a-z_]{6,8}", fullmatch=True), st.integers(0, 2**53), max_size=2).map(
    lambda found: tuple(found.items())
)
PAIRED = {HEADER: headers, MEMBER: members, CAP: caps}
trees = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_WORDS), inner, max_size=6),
    max_leaves=30,
)
origins = st.sampled_from(["*", "null", "http://localhost:5173", "https://chat.example.com", "app://obsidian.md", "http://[::1]:3000"])
TEXTS = {
    "output": st.none(),
    "redis": st.none(),
    "sha256": st.text("0123456789abcdef", min_size=64, max_size=64),
    "name": names,
    "model": models,
    "pattern": models,
    "url": urls,
    "host": hosts,
    "origin": origins,
    "secret": st.none(),
    "file": st.none(),
}


def values(field: Field) -> st.SearchStrategy[Any]:
    """All that a setting may be, but for secrets, which do not come back."""
    found: st.SearchStrategy[Any]
    if field.is_section:
        found = sections(field.type)
    elif field.type in PAIRED:
        return PAIRED[field.type]
    elif field.many and isinstance(field.mark, Text) and field.mark.role == "secret":
        return st.just(())
    elif field.choices:
        found = st.sampled_from(field.choices)
    elif field.type is bool:
        found = st.booleans()
    elif isinstance(field.mark, Text):
        found = TEXTS[field.mark.role]
    elif field.type is int:
        assert isinstance(field.mark, Range)
        found = st.integers(int(field.mark.low), int(field.mark.high))
    else:
        assert isinstance(field.mark, Range)
        found = st.floats(field.mark.low, field.mark.high)
    if field.many:
        key = (lambda item: item.name) if field.type is Upstream else None
        found = st.lists(found, min_size=int(field.default is REQUIRED), max_size=3, unique_by=key or (lambda item: item)).map(tuple)
    return st.none() | found if field.optional else found


def sections(cls: type[Any]) -> st.SearchStrategy[Any]:
    return st.builds(cls, **{name: values(field) for name, field in fields_of(cls).items()})


def complaints(text: str, environ: dict[str, str]) -> list[str] | None:
    try:
        loads(text, environ)
    except ConfigError as error:
        return error.lines()
    return None


def is_possible(found: Settings) -> bool:
    return found.pacing.frame <= found.pacing.ceiling_window


def fitted(made: Settings) -> Settings:
    """With routes that lead to upstreams that there are, clients that differ, and room for one stream at least."""

    def led(targets: tuple[RouteTarget, ...]) -> tuple[RouteTarget, ...]:
        return tuple(dict.fromkeys(replace(target, upstream=made.upstreams[0].name, weight=target.weight or 1) for target in targets))

    routes = (replace(each, targets=led(each.targets), fallbacks=led(each.fallbacks), on_cut="error") for each in made.routes)
    resume = replace(made.resume, total_bytes=max(made.resume.total_bytes, made.resume.stream_bytes))
    clients = {client.key_sha256: client for client in {client.name: client for client in made.clients}.values()}
    return replace(made, routes=tuple(dict.fromkeys(routes)), resume=resume, clients=tuple(clients.values()))


@settings(deadline=None, max_examples=300)
@given(st.text())
def test_no_text_raises_anything_but_a_config_error(text: str) -> None:
    with suppress(ConfigError):
        loads(text, {})


@settings(deadline=None, max_examples=1000)
@given(st.lists(st.sampled_from(_BITS), max_size=40).map("".join), st.dictionaries(st.just("A"), st.text()))
@example('"\\UFFFFFFFF"', {})
@example("? - a\n", {})
@example("%TAG ! tag:\n--- !x y", {})
@example("a: !<tag:yaml.org,2002:int> [", {})
@example("upstreams: [{name: a, base_url: '${A}'}]", {"A": "http://[\ud800"})
def test_nothing_made_of_the_bits_of_a_configuration_does_either_and_each_problem_is_one_line(text: str, environ: dict[str, str]) -> None:
    lines = complaints(text, environ)
    assert lines is None or (lines and all(line.isprintable() for line in lines))


@settings(deadline=None, max_examples=300)
@given(trees)
def test_no_tree_under_known_names_does_either(tree: object) -> None:
    with suppress(ConfigError):
        loads(yaml.safe_dump(tree), {"A": "x"})


@settings(deadline=None, max_examples=200)
@given(sections(Settings).filter(is_possible).map(fitted))
def test_what_is_printed_loads_again_to_the_same_settings(made: Settings) -> None:
    assert loads(show(made), {}) == made


def test_every_field_of_the_settings_is_in_the_schema() -> None:
    assert [field.name for field in fields(Settings)] == list(fields_of(Settings))
    assert all(field.mark or field.choices or field.type in (bool, *PAIRED) for _, field in leaves())
