"""A survey is randomised by those who answer it, so nobody has to be trusted with what they said.

encodings          how one answer is randomised, and what a report supports; what a respondent sends
counts             counts from reports, with intervals that hold; which encodings err least, and whether questions are
                   split or sampled
forms              the form: answering, estimating, what it promises, and its file; questions as coded attributes, and
                   the cell of an answer
"""

from sfumato.surveys.counts import Counts, Refused, SurveyEstimate
from sfumato.surveys.encodings import Report
from sfumato.surveys.forms import Form, collect, form

__all__ = ["Counts", "Form", "Refused", "Report", "SurveyEstimate", "collect", "form"]
