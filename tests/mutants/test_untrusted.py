"""Seeded bugs where what others wrote is read: files, replies, texts that were edited and sealed again."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_FILES = ("test_untrusted.py::test_published_files",)

MUTANTS = (
    Mutant(
        "an attribute that a forged value does not have is nobody's refusal",
        Kind.HOSTILE,
        "untrusted:MALFORMED_INPUT",
        "AttributeError,",
        "",
        _FILES,
    ),
    Mutant(
        "anything may stand where a value of ours is read",
        Kind.HOSTILE,
        "privacy.codec:_decode",
        "    _check_field_types(decoded)\n",
        "",
        ("test_untrusted.py::test_a_number_in_the_place_of_a_value_is_refused_while_reading",),
    ),
    Mutant(
        "a field that may be missing holds anything",
        Kind.HOSTILE,
        "privacy.codec:check_simple_fields",
        "if type(field_value) not in types or",
        "if NoneType not in types and type(field_value) not in types or",
        ("test_untrusted.py::test_values_as_json[line]",),
    ),
    Mutant(
        "a reply that nests deep ends in a recursion",
        Kind.HOSTILE,
        "untrusted:MALFORMED_INPUT",
        "RecursionError,",
        "",
        ("test_untrusted.py::test_a_reply_that_nests_deep_is_refused",),
    ),
)

test_the_tests_of_what_others_wrote_notice = suite(MUTANTS)
