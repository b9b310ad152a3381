"""API keys from the config, a file or the environment. They are compared in constant time and never logged.

A caller is named by a hash of its key. The key's place in a list would change when keys are added or removed; with the
hash a log names the same caller in the same way as long as its key is valid.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from starlette.requests import HTTPConnection

from cutaway.config import ServerConfig
from cutaway.errors import ConfigError
from cutaway.server.transport.errors import ApiError

VARIABLE = "CUTAWAY_API_KEYS"
NAMED = 6  # bytes of the hash that names a caller
OPEN_PATHS = frozenset({"/health", "/version"})


class Keys:
    """The callers that are admitted. Without keys every caller is, and a caller is an address."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = list(dict.fromkeys(map(_digest, keys)))

    def __bool__(self) -> bool:
        return bool(self._digests)

    def caller(self, connection: HTTPConnection) -> str:
        """The name of the caller: a hash of its key, or its address. Raises ApiError: 401."""
        if not self._digests:
            return connection.client.host if connection.client else "local"
        given = given_key(connection)
        digest, found = _digest(given), False
        for known in self._digests:  # always all of them, even if an early one matches
            found |= hmac.compare_digest(digest, known)
        if not found:
            what = "this API key is not known" if given else "an API key is needed: Authorization: Bearer KEY"
            raise ApiError(401, what, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
        return f"key {digest[:NAMED].hex()}"


class AdminToken:
    """A key for /x/ only, which is new at each start. value: `launch` writes it to a file that only this user can
    read."""

    def __init__(self) -> None:
        self.value = secrets.token_urlsafe(32)

    def fits(self, given: str) -> bool:
        """Takes the same time for every value."""
        return hmac.compare_digest(_digest(given), _digest(self.value))


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(errors="surrogateescape"), digest_size=32, person=b"cutaway.api.key").digest()


def given_key(connection: HTTPConnection) -> str:
    """The key in OpenAI's or Anthropic's header."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else connection.headers.get("x-api-key", "")


def read_keys(config: ServerConfig) -> Keys:
    """The keys of the config and, unless the command line has some, of its file and the environment. A configured
    source without keys is an error, because an open server is not intended then. Raises ConfigError."""
    if config.only_api_keys:
        return Keys(_checked(config.api_keys, "--api-key"))
    keys = _checked(config.api_keys, "server.api_keys")
    if (named := os.environ.get(VARIABLE)) is not None:
        found = named.replace(",", " ").split()
        if not found:
            raise ConfigError(f"${VARIABLE} is set and holds no key", hint="unset it, or put a key into it")
        keys += _checked(found, f"${VARIABLE}")
    if config.api_keys_file is not None:
        try:
            lines = Path(config.api_keys_file).read_text("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"server.api_keys_file cannot be read: {error}") from None
        found = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
        if not found:
            raise ConfigError(f"server.api_keys_file {config.api_keys_file} holds no key")
        keys += _checked(found, "server.api_keys_file")
    return Keys(keys)


def _checked(keys: Iterable[str], where: str) -> list[str]:
    """Check that a header can carry the keys unchanged. The errors do not contain the key."""
    found = list(keys)
    for number, key in enumerate(found, 1):
        if not key.isascii() or not key.isprintable() or " " in key:
            raise ConfigError(
                f"key {number} of {where} contains a character that a request cannot send",
                hint="keys consist of printable ASCII characters without spaces",
            )
        if not key:
            raise ConfigError(f"key {number} of {where} is empty")
    return found
