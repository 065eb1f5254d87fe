"""The names of the hypothesis tests, for those who list them without running any."""

from __future__ import annotations

from typing import Literal, get_args

TestName = Literal["independence", "fit", "difference", "anova", "trend", "correlation", "share"]
TEST_NAMES: tuple[str, ...] = get_args(TestName)
