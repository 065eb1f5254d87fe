"""Every definition and theorem of an introductory course has a page, with an example that runs and a picture."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

NAMED = {
    "linkage, differencing and reconstruction": "exact-answers-leak",
    "record, universe, database, histogram, ℓ₁ distance": "databases",
    "neighbouring databases, bounded and unbounded; granularity": "neighbours",
    "randomised algorithm, mechanism; interactive and offline": "mechanisms",
    "ε-differential privacy": "pure-dp",
    "(ε, δ)-differential privacy, negligible δ": "approximate-dp",
    "what is promised and what is not; Dalenius; control": "beliefs",
    "secrecy and control; groups; the trusted curator; synopsis generators": "what-privacy-means",
    "randomised response": "randomized-response",
    "counting queries, histograms, k-way marginals": "counting-queries",
    "global sensitivity, ℓ₁ and ℓ₂": "sensitivity",
    "the Laplace mechanism": "laplace",
    "the Gaussian mechanism": "gaussian",
    "the exponential mechanism and its utility": "exponential",
    "report noisy max": "noisy-max",
    "post-processing": "post-processing",
    "sequential composition and the budget": "basic-composition",
    "advanced composition": "advanced-composition",
    "parallel composition": "parallel-composition",
    "group privacy": "group-privacy",
    "amplification by sampling": "sampling",
    "KL divergence": "kl-divergence",
    "max-divergence": "max-divergence",
    "additive and multiplicative Chernoff bounds": "chernoff",
    "Azuma's inequality": "azuma",
    "Stirling's approximation": "stirling",
    "synopses and synthetic databases": "synopses",
    "private multiplicative weights": "multiplicative-weights",
    "approximately dominant strategies; private implies truthful": "truthfulness",
    "the commitment mechanism and the gap": "commitment",
    "approximate Nash equilibria, selected privately": "mediation",
}
"""What a course defines or proves, and the page about it; the privacy loss has the tutorial of its name."""


@pytest.mark.parametrize("name", NAMED)
def test_it_has_a_page_with_an_example_and_a_picture(name: str) -> None:
    text = (ROOT / f"docs/explanation/{NAMED[name]}.md").read_text()
    assert re.search(r"```python\n", text), "no example"
    assert re.search(r"!\[[^]]+\]\(\.\./pictures/[\w-]+\.svg\)", text), "no picture"


def test_every_picture_is_shown_somewhere_and_says_what_it_shows() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        name for page in pages for name in re.findall(r"!\[[^]]+\]\([\w./-]*pictures/([\w-]+\.svg)\)", page.read_text())
    }
    assert {each.name for each in (ROOT / "docs/pictures").glob("*.svg")} == shown
