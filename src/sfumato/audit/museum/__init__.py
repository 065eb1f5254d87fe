"""A museum of broken mechanisms that claim more privacy than they provide, each audited beside its correct twin.

exhibits               the exhibit type: a claim, a broken mechanism, its correct twin and the publication; seeded noise
                       for demonstrations only
exhibit_audits         the audit of one exhibit and of all

Nine modules hold one room each, from noise that is too small to side channels.
"""

from sfumato.audit.museum.exhibit_audits import EXHIBITS, ROOMS, Catch, Tour, catch, tour
from sfumato.audit.museum.exhibits import Exhibit, Room

__all__ = ["EXHIBITS", "ROOMS", "Catch", "Exhibit", "Room", "Tour", "catch", "tour"]
