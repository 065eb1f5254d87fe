"""The tests of safety run wherever rows can be."""

from safety.places import place as place
