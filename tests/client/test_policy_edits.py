"""What was bought at the command line is free at a server whose policy was edited since, and the other way round."""

from __future__ import annotations

from pathlib import Path

import pytest

import sfumato as sf
from cli.running import COUNTS, run, spent
from client.curators import serving

pytestmark = pytest.mark.filterwarnings("ignore::sfumato.errors.WeakPrivacy")
SUM = "SELECT SUM(delay) AS late FROM flights"


def test_an_edit_that_does_not_concern_a_question_leaves_it_free_everywhere(tmp_path: Path) -> None:
    policy = sf.example(tmp_path / "flights")
    assert run("query", policy, COUNTS, "--epsilon", "0.5").exit_code == 0
    text = policy.read_text()
    policy.write_text(text.replace("bounds = [-30, 180]", "bounds = [-30, 360], bins = 10"))
    assert policy.read_text() != text
    with serving(policy) as (where, token), sf.connect(where, token=token) as curator:
        assert curator.sql(COUNTS).release(epsilon="0.5").receipt.free
        assert spent(policy) == 0.5
        assert not curator.sql(SUM).release(epsilon="0.25").receipt.free
    policy.write_text(text)
    assert run("query", policy, COUNTS, "--epsilon", "0.5").exit_code == 0
    assert spent(policy) == 0.75
    assert run("query", policy, SUM, "--epsilon", "0.25").exit_code == 0
    assert spent(policy) == 1.0, "a sum within other bounds is another number"
