"""The museum shows mechanisms that claim more privacy than they keep, each caught by an audit beside its correct twin.

demonstration_noise    noise with a seed, for demonstrations alone
exhibits               what an exhibit is: a claim, a broken mechanism, its correct twin, and where it was published
rooms                  nine rooms, one for each kind of mistake, from noise that is too small to what errors tell
catching               the audit of one exhibit, and of all
"""

from sfumato.audit.museum.catching import Catch, Tour, catch, tour
from sfumato.audit.museum.exhibits import Exhibit, Room
from sfumato.audit.museum.rooms import EXHIBITS, ROOMS

__all__ = ["EXHIBITS", "ROOMS", "Catch", "Exhibit", "Room", "Tour", "catch", "tour"]
