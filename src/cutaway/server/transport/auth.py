"""API keys: from the config, a file or the environment; compared in constant time, never logged.

A caller is named by a hash of its key, not by the key's place in a list, which changes when keys come and go: a log
then tells the same caller by the same name for as long as its key is valid.
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
NAMED = 6  # bytes of the hash that name a caller
OPEN_PATHS = frozenset({"/health", "/version"})


class Keys:
    """Which callers may come in. Without keys everybody may, and a caller is its address."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = list(dict.fromkeys(map(_digest, keys)))

    def __bool__(self) -> bool:
        return bool(self._digests)

    def caller(self, connection: HTTPConnection) -> str:
        """A name for who asks: a hash of its key, or its address. Raises ApiError: 401."""
        if not self._digests:
            return connection.client.host if connection.client else "local"
        given = given_key(connection)
        digest, found = _digest(given), False
        for known in self._digests:  # all of them, however early one fits
            found |= hmac.compare_digest(digest, known)
        if not found:
            what = "this API key is not known" if given else "an API key is needed: Authorization: Bearer KEY"
            raise ApiError(401, what, code="invalid_api_key", headers={"www-authenticate": "Bearer"})
        return f"key {digest[:NAMED].hex()}"


class AdminToken:
    """A key for /x/ only, made anew at each start. value: what `launch` writes where this user alone can read it."""

    def __init__(self) -> None:
        self.value = secrets.token_urlsafe(32)

    def fits(self, given: str) -> bool:
        """Takes as long whatever is given."""
        return hmac.compare_digest(_digest(given), _digest(self.value))


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode(errors="surrogateescape"), digest_size=32, person=b"cutaway.api.key").digest()


def given_key(connection: HTTPConnection) -> str:
    """OpenAI's header, or Anthropic's."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else connection.headers.get("x-api-key", "")


def read_keys(config: ServerConfig) -> Keys:
    """The keys of the config and, unless the command line gave some, of its file and the environment. Whoever names a
    place where keys should be, and has none there, does not want an open server. Raises ConfigError."""
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
    """Keys that a header can carry as they are. The errors do not say the key."""
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
