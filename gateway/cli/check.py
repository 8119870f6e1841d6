"""`decluster check`, and `decluster key`, which makes what a client needs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping

from gateway.cli.common import EXIT_FAILURE, EXIT_OK, EXIT_USAGE, Parser, add, complain
from gateway.cli.sources import source


def add_check(commands: argparse._SubParsersAction[Parser]) -> None:
    check = add(
        commands,
        "check",
        _check,
        "check the configuration, and ask each upstream for its models with its key",
        """  decluster check --config decluster.yaml
  decluster check --upstream https://api.openai.com/v1

Each upstream is told in a line, ok or FAIL, with what to do. Keys are sent to their upstream only, and never printed.
The exit code is 1 where an upstream cannot be used.""",
    )
    check.add_argument("--config", metavar="FILE", help="the settings, in YAML (docs/configuration.md)")
    check.add_argument("--upstream", metavar="URL", help="the one upstream, where there is no file")


def add_key(commands: argparse._SubParsersAction[Parser]) -> None:
    key = add(
        commands,
        "key",
        _key,
        "make a key for a client, and the hash of it for the configuration",
        """  decluster key alice
  decluster key --hash < key.txt                    the hash of a key that there is already""",
    )
    key.add_argument("name", nargs="?", default="client", metavar="NAME", help="of the client, in metrics and logs (default %(default)s)")
    key.add_argument("--hash", action="store_true", help="make no key; read one from standard input")


def _check(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    from gateway import checking, config

    file, url = source(arguments, environ)
    try:
        settings = config.load(file, environ) if file else config.from_upstream(url)
    except config.ConfigError as error:
        for line in error.lines():
            complain(arguments, line)
        return EXIT_USAGE
    print(f"ok    {file or '--upstream'}: the configuration is right")
    for warning in config.warnings(settings):
        print(f"      {warning}")
    return EXIT_OK if checking.run(settings) else EXIT_FAILURE


def _key(arguments: argparse.Namespace, environ: Mapping[str, str]) -> int:
    import hashlib
    import secrets

    from gateway.config.problems import Unfit
    from gateway.config.texts import name as named
    from gateway.config.texts import secret

    try:
        name = named(arguments.name)
        key = secret(sys.stdin.readline().strip()) if arguments.hash else f"dck-{secrets.token_urlsafe(32)}"
    except Unfit as error:
        complain(arguments, f"{'the key' if arguments.hash else 'NAME'} {error}")
        return EXIT_USAGE
    if not arguments.hash:
        print(f"key, for the client only; it is shown once:\n\n  {key}\n\nfor the configuration:\n")
    print(f"clients:\n  - name: {name}\n    key_sha256: {hashlib.sha256(key.encode()).hexdigest()}")
    return EXIT_OK
