"""Seeded bugs where rows are read on Spark: sessions, caches, lines of files, addresses and copies."""

from __future__ import annotations

from mutants.running import Kind, Mutant, suite

_TESTS = "engines/spark/test_spark.py"
_HOSTILE = "engines/spark/test_hostile_sources.py"
_FAULTS = "engines/spark/test_faults.py"
_DOUBLES = f"{_HOSTILE}::test_ids_that_are_doubles_are_units_as_numbers_are"
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
        'return x if column.told == "string" else f"CAST({x} AS STRING)"',
        "return x",
        (f"{_TESTS}::test_texts_have_no_collation_and_no_filling",),
        long=True,
    ),
    Mutant(
        "a clone is taken for a new session",
        Kind.AUDIT,
        "engine/spark/carried_frames.py",
        "    if known in _PROVED and not session.cloned:\n        return\n",
        "    if known in _PROVED or session.cloned:\n        return\n",
        (f"{_HOSTILE}::test_a_clone_is_proved_by_itself",),
        long=True,
    ),
    Mutant(
        "a table on Spark is known by the name it was called by",
        Kind.REUSE,
        "engine/spark/sources.py",
        'named = ".".join(parts) if all(parts) else',
        "named = source.relation if all(parts) else",
        (f"{_HOSTILE}::test_one_table_has_one_address_whatever_it_is_called",),
        long=True,
    ),
    Mutant(
        "rows of a cache are taken for those of the files",
        Kind.REUSE,
        "engine/spark/sources.py",
        'return "InMemoryRelation" in frame._explain_string("simple")',
        "return False",
        (f"{_HOSTILE}::test_rows_in_the_cache_are_not_read",),
        long=True,
    ),
    Mutant(
        "0 and -0 are two units of a period on Spark",
        Kind.SENSITIVITY,
        "engine/spark/cells.py",
        'return f"CASE WHEN {x} = 0 THEN {real(0.0)} ELSE NULLIF({x}, {_NAN}) END"',
        'return f"NULLIF({x}, {_NAN})"',
        (_DOUBLES,),
        long=True,
    ),
    Mutant(
        "rows whose id is no number are somebody's on Spark",
        Kind.NAN,
        "engine/spark/cells.py",
        "ELSE NULLIF({x}, {_NAN}) END",
        "ELSE {x} END",
        (_DOUBLES,),
        long=True,
    ),
    Mutant(
        "every item of a list counts on Spark",
        Kind.LIMITS,
        "engine/spark/cells.py",
        "slice({name(column.name)}, 1, {most})",
        "{name(column.name)}",
        ("engines/spark/test_plans.py::test_lists_are_those_of_duckdb",),
        long=True,
    ),
    Mutant(
        "a closed session stays at the server",
        Kind.AUDIT,
        "engine/spark/sessions.py",
        "                self.spark.client.release_session()\n",
        "",
        (f"{_FAULTS}::test_closed_sessions_leave_nothing",),
        long=True,
    ),
    Mutant(
        "a session stays open where its tables are refused",
        Kind.AUDIT,
        "engine/spark/driver.py",
        "        except BaseException:\n            self.session.close()\n            raise\n",
        "        except BaseException:\n            raise\n",
        (f"{_FAULTS}::test_closed_engines_leave_nothing",),
        long=True,
    ),
    Mutant(
        "an interrupt ends what every thread reads on Spark",
        Kind.AUDIT,
        "engine/spark/driver.py",
        "wanted = [each for each in self._running if thread in (None, each)]",
        "wanted = list(self._running)",
        (f"{_FAULTS}::test_a_reading_is_ended_and_the_session_goes_on",),
        long=True,
    ),
    Mutant(
        "a version that is named is passed over",
        Kind.REUSE,
        "engine/spark/sources.py",
        "version = source.version or str(",
        "version = str(",
        ("engines/spark/test_versions.py",),
    ),
    Mutant(
        "the newest version is read whenever a table is looked at",
        Kind.REUSE,
        "engine/spark/sources.py",
        ".option(_AS_OF[form], version)",
        "",
        ("engines/spark/test_versions.py",),
    ),
)

test_the_tests_of_spark_notice = suite(MUTANTS)
