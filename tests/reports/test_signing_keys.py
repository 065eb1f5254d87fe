"""A signing key is its owner's alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

import sfumato as sf
from sfumato.reports import PublicKey, SigningKey
from sfumato.reports.signing_keys import is_encrypted


def test_a_key_is_written_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        key = SigningKey.new()
        public = key.save(tmp_path / "owner.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "owner.key").stat().st_mode) == 0o600
    assert SigningKey.read(tmp_path / "owner.key").public == key.public
    assert PublicKey.read(public) == key.public
    private = key.private.private_bytes_raw().hex()
    assert private not in repr(key) + public.read_text()


def test_a_key_under_a_passphrase_needs_it(tmp_path: Path) -> None:
    key = SigningKey.new()
    key.save(tmp_path / "owner.key", "correct horse")
    assert is_encrypted(tmp_path / "owner.key")
    assert SigningKey.read(tmp_path / "owner.key", "correct horse").public == key.public
    for wrong in (None, "", "Correct horse"):
        with pytest.raises(sf.SfumatoError, match="as an Ed25519 private key"):
            SigningKey.read(tmp_path / "owner.key", wrong)
    key.save(tmp_path / "plain.key")
    assert not is_encrypted(tmp_path / "plain.key")
    with pytest.raises(sf.SfumatoError, match="it is not encrypted, but a passphrase was given"):
        SigningKey.read(tmp_path / "plain.key", "correct horse")
    with pytest.raises(sf.InvalidParameter):
        key.save(tmp_path / "empty.key", "")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o666])
def test_a_key_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    SigningKey.new().save(tmp_path / "owner.key")
    (tmp_path / "owner.key").chmod(mode)
    with pytest.raises(sf.SfumatoError, match="readable by its owner alone"):
        SigningKey.read(tmp_path / "owner.key")


def test_no_key_is_lost(tmp_path: Path) -> None:
    key = SigningKey.new()
    key.save(tmp_path / "owner.key")
    with pytest.raises(sf.SfumatoError, match="this file already exists"):
        SigningKey.new().save(tmp_path / "owner.key")
    (tmp_path / "owner.key.pub").rename(tmp_path / "other.key.pub")
    for taken in ("owner.key", "other.key"):
        with pytest.raises(sf.SfumatoError, match="this file already exists"):
            SigningKey.new().save(tmp_path / taken)
    assert SigningKey.read(tmp_path / "owner.key").public == key.public
    with pytest.raises(sf.SfumatoError, match="cannot be written"):
        key.save(tmp_path / "missing" / "owner.key")


def test_other_files_are_no_keys(tmp_path: Path) -> None:
    other = ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content in (other, b"", b"sfumato-ed25519 00", os.urandom(100)):
        path = tmp_path / "other.key"
        path.write_bytes(content)
        path.chmod(0o600)
        with pytest.raises(sf.SfumatoError):
            SigningKey.read(path)
        with pytest.raises(sf.SfumatoError, match="one line"):
            PublicKey.read(path)
    with pytest.raises(sf.SfumatoError, match="the key file cannot be read"):
        SigningKey.read(tmp_path / "missing.key")
    with pytest.raises(sf.InvalidParameter):
        PublicKey(b"short")


def test_a_signature_is_of_one_content_by_one_key() -> None:
    key, other = SigningKey.new(), SigningKey.new()
    signature = key.sign(b"content")
    assert key.public.verifies(signature, b"content")
    assert not key.public.verifies(signature, b"another")
    assert not other.public.verifies(signature, b"content")
    assert not key.public.verifies(b"", b"content")
    order = 2**252 + 27742317777372353535851937790883648493
    again = signature[:32] + (int.from_bytes(signature[32:], "little") + order).to_bytes(32, "little")
    assert not key.public.verifies(again, b"content")  # the same signature in another spelling


def test_the_first_vector_of_rfc_8032() -> None:
    secret = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
    key = SigningKey(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret)))
    assert key.public.raw.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert key.sign(b"").hex().startswith("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155")
    assert len({SigningKey.new().public.raw for _ in range(20)}) == 20
