"""Every question of a session has noise of its own."""

from __future__ import annotations

import sfumato as sf


def test_the_same_question_is_not_answered_alike_for_ever() -> None:
    """Its noise is a thousand times that of the threshold: "above" and "below" are a fair coin, but for a part in a
    hundred, and 64 coins fall alike once in 10¹⁸ times.
    """
    with sf.AboveThreshold(1, threshold=0, positives=1000).start() as session:
        assert {session.ask(0) for _ in range(64)} == {True, False}
