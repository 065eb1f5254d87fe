"""Surveys under local differential privacy: respondents randomise their own answers, so no collector is trusted.

encodings          frequency oracles for one answer, and the report that a respondent sends
counts             unbiased counts from reports with confidence intervals; choice of encodings, split or sampled budget
forms              the form: questions, answering, estimating, guarantee and file
"""

from sfumato.surveys.counts import Counts, RefusedReport, SurveyEstimate
from sfumato.surveys.encodings import Report
from sfumato.surveys.forms import Form, collect, form

__all__ = ["Counts", "Form", "RefusedReport", "Report", "SurveyEstimate", "collect", "form"]
