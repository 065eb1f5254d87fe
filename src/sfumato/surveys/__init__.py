"""A survey is randomised by those who answer it, so nobody has to be trusted with what they said.

question_cells     questions as coded attributes, and the cell of an answer
encodings          how one answer is randomised, and what a report supports
reports            what a respondent sends
choosing           which encodings err least, and whether questions are split or sampled
counts             counts from reports, with intervals that hold
forms              the form: answering, estimating, what it promises, and its file
"""

from sfumato.surveys.counts import Counts, Refused, SurveyEstimate
from sfumato.surveys.forms import Form, collect, form
from sfumato.surveys.reports import Report

__all__ = ["Counts", "Form", "Refused", "Report", "SurveyEstimate", "collect", "form"]
