"""Repeatable bytes for drawing rows from a released model: a stream cipher keyed by the caller's seed.

*Privacy.* Rows are a function of the released model and of these bytes, neither of which depends on the private rows
once the model is released: post-processing (Dwork & Roth 2014, prop. 2.1), whatever the seed and whoever knows it.
Noise is another matter: whoever knew its seed could subtract it. No function that draws noise takes a source of bytes,
and this one is never installed anywhere: the sampler of rows gets it as an argument.
"""

from __future__ import annotations

import hashlib

from sfumato.errors import InvalidParameter
from sfumato.mechanisms.bits import ByteSource

_MAX_SEED = (1 << 64) - 1


def seeded_bytes(seed: object) -> ByteSource:
    """Return a source of bytes that starts anew with each call: AES-256-CTR under a key derived from the seed.

    >>> seeded_bytes(7)(4) == seeded_bytes(7)(4), seeded_bytes(7)(4) == seeded_bytes(8)(4)
    (True, False)
    """
    if type(seed) is not int or not 0 <= seed <= _MAX_SEED:
        fix = "write seed=7, or leave it out for rows that nobody can repeat"
        raise InvalidParameter("seed", seed, "a whole number from 0 to 2^64 − 1", fix=fix)
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    key = hashlib.sha256(b"sfumato: rows drawn from a released model, seed %d" % seed).digest()
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return lambda count: bytes(encryptor.update(bytes(count)))
