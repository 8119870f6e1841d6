"""Whose key a request came with."""

from __future__ import annotations

import hashlib

import pytest

from gateway.server.asking import Refused
from gateway.server.clients import client_of, credential, identity
from gateway.settings import Client

KEYS = {"alice": "dck-alice-0123456789", "bob": "dck-bob-0123456789"}
CLIENTS = tuple(Client(name, hashlib.sha256(key.encode()).hexdigest()) for name, key in KEYS.items())


@pytest.mark.parametrize(
    "fields",
    [
        [(b"authorization", b"Bearer dck-bob-0123456789")],
        [(b"Authorization", b"bearer   dck-bob-0123456789 ")],
        [(b"authorization", b"dck-bob-0123456789")],
        [(b"x-api-key", b"dck-bob-0123456789")],
        [(b"api-key", b"dck-bob-0123456789")],
    ],
)
def test_a_key_is_found_wherever_clients_put_it(fields: list[tuple[bytes, bytes]]) -> None:
    client = client_of(CLIENTS, fields)
    assert client is not None
    assert client.name == "bob"


@pytest.mark.parametrize(
    "fields",
    [
        [],
        [(b"authorization", b"Bearer ")],
        [(b"authorization", b"Bearer dck-bob-012345678")],
        [(b"authorization", b"Bearer " + CLIENTS[0].key_sha256.encode())],  # the hash is no key
        [(b"authorization", b"Basic dck-bob-0123456789")],
        [(b"authorization", b"Bearer \xff\xfe")],
    ],
)
def test_nobodys_key_is_refused_without_being_repeated(fields: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(Refused) as refused:
        client_of(CLIENTS, fields)
    failure = refused.value.failure
    assert (failure.code, failure.http_status) == ("invalid_api_key", 401)
    assert dict(failure.headers)[b"x-should-retry"] == b"false"
    assert "0123456789"[:9] not in failure.message


def test_without_clients_no_key_is_wanted() -> None:
    assert client_of((), []) is None


def test_limits_are_counted_by_name_or_by_a_trace_of_the_key() -> None:
    fields = [(b"authorization", b"Bearer sk-something")]
    assert identity(CLIENTS[0], fields) == "alice"
    assert identity(None, fields) == identity(None, [(b"x-api-key", b"sk-something")])
    assert identity(None, fields) != identity(None, [])
    assert "something" not in identity(None, fields)


def test_an_azure_key_counts_where_there_is_no_authorization() -> None:
    assert credential([(b"api-key", b" k ")]) == b"k"
