"""Compiles the way of a stream to native code, where a build asks for it: HATCH_BUILD_HOOK_ENABLE_CUSTOM=true pip install .

The compiler is mypyc, which takes the sources as they are and holds them to their types; what is not listed here, or not compiled at all,
runs as ever. An editable installation gets the compiled modules beside its sources, where they hide them until they are deleted.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# All that a token passes between two sockets, and whom it is built on: whoever inherits from a compiled class is compiled.
COMPILED: Final = (
    "piece.py",
    "errors.py",
    "clock.py",
    "wire/*.py",
    "dialects/*.py",
    "pacing/*.py",
    "stream/*.py",
    "relay/*.py",
    "traces/recorder.py",
    "server/cork.py",
)
# msgspec makes the fields of its own types, which a compiler does not see.
INTERPRETED: Final = frozenset({"dialects/heads.py", "dialects/usage.py"})
GROUP: Final = "decluster"  # of the one shared library; the modules beside it are only doors to it
MISSING: Final = """{}

The compiled build was asked for (HATCH_BUILD_HOOK_ENABLE_CUSTOM) and cannot be made. It needs a C compiler and the headers of this Python:
on Debian and Ubuntu `apt install gcc libc6-dev python3-dev`, on macOS `xcode-select --install`; what the compiler said stands above.
Without that variable the same program is installed as pure Python, which needs neither."""


class CannotCompileError(Exception):
    """The message names the remedy."""


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        self.temporary = TemporaryDirectory(prefix="decluster-")  # not in the folder of the wheel, which is published as it is
        work = Path(self.temporary.name) / "compiled"
        built = compiled(root, work)
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        if version == "editable":
            self.clean([version])
            for path in built:
                shutil.copy2(path, root / path.relative_to(work / "lib"))
        else:
            build_data["force_include"].update({str(path): path.relative_to(work / "lib").as_posix() for path in built})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        self.temporary.cleanup()

    def clean(self, versions: list[str]) -> None:
        """What an editable installation has put beside the sources, for this Python."""
        root = Path(self.root)
        for path in [*root.glob(f"{GROUP}__mypyc{suffix()}"), *(root / "gateway").rglob(f"*{suffix()}")]:
            path.unlink()


def suffix() -> str:
    return str(sysconfig.get_config_var("EXT_SUFFIX"))


def modules(root: Path) -> list[Path]:
    package = root / "gateway"
    found = {path for pattern in COMPILED for path in package.glob(pattern)}
    return sorted(path for path in found if path.relative_to(package).as_posix() not in INTERPRETED)


def compiled(root: Path, work: Path) -> list[Path]:
    """The compiled modules of the package in `root`, made in `work`. No debugging symbols: they would hold the paths of this build."""
    from mypyc.build import mypycify
    from setuptools import Distribution
    from setuptools.errors import BaseError, CCompilerError

    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    before = Path.cwd()
    os.chdir(root)  # names of files are names of modules
    try:
        names = [path.relative_to(root).as_posix() for path in modules(root)]
        options = ["--config-file=", "--ignore-missing-imports", f"--cache-dir={work / 'cache'}"]
        extensions = mypycify([*options, *names], opt_level="2", debug_level="0", target_dir=str(work / "c"), group_name=GROUP)
        command = Distribution({"name": GROUP, "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(work / "lib"), str(work / "temp")
        command.ensure_finalized()
        command.run()
    except (BaseError, CCompilerError) as error:
        raise CannotCompileError(MISSING.format(error)) from None
    finally:
        os.chdir(before)
    return sorted((work / "lib").rglob(f"*{suffix()}"))
