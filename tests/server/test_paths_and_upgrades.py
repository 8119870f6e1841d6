"""Requests that try to leave the API, and offers of an upgrade that nobody takes."""

from __future__ import annotations

import pytest

from gateway.upstream.targets import api_path


@pytest.mark.parametrize(
    "path",
    [
        b"/v1/../admin",
        b"/chat/../../admin",
        b"/v1/%2e%2e/x",
        b"/v1/files/.%2E/x",
        b"/v1/..",
        b"/v1/./models",
        b"/v1/a%2f..%2fb",
        b"/v1\\..\\x",
    ],
)
def test_no_path_leaves_the_root_of_the_api(path: bytes) -> None:
    assert api_path(path) is None


@pytest.mark.parametrize("path", [b"/v1/files/a..b", b"/v1/models/org/..model", b"/v1/models/v1.0.", b"/v1/files/f%2F1"])
def test_dots_inside_a_name_are_names(path: bytes) -> None:
    assert api_path(path) == path.removeprefix(b"/v1")
