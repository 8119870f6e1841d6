"""What a compiler asks of the modules that it may take (hatch_build.py), found without one; and that what is published is compiled."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pkgutil
import tomllib
from abc import ABCMeta
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest
import yaml

import gateway
from deploy.dockerfile import read

ROOT = Path(__file__).parents[2]
SWITCH = "HATCH_BUILD_HOOK_ENABLE_CUSTOM"


def loaded(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOK = loaded(ROOT / "hatch_build.py")
COMPILED = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for path in HOOK.modules(ROOT)}


@pytest.fixture(scope="module")
def classes() -> dict[str, list[type]]:
    """By module, those that it defines."""
    names = [found.name for found in pkgutil.walk_packages(gateway.__path__, "gateway.") if not found.name.endswith("__main__")]
    return {
        name: [value for value in vars(importlib.import_module(name)).values() if inspect.isclass(value) and value.__module__ == name]
        for name in names
    }


def of_compiled(classes: dict[str, list[type]]) -> Iterator[tuple[str, type]]:
    return ((name, each) for name in sorted(COMPILED & classes.keys()) for each in classes[name])


def test_each_name_in_the_list_names_a_module() -> None:
    package = ROOT / "gateway"
    for pattern in HOOK.COMPILED:
        assert list(package.glob(pattern)), pattern
    for name in HOOK.INTERPRETED:
        assert (package / name).is_file(), name
        assert name not in {path.relative_to(package).as_posix() for path in HOOK.modules(ROOT)}


def test_the_list_is_the_stream_s_path(classes: dict[str, list[type]]) -> None:
    assert classes.keys() >= COMPILED
    assert {name.split(".")[1] for name in COMPILED} >= {"piece", "wire", "dialects", "pacing", "stream", "relay"}


def test_nothing_interpreted_inherits_from_a_compiled_class_which_would_not_hear_of_its_methods(classes: dict[str, list[type]]) -> None:
    heirs = [
        f"{name}.{each.__name__} of {base.__module__}.{base.__name__}"
        for name in sorted(classes.keys() - COMPILED)
        for each in classes[name]
        for base in each.__mro__[1:]
        if base.__module__ in COMPILED
    ]
    assert heirs == [], "compile these modules as well (hatch_build.py), or ask instead of inheriting"


def test_no_compiled_class_is_a_struct_whose_fields_the_compiler_would_not_see(classes: dict[str, list[type]]) -> None:
    assert [f"{name}.{each.__name__}" for name, each in of_compiled(classes) if issubclass(each, msgspec.Struct)] == []


def test_no_compiled_class_is_an_abc_since_compiled_ones_share_the_caches_of_issubclass(classes: dict[str, list[type]]) -> None:
    assert [f"{name}.{each.__name__}" for name, each in of_compiled(classes) if type(each) is ABCMeta] == []


def test_no_compiled_module_beside_its_source_is_older_than_it() -> None:
    """Python would take the old one without a word: delete them (git clean -X), or build anew."""
    suffix = HOOK.suffix()
    stale = [
        path
        for path in (ROOT / "gateway").rglob(f"*{suffix}")
        if path.stat().st_mtime < path.with_name(path.name.removesuffix(suffix) + ".py").stat().st_mtime
    ]
    assert stale == []


def test_it_is_off_unless_asked_for_and_then_brings_its_compiler() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    hook = build["targets"]["wheel"]["hooks"]["custom"]
    assert hook["enable-by-default"] is False
    assert {name.partition(">")[0] for name in hook["dependencies"]} == {"mypy", "setuptools"}
    assert hook["require-runtime-dependencies"] is True
    assert "*.so" in build["exclude"], "what a checkout has beside its sources is in no sdist and no pure wheel"


def test_the_image_is_compiled_where_the_compiler_is_and_runs_without_one() -> None:
    build, image = read(ROOT / "Dockerfile")
    assert build.arguments[SWITCH] == "true"
    before = [text for name, text in build.steps[: build.steps.index(("ARG", SWITCH))] if name == "RUN"]
    assert any({"gcc", "libc6-dev"} <= set(text.split()) for text in before)
    assert "pip install" in build.last("RUN")
    assert "hatch_build.py" in " ".join(text for name, text in build.steps if name == "COPY")
    assert not any(SWITCH in text for _, text in image.steps)


def test_a_release_publishes_compiled_wheels_of_each_python_that_ci_tests_and_one_for_all_others() -> None:
    workflows = ROOT / ".github" / "workflows"
    jobs: dict[str, Any] = yaml.safe_load((workflows / "release.yml").read_text())["jobs"]
    tested = yaml.safe_load((workflows / "ci.yml").read_text())["jobs"]["checks"]["strategy"]["matrix"]["python"]
    (settings,) = [step["env"] for step in jobs["wheels"]["steps"] if "cibuildwheel" in step.get("uses", "")]
    assert f"{SWITCH}=true" in settings["CIBW_ENVIRONMENT"].split()
    assert settings["CIBW_BUILD"].split() == [f"cp{version.replace('.', '')}-*" for version in tested]
    assert SWITCH not in str(jobs["build"]), "the wheel of that job is the pure one"
    assert {"build", "wheels"} <= set(jobs["publish"]["needs"])
    names = [step["with"]["name"] for job in jobs.values() for step in job["steps"] if "upload-artifact" in step.get("uses", "")]
    (wanted,) = [step["with"]["pattern"] for step in jobs["publish"]["steps"] if "download-artifact" in step.get("uses", "")]
    assert len(names) == 2
    assert all(name.startswith(wanted.removesuffix("*")) for name in names)
