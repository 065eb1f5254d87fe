"""Seeded bugs where rows are read on Spark: sessions, caches, lines of files, addresses and copies."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "engines/spark/test_spark.py"
_HOSTILE = "engines/spark/test_hostile_sources.py"
MUTANTS = (
    Mutant(
        "files that changed while they were read are not noticed",
        Kind.REUSE,
        "engine/spark/sources.py",
        "return sha256(repr(sorted((row[0], row[1], str(row[2])) for row in files)).encode()).hexdigest()",
        'return sha256(b"files").hexdigest()',
        (f"{_TESTS}::test_a_source_that_changes_is_refused",),
    ),
    Mutant(
        "an error of Spark's is passed on with the cell it quotes",
        Kind.CONSENT,
        "engine/spark/sessions.py",
        "    except Exception:  # whatever it was, what is said of it is the same\n        pass\n",
        "    except ZeroDivisionError:\n        pass\n",
        (f"{_TESTS}::test_an_error_quotes_no_cell",),
    ),
    Mutant(
        "a setting that did not stay is passed over",
        Kind.AUDIT,
        "engine/spark/settings.py",
        "        if not _same(session.conf.get(name), value):\n",
        "        if False:\n",
        (f"{_TESTS}::test_a_setting_that_does_not_stay_is_refused",),
    ),
    Mutant(
        "texts keep the collation of their column on Spark",
        Kind.KEYS,
        "engine/spark/cells.py",
        'return self.sql if self.stored == "string" else f"CAST({self.sql} AS STRING)"',
        "return self.sql",
        (f"{_TESTS}::test_texts_have_no_collation_and_no_filling",),
    ),
    Mutant(
        "a clone is taken for a new session",
        Kind.AUDIT,
        "engine/spark/carried_frames.py",
        "    if known in _PROVED and not session.cloned:\n        return\n",
        "    if known in _PROVED or session.cloned:\n        return\n",
        (f"{_HOSTILE}::test_a_clone_is_proved_by_itself",),
    ),
    Mutant(
        "a table on Spark is known by the name it was called by",
        Kind.REUSE,
        "engine/spark/sources.py",
        'named = ".".join(parts) if all(parts) else',
        "named = source.relation if all(parts) else",
        (f"{_HOSTILE}::test_one_table_has_one_address_whatever_it_is_called",),
    ),
    Mutant(
        "rows of a cache are taken for those of the files",
        Kind.REUSE,
        "engine/spark/sources.py",
        'return "InMemoryRelation" in frame._explain_string("simple")',
        "return False",
        (f"{_HOSTILE}::test_rows_in_the_cache_are_not_read",),
    ),
)

test_the_tests_of_spark_notice = suite(MUTANTS)
