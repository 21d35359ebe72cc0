"""The envelope and the signature, against vectors that the vendor's own SDKs accept."""

import json
from pathlib import Path

import pytest

from channels_app.sandbox import crypto
from tests.sandbox.conftest import decrypt

VECTORS = json.loads((Path(__file__).parent / "feishu_vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["url_verification", "card_action"])
def test_encrypts_like_the_platform(name):
    vector = VECTORS[name]
    made = crypto.encrypt(
        vector["plaintext"], encrypt_key=VECTORS["encrypt_key"], iv=bytes.fromhex(vector["iv_hex"])
    )
    assert crypto.envelope(made).decode() == vector["body"]
    assert decrypt(made, VECTORS["encrypt_key"]) == vector["plaintext"]


@pytest.mark.parametrize("name", ["card_action", "card_action_plain_no_encrypt"])
def test_signs_like_the_platform(name):
    headers, body = VECTORS[name]["headers"], VECTORS[name]["body"].encode()
    made = crypto.sign(
        timestamp=headers["X-Lark-Request-Timestamp"],
        nonce=headers["X-Lark-Request-Nonce"],
        encrypt_key=VECTORS["encrypt_key"],
        body=body,
    )
    assert made == headers["X-Lark-Signature"]


def test_two_envelopes_of_one_text_differ():
    made = {crypto.encrypt("hello world", encrypt_key="test key") for _ in range(5)}
    assert len(made) == 5
    assert {decrypt(text, "test key") for text in made} == {"hello world"}


def test_published_ciphertext():
    assert decrypt("P37w+VZImNgPEO1RBhJ6RtKl7n6zymIbEG1pReEzghk=", "test key") == "hello world"
