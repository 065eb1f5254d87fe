"""The museum shows mechanisms that claim more privacy than they keep, each caught by an audit beside its correct twin.

exhibits               what an exhibit is: a claim, a broken mechanism, its correct twin, and where it was published;
                       noise with a seed, for demonstrations alone
catching               the audit of one exhibit, and of all; nine rooms, one for each kind of mistake, from noise that
                       is too small to what errors tell
"""

from sfumato.audit.museum.catching import EXHIBITS, ROOMS, Catch, Tour, catch, tour
from sfumato.audit.museum.exhibits import Exhibit, Room

__all__ = ["EXHIBITS", "ROOMS", "Catch", "Exhibit", "Room", "Tour", "catch", "tour"]
