"""Where settings come from: a file, a URL on the command line, and what the command line says over both.

Owns the order (defaults < file < command line) and the rules that concern several settings at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from gateway.config import texts
from gateway.config.nodes import parse
from gateway.config.problems import ConfigError, Problem, Unfit
from gateway.config.read import Reader
from gateway.config.routing import check_routes
from gateway.config.show import HIDDEN
from gateway.settings import Listen, Settings, Upstream

FILE_BYTES = 256 * 2**10  # a file with every setting has 5 KiB; pyyaml takes seconds for a megabyte


@dataclass(frozen=True, slots=True)
class Overrides:
    """What the command line says over the file; None is silent. The caller has checked the port's range."""

    host: str | None = None
    port: int | None = None
    log_level: Literal["debug", "info", "warning", "error"] | None = None
    log_format: Literal["json", "text"] | None = None


NOTHING = Overrides()


def load(path: str | Path, environ: Mapping[str, str], overrides: Overrides = NOTHING) -> Settings:
    """The settings of a file. environ: where `${NAME}` is looked up. Raises ConfigError with everything that is wrong."""
    source = str(path)
    try:
        with Path(path).open("rb") as file:
            raw = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(source, (Problem("", f"cannot be read ({error.strerror or 'no such file'}): check --config"),)) from None
    except ValueError:  # a NUL in the path
        raise ConfigError(source, (Problem("", "cannot be read: this is no path"),)) from None
    if len(raw) > FILE_BYTES:
        raise ConfigError(source, (Problem("", f"is larger than {FILE_BYTES // 2**10} KiB: this is no configuration"),))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(source, (Problem("", "is not UTF-8: save it in that encoding", line),)) from None
    return loads(text, environ, overrides, source=source, folder=Path(path).absolute().parent)


def loads(
    text: str, environ: Mapping[str, str], overrides: Overrides = NOTHING, *, source: str = "<text>", folder: Path = Path()
) -> Settings:
    """As `load`, from the text of a file. folder: where relative paths in it start."""
    root = parse(text)
    if isinstance(root, Problem):
        raise ConfigError(source, (root,))
    reader = Reader(environ, folder)
    settings: Settings | None = reader.section(Settings, root, "")
    listen, problems = _override(settings.listen if settings else Listen(), overrides)
    if settings is not None:
        settings = _with(settings, listen, overrides)
        _check(settings, reader, host_given=overrides.host is not None)
    if root is None:  # an empty file: one word is better than the missing parts
        reader.problems[:] = [Problem("", "is empty: it needs at least upstreams: with a name: and a base_url:", 1)]
    if settings is None or reader.problems or problems:
        raise ConfigError(source, (*reader.problems, *problems))
    return settings


def from_upstream(url: str, overrides: Overrides = NOTHING) -> Settings:
    """The settings of `--upstream URL`: one upstream without a key of its own, and defaults. Raises ConfigError."""
    problems: list[Problem] = []
    try:
        texts.url(url)
    except Unfit as error:
        problems.append(Problem("", str(error)))
    listen, of_listen = _override(Listen(), overrides)
    problems += of_listen
    if problems:
        raise ConfigError("--upstream" if problems[0].path == "" else "command line", tuple(problems))
    return _with(Settings(upstreams=(Upstream(name="default", base_url=url),)), listen, overrides)


def warnings(settings: Settings) -> tuple[str, ...]:
    """What is allowed but worth a line in the log when the gateway starts."""
    found = []
    keyed = [upstream.name for upstream in settings.upstreams if has_own_key(upstream)]
    if keyed and not settings.clients and not texts.is_loopback(settings.listen.host):
        found.append(
            f"listen.allow_public: whoever reaches {settings.listen.host} uses the keys of {', '.join(keyed)}; "
            "let only your own programs reach it"
        )
    found += [
        f"upstreams[{index}]: its credential is {HIDDEN}, which is how --print-config hides one: put ${{NAME}} there"
        for index, upstream in enumerate(settings.upstreams)
        if HIDDEN in (*upstream.keys, *(value for _, value in upstream.headers))
    ]
    passing = (
        {} if settings.clients else {urlsplit(each.base_url).hostname: each.name for each in settings.upstreams if not has_own_key(each)}
    )
    if len(passing) > 1:
        found.append(
            f"upstreams {', '.join(passing.values())} have no key of their own: a client's credential goes to each that its request "
            "goes to, also as a fallback: give each an api_key"
        )
    return tuple(found)


def has_own_key(upstream: Upstream) -> bool:
    return bool(upstream.keys) or any(texts.is_secret_header(name) for name, _ in upstream.headers)


def _override(listen: Listen, overrides: Overrides) -> tuple[Listen, list[Problem]]:
    if overrides.port is not None:
        listen = replace(listen, port=overrides.port)
    if overrides.host is None:
        return listen, []
    try:
        return replace(listen, host=texts.host(overrides.host)), []
    except Unfit as error:
        return listen, [Problem("--host", str(error))]


def _with(settings: Settings, listen: Listen, overrides: Overrides) -> Settings:
    log = settings.log
    log = replace(log, level=overrides.log_level or log.level, format=overrides.log_format or log.format)
    return replace(settings, listen=listen, log=log)


def _check(settings: Settings, reader: Reader, host_given: bool) -> None:
    """The rules between settings. They speak only about settings that were read well: a stand-in's fault is nobody's."""
    wrong = {problem.path for problem in reader.problems}

    def report(path: str, message: str, *others: str) -> None:
        if wrong.isdisjoint((path, *others)):
            reader.problems.append(Problem(path, message, reader.lines.get(path)))

    pacing = settings.pacing
    if pacing.frame > pacing.ceiling_window:
        report(
            "pacing.frame",
            f"must not be longer than pacing.ceiling_window ({pacing.ceiling_window:g} s)",
            "pacing.ceiling_window",
        )
    if settings.resume.stream_bytes > settings.resume.total_bytes:
        report(
            "resume.stream_bytes",
            f"must not be larger than resume.total_bytes ({settings.resume.total_bytes})",
            "resume.total_bytes",
        )
    for path, where in (("admission.redis", settings.admission.redis), ("resume.redis", settings.resume.redis)):
        if where is not None and find_spec("redis") is None:
            report(path, "needs the client of Redis: pip install 'decluster[redis]'")
    _check_names(settings, reader, report)
    _check_clients(settings, reader, report)
    if settings.listen.allow_public or settings.clients or "clients" in reader.lines or texts.is_loopback(settings.listen.host):
        return
    for upstream in settings.upstreams:
        if has_own_key(upstream):
            report(
                "--host" if host_given else "listen.host",
                f"{settings.listen.host} is reached from other machines, and whoever reaches it would use the key of upstream "
                f"{upstream.name}: listen on 127.0.0.1, give your clients keys (clients:), let them send their own keys of the upstream, "
                "or set listen.allow_public: true",
                "listen.allow_public",
            )
            return


def _check_clients(settings: Settings, reader: Reader, report: Callable[..., None]) -> None:
    if any(problem.path.startswith("clients") for problem in reader.problems):
        return  # the list has gaps, so that places in it would be named wrongly
    for member in ("name", "key_sha256"):
        seen: dict[str, int] = {}
        for index, client in enumerate(settings.clients):
            value = getattr(client, member)
            if value in seen:
                report(f"clients[{index}].{member}", f"is also that of clients[{seen[value]}]: give each its own")
            seen.setdefault(value, index)


def _check_names(settings: Settings, reader: Reader, report: Callable[..., None]) -> None:
    first: dict[str, int] = {}
    if any(problem.path.startswith("upstreams") for problem in reader.problems):
        return  # the list has gaps, so that places in it would be named wrongly
    for index, upstream in enumerate(settings.upstreams):
        if upstream.name in first:
            report(f"upstreams[{index}].name", f"is also the name of upstreams[{first[upstream.name]}]: give each its own")
        first.setdefault(upstream.name, index)
    gaps = any(problem.path.startswith("routes") for problem in reader.problems)
    check_routes(replace(settings, routes=()) if gaps else settings, report)
