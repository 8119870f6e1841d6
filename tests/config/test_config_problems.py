"""What is wrong with a file is found all at once, each with path and line, and never raises anything but ConfigError."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config import ConfigError, load, loads

UPSTREAM = "upstreams: [{name: a, base_url: 'https://api.example.com/v1'}]\n"


def problems(text: str, environ: dict[str, str] | None = None) -> list[tuple[int | None, str, str]]:
    with pytest.raises(ConfigError) as caught:
        loads(text, environ or {})
    for line in caught.value.lines():
        assert line.isprintable()
    return [(problem.line, problem.path, problem.message) for problem in caught.value.problems]


def only_problem(text: str, environ: dict[str, str] | None = None) -> tuple[int | None, str, str]:
    found = problems(text, environ)
    assert len(found) == 1, found
    return found[0]


def test_every_problem_of_a_file_is_reported_at_once_in_the_order_of_its_lines() -> None:
    text = """\
upstreams:
  - name: a
    base_url: https://user:hunter2@example.com/v1
    api_key: 123
  - name: b b
    base_url: ${MISSING}
  - nam: c
listen: {port: 80000, host: "http://x"}
heartbeat:
  evry: 15
pacing:
  max_lag: {content: -1, reasoning: .nan}
  mode: smoth
clocks:
  silence: 5m
  silence: 3
shutdown: 5
"""
    with pytest.raises(ConfigError) as caught:
        loads(text, {}, source="decluster.yaml")
    assert [line.split(": ")[:2] for line in caught.value.lines()] == [
        ["decluster.yaml:3", "upstreams[0].base_url"],
        ["decluster.yaml:4", "upstreams[0].api_key"],
        ["decluster.yaml:5", "upstreams[1].name"],
        ["decluster.yaml:6", "upstreams[1].base_url"],
        ["decluster.yaml:7", "upstreams[2].nam"],
        ["decluster.yaml:7", "upstreams[2].name"],
        ["decluster.yaml:7", "upstreams[2].base_url"],
        ["decluster.yaml:8", "listen.host"],
        ["decluster.yaml:8", "listen.port"],
        ["decluster.yaml:10", "heartbeat.evry"],
        ["decluster.yaml:12", "pacing.max_lag.content"],
        ["decluster.yaml:12", "pacing.max_lag.reasoning"],
        ["decluster.yaml:13", "pacing.mode"],
        ["decluster.yaml:16", "clocks.silence"],
        ["decluster.yaml:17", "shutdown"],
    ]
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "path", "meant"),
    [
        ("heartbeat: {evry: 15}", "heartbeat.evry", "did you mean heartbeat.every?"),
        ("listen: {keep-alive: 15}", "listen.keep-alive", "did you mean listen.keep_alive?"),
        ("listen: {Port: 15}", "listen.Port", "did you mean listen.port?"),
        ("port: 80", "port", "did you mean listen.port?"),
        ("content: 1", "content", "did you mean pacing.max_lag.content?"),
        ("shutdown: {wibble: 1}", "shutdown.wibble", "known here: grace"),
    ],
)
def test_an_unknown_key_comes_with_what_was_probably_meant(text: str, path: str, meant: str) -> None:
    _, found, message = only_problem(UPSTREAM + text)
    assert (found, message.rpartition("; ")[2]) == (path, meant)


def test_an_unknown_key_is_shown_on_one_line_and_cut_whatever_it_holds() -> None:
    _, path, message = only_problem(UPSTREAM + '"a\\nb\\u001b[31m\\uD800' + "x" * 500 + '": 1')
    assert path.startswith("a\\nb\\x1b[31m\\ud800xxx")
    assert len(path) < 100
    assert "unknown key" in message


def test_a_key_given_twice_names_the_line_of_the_first() -> None:
    assert only_problem(UPSTREAM + "log:\n  level: info\n  format: json\n  level: debug\n") == (
        *(5, "log.level"),
        "given twice, first in line 3: take one out",
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("", 1, "is empty"),
        ("# only a comment\n", 1, "is empty"),
        ("- a\n", 1, "must be settings"),
        ("just text", 1, "must be settings"),
        ("a: [1,\n", 2, "not valid YAML"),
        ("a: b\n\tc: d\n", 2, "cannot start any token"),
        ("a: b\n c: d\n", 2, "mapping values are not allowed here"),
        ("a: 1\n---\na: 2\n", 2, "expected a single document"),
        ("a: *nowhere\n", 1, "undefined alias"),
        ("a: ok\nb: \x01\n", 2, "U+0001"),
        ('a: "\\UFFFFFFFF"\n', 1, "not valid YAML"),
        ("a: " + "[" * 500, 1, "nested deeper than 16 levels"),
        ("%YAML 9.9\n---\na: b\n", 1, "version"),
    ],
)
def test_a_fault_of_syntax_comes_with_its_line(text: str, line: int, said: str) -> None:
    found_line, _, message = problems(text)[0]
    assert found_line == line
    assert said in message


@pytest.mark.parametrize(
    "text", ["upstreams: []", "upstreams:", "log: {level: info}", "upstreams: &a [*a]", "upstreams: {name: a}", "upstreams: x"]
)
def test_a_file_without_an_upstream_is_refused(text: str) -> None:
    assert any(path.startswith("upstreams") for _, path, _ in problems(text))


def test_two_upstreams_of_one_name_are_refused() -> None:
    text = "upstreams:\n- {name: a, base_url: 'http://x'}\n- {name: b, base_url: 'http://x'}\n- {name: a, base_url: 'http://y'}\n"
    line, path, message = only_problem(text)
    assert (line, path) == (4, "upstreams[2].name")
    assert "upstreams[0]" in message


def test_the_same_entry_twice_is_one_problem() -> None:
    assert only_problem("upstreams:\n- &a {name: a, base_url: 'http://x'}\n- *a\n")[1] == "upstreams[1]"


def test_a_frame_longer_than_the_window_is_refused_and_named_with_both() -> None:
    _, path, message = only_problem(UPSTREAM + "pacing: {frame: 100ms}")
    assert path == "pacing.frame"
    assert "pacing.ceiling_window (0.064 s)" in message


def test_a_rule_between_settings_is_silent_about_one_that_was_not_understood() -> None:
    assert [path for _, path, _ in problems(UPSTREAM + "pacing: {frame: 100ms, ceiling_window: long}")] == ["pacing.ceiling_window"]


def test_rules_between_settings_are_checked_beside_other_problems() -> None:
    found = [path for _, path, _ in problems("pacing: {frame: 100ms, end: never}")]
    assert sorted(found) == ["pacing.end", "pacing.frame", "upstreams"]


def test_an_api_key_and_an_authorization_header_exclude_each_other() -> None:
    text = "upstreams: [{name: a, base_url: 'http://x', api_key: k, headers: {Authorization: Bearer x}}]"
    assert only_problem(text)[1] == "upstreams[0].headers.authorization"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a: {<<: {b: c}}", "a"),
        ("log: {<<: {level: info}}", "log.<<"),
        ("log: {? [a] : b}", "log.?"),
        ("log: {level: !!python/name:os.system info}", "log.level"),
        ("log: {level: !mine info}", "log.level"),
        ("log: {level: !!binary aW5mbw==}", "log.level"),
        ("log: {level: [info]}", "log.level"),
        ("log: {level: {info: info}}", "log.level"),
        ("log: []", "log"),
        ("log: info", "log"),
        ("pacing: {max_lag: 3}", "pacing.max_lag"),
    ],
)
def test_forms_that_mean_nothing_here_are_refused_at_their_place(text: str, path: str) -> None:
    assert only_problem(UPSTREAM + text)[1] == path


def test_sections_whose_lines_are_all_commented_out_keep_their_defaults() -> None:
    settings = loads(UPSTREAM + "pacing:\n  # mode: raw\nheartbeat: ~\nlog: {}\n", {})
    assert settings == loads(UPSTREAM, {})


def test_anchors_may_be_used_across_upstreams() -> None:
    text = """\
upstreams:
- {name: a, base_url: 'http://x', headers: &h {x-team: blue}}
- {name: b, base_url: 'http://y', headers: *h}
"""
    assert [upstream.headers for upstream in loads(text, {}).upstreams] == [(("x-team", "blue"),)] * 2


def test_what_cannot_be_read_as_a_file_is_said_in_one_line(tmp_path: Path) -> None:
    broken, large, good = tmp_path / "broken", tmp_path / "large", tmp_path / "good"
    broken.write_bytes(b"a: b\nc: \xff\n")
    large.write_bytes(b"#" * (256 * 2**10 + 1))
    good.write_bytes(b"\xef\xbb\xbf" + UPSTREAM.encode().replace(b"\n", b"\r\n"))
    for path, said in [
        (tmp_path / "none", "No such file"),
        (tmp_path, "Is a directory"),
        (Path("a\0b"), "is no path"),
        (broken, "not UTF-8"),
        (large, "larger than 256 KiB"),
    ]:
        with pytest.raises(ConfigError, match=said) as caught:
            load(path, {})
        assert len(caught.value.lines()) == 1
    assert caught.value.source == str(large)
    assert load(good, {}) == loads(UPSTREAM, {})
    with pytest.raises(ConfigError) as caught:
        load(broken, {})
    assert caught.value.problems[0].line == 2
