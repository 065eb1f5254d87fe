"""Draws the pictures of the pages on membership, attribute inference and attacks on a policy. Run with:
.venv/bin/python docs/pictures/tracing.py
"""

from __future__ import annotations

import sys
from pathlib import Path

from sfumato import attacks

HERE = Path(__file__).parent


def main() -> None:
    """Draw them all; people and noise are drawn anew, so every run gives slightly other lines."""
    for name, found in (
        ("attack-membership", attacks.membership()),
        ("attack-membership-rows", attacks.membership_of_rows()),
        ("attack-attribute", attacks.attribute()),
        ("attack-attribute-rows", attacks.attribute_of_rows()),
        ("attack-policy", attacks.policy(HERE.parent / "tutorials" / "clinic.toml", minutes=10)),
    ):
        found.plot(HERE / f"{name}.svg")
        sys.stdout.write(f"{found}\n\n")


if __name__ == "__main__":
    main()
