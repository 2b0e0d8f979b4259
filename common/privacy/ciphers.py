"""PURE: keys, sealed messages and streams of mask bytes, from the package `cryptography`.

The only module of `common` that imports it. It is optional, so `secure.py`, which is built on
this one, is imported only when a secured run begins (`available.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from common.arrays import Array
from common.errors import ProtocolError
from common.privacy.rules import KEY_BYTES

_ONCE = bytes(12)  # every key seals one message only, so its nonce need not change
_START = bytes(16)  # nonce and block counter of a stream; every key makes one stream only
_PIECE = 64 * 1024  # numbers at a time: they stay in the processor's cache


def derive(secret: bytes, purpose: str, size: int = KEY_BYTES) -> bytes:
    """Another secret, of which nobody can conclude the first one or its siblings (HKDF)."""
    return HKDF(SHA256(), size, salt=None, info=purpose.encode()).derive(secret)


def public_key(private: bytes) -> bytes:
    """The public half of an X25519 key."""
    mine = X25519PrivateKey.from_private_bytes(private).public_key()
    return mine.public_bytes(Encoding.Raw, PublicFormat.Raw)


def agree(private: bytes, public: bytes, purpose: str) -> bytes:
    """A secret that only the owners of these two keys can compute."""
    try:
        other = X25519PublicKey.from_public_bytes(public)
        shared = X25519PrivateKey.from_private_bytes(private).exchange(other)
    except ValueError as error:
        raise ProtocolError(f"not a usable public key: {error}") from error
    return derive(shared, purpose)


def check_public_key(public: bytes) -> None:
    """ProtocolError for a key with which a secret would be known to everybody."""
    agree(derive(public, "any other key"), public, "a trial")


def seal(key: bytes, data: bytes, about: str) -> bytes:
    """Encrypted and authenticated, together with what it is about; once for each key."""
    return ChaCha20Poly1305(key).encrypt(_ONCE, data, about.encode())


def unseal(key: bytes, data: bytes, about: str) -> bytes:
    """What was sealed; ProtocolError if it is anything else."""
    try:
        return ChaCha20Poly1305(key).decrypt(_ONCE, data, about.encode())
    except InvalidTag as error:
        raise ProtocolError(f"a sealed message cannot be opened ({about})") from error


def stream(key: bytes, count: int) -> Iterator[Array]:
    """So many uniform integers modulo 2^64, in pieces (ChaCha20)."""
    cipher = Cipher(ChaCha20(key, _START), mode=None).encryptor()
    zeros = bytes(8 * min(count, _PIECE))
    for start in range(0, count, _PIECE):
        size = 8 * min(_PIECE, count - start)
        yield np.frombuffer(cipher.update(zeros[:size]), "<u8")


def random_bytes(key: bytes, size: int) -> bytes:
    """The same bytes for the same key, and uniform to everybody else."""
    return Cipher(ChaCha20(key, _START), mode=None).encryptor().update(bytes(size))
