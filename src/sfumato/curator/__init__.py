"""The facade: open a policy, ask questions, see what is left."""

from sfumato.curator.curators import Curator, open
from sfumato.curator.explaining import Explanation
from sfumato.curator.forecasts import Forecast
from sfumato.curator.questions import Question

__all__ = ["Curator", "Explanation", "Forecast", "Question", "open"]
