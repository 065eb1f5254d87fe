"""Whatever others wrote is read or refused by its reader, and then used: edited in one place, resealed, never an
internal error.
"""

from __future__ import annotations

import json
import stat
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from engine.tables import policy_of
from hostile_json import Edit, edits
from sfumato import errors
from sfumato.client import wire
from sfumato.client.wire import decode as read_told
from sfumato.errors import InvalidParameter, ServerUnavailable, SfumatoError
from sfumato.ledger.proofs.anchors import Anchor
from sfumato.ledger.proofs.exporting import CompleteExport
from sfumato.policy import Table
from sfumato.publish.files.sealed_files import MANIFEST, build_zip, iterate_members, seal_manifest
from sfumato.server.requests.proposals import decode_act_spec_and_price, propose
from sfumato.untrusted import MALFORMED_INPUT, refuse_malformed

HERE = Path(__file__).parent
pytestmark = pytest.mark.timeout(3600)


@dataclass(frozen=True)
class Reader:
    """Something that reads what others wrote."""

    text: str
    """JSON as it is written."""
    read: Callable[[str], Any]
    """Read a text, and use what was read."""
    stride: int = 1
    """Every how many edits are tried in the default run."""


def check_refused(reader: Reader, *, long: bool) -> None:
    """Let a reader read every edit; at least the whole text is refused when it is something else."""
    refused = tried = 0
    for edit in islice(edits(reader.text), 0, None, 1 if long else reader.stride):
        tried += 1
        try:
            reader.read(edit.text)
        except SfumatoError as error:
            str(error)
            refused += 1
        except Exception as error:
            pytest.fail(f"{edit}: {type(error).__name__}: {error}")
    assert refused > tried / 4
    reader.read(reader.text)


def _used(found: Any) -> None:
    str(found)
    repr(found)
    if hasattr(found, "to_json"):
        found.to_json()


def _resealed(name: str, folder: Path, text: str) -> Path:
    """Write a published file with another manifest and the right hash of it."""
    members = dict(iterate_members((HERE / "publish" / f"{name}.sfu").read_bytes(), name))
    path = folder / f"{name}.sfu"
    path.write_bytes(build_zip({**members, MANIFEST: seal_manifest(text).encode()}))
    return path


def _unsealed(name: str) -> str:
    manifest = json.loads(dict(iterate_members((HERE / "publish" / f"{name}.sfu").read_bytes(), name))[MANIFEST])
    manifest["members"][MANIFEST] = ""
    return json.dumps(manifest, separators=(",", ":"))


@pytest.mark.parametrize(("name", "stride"), [("people", 23), ("model", 11)])
def test_published_files(name: str, stride: int, tmp_path: Path, long: bool) -> None:
    def read(text: str) -> None:
        _used(sf.synopsis(_resealed(name, tmp_path, text)))

    check_refused(Reader(_unsealed(name), read, stride), long=long)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("people", ("plan", "blocks", 0)),
        ("people", ("face",)),
        ("model", ("released", "face")),
        ("model", ("steps", 0)),
    ],
)
def test_a_number_in_the_place_of_a_value_is_refused_while_reading(
    name: str, path: tuple[str | int, ...], tmp_path: Path
) -> None:
    """Not later, when somebody asks: what was read is used in many places."""
    edit = next(each for each in edits(_unsealed(name)) if (each.path, each.what) == (path, "7"))
    with pytest.raises(sf.SynopsisDamaged):
        sf.synopsis(_resealed(name, tmp_path, edit.text))


def test_survey_forms_and_reports(tmp_path: Path, long: bool) -> None:
    form = sf.collect({"smokes": ["yes", "no"], "ward": ["north", "south"]}, 1)
    path = tmp_path / "form.sfu"
    form.save(path)
    manifest = json.loads(dict(iterate_members(path.read_bytes(), "form"))[MANIFEST])
    manifest["members"][MANIFEST] = ""

    def read(text: str) -> None:
        path.write_bytes(build_zip({MANIFEST: seal_manifest(text).encode()}))
        _used(sf.form(path))

    check_refused(Reader(json.dumps(manifest, separators=(",", ":")), read, 3), long=long)
    report = form.answer({"smokes": "yes", "ward": "north"})
    check_refused(Reader(report.to_json(), lambda text: _used(type(report).from_json(text))), long=long)


@pytest.fixture(scope="module")
def curator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Curator]:
    columns = {"ward": {"values": ["north", "south"]}, "age": {"type": "integer", "bounds": [0, 110]}}
    rows = pa.table({"who": [1, 2, 3], "ward": ["north", "south", "north"], "age": [30, 40, 50]})
    policy = policy_of(Table("visits", rows, columns, id="who", max_rows=2))
    with sf.Curator(policy, tmp_path_factory.mktemp("untrusted") / "ledger.db") as made:
        yield made


QUESTION = "SELECT ward, COUNT(*) AS n, AVG(age) AS mean FROM visits GROUP BY ward"


@pytest.fixture(scope="module")
def told(curator: sf.Curator) -> dict[str, Any]:
    """Values as a server tells them."""
    question: Any = curator.sql(QUESTION)
    answer = question.release(epsilon="0.1")
    return {
        "answer": answer,
        "receipt": answer.receipt,
        "explanation": question.explain(epsilon=1),
        "forecast": question.error(epsilon=1),
        "standing": curator.standing(),
        "tables": curator.tables,
        "listing": curator.sql("SHOW TABLES"),
        "line": next(iter(curator.history(after=1))),
        "picture": answer.plot(),
        "marginals forecast": curator.marginals("visits", [["ward"]]).error(epsilon=1),
    }


KINDS = (
    "answer", "receipt", "explanation", "forecast", "standing", "tables", "listing", "line", "picture",
    "marginals forecast",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_values_as_json(told: dict[str, Any], kind: str, long: bool) -> None:
    value = told[kind]
    text = value.to_json()

    def read(text: str) -> None:
        _used(type(value).from_json(text))

    stride = max(1, sum(1 for _ in edits(text)) // 300)
    check_refused(Reader(text, read, stride), long=long)
    if kind != "receipt":
        check_refused(Reader(text, _read_reply, 3 * stride), long=long)


def _read_reply(text: str) -> None:
    """Read a value that a server tells; what is no JSON is refused where replies are received."""
    try:
        reply = json.loads(text)
    except RecursionError:
        return
    _used(read_told(reply))


def test_a_reply_that_nests_deep_is_refused() -> None:
    reply: Any = 7
    for _ in range(900):
        reply = [reply]
    with pytest.raises(ServerUnavailable):
        read_told(reply)


def test_errors_as_json(long: bool) -> None:
    text = errors.to_json(InvalidParameter("epsilon", -1, "a number > 0"))
    check_refused(Reader(text, lambda text: _used(errors.from_json(text))), long=long)


def test_anchors(curator: sf.Curator, tmp_path: Path, long: bool) -> None:
    path = tmp_path / "anchor"
    curator.ledger.anchor().save(path)

    def read(text: str) -> None:
        path.write_text(text)
        _used(Anchor.load(path))

    check_refused(Reader(path.read_text(), read, 3), long=long)


def test_complete_exports(curator: sf.Curator, tmp_path: Path, long: bool) -> None:
    """Of each line of the file, edited by itself."""
    path = tmp_path / "export.json"
    curator.ledger.export("json", path, complete=True)
    first, *lines, last = path.read_text().splitlines()

    def restored() -> None:
        with CompleteExport.from_file(path).restored_ledger() as ledger:
            ledger.unlink()

    for number, line in enumerate(lines):
        comma = "," if line.endswith(",") else ""

        def read(text: str, number: int = number, comma: str = comma) -> None:
            path.write_text("\n".join([first, *lines[:number], text + comma, *lines[number + 1 :], last, ""]))
            restored()

        check_refused(Reader(line.removesuffix(","), read, 17), long=long)

    def read_head(text: str) -> None:
        path.write_text("\n".join([text.removesuffix("]}"), *lines, last, ""]))
        restored()

    check_refused(Reader(f"{first}]}}", read_head, 3), long=long)


def test_kept_tokens(tmp_path: Path, long: bool) -> None:
    path = tmp_path / "tokens.json"
    text = json.dumps({"https://a.example": "t", "https://b.example": {"token": "t", "certificate": "/c.pem"}})

    def read(text: str) -> None:
        path.write_text(text)
        path.chmod(stat.S_IRUSR | stat.S_IWUSR)
        wire._read_credentials(path)

    check_refused(Reader(text, read), long=long)


POLICY = """
[unit]
name = "plane"
budget = { epsilon = 3.0, delta = 1e-6 }
size = 100
[tables.flights]
source = "flights.csv"
id = "tailnum"
max_rows = 100
max_groups = 10
[tables.flights.columns]
day = { type = "date", bounds = ["2013-06-01", "2013-08-31"] }
origin = { values = ["EWR", "JFK"] }
delay = { type = "real", bounds = [-60, 600], grid = 0.5 }
[analysts.ana]
share = 0.5
"""


def _toml(data: Any) -> str:
    if isinstance(data, dict):
        return "{" + ", ".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in data.items()) + "}"
    return "[" + ", ".join(map(_toml, data)) + "]" if isinstance(data, list) else json.dumps(data)


def test_policies(tmp_path: Path, long: bool) -> None:
    path = tmp_path / "policy.toml"

    def read(text: str) -> None:
        try:
            data = json.loads(text)
            assert isinstance(data, dict)
            path.write_text("\n".join(f"{json.dumps(name)} = {_toml(each)}" for name, each in data.items()))
        except (RecursionError, AssertionError):
            path.write_text(f"unit = {text}")
        _used(sf.policy.read(path))

    check_refused(Reader(json.dumps(tomllib.loads(POLICY)), read, 5), long=long)


STEPS = [
    {"step": "where", "given": ["age > 40"]},
    {"step": "group_by", "given": ["ward"]},
    {"step": "agg", "named": {"n": {"asks": "aggregate", "name": "count"}}},
]
BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("questions", {"sql": f"{QUESTION} HAVING COUNT(*) > ?", "parameters": [40]}),
    ("questions", {"view": {"table": "visits", "steps": STEPS}}),
    ("workloads", {"questions": {"all": "SELECT COUNT(*) FROM visits"}}),
    ("marginals", {"table": "visits", "ways": [["ward"]]}),
    ("bounds", {"table": "visits", "column": "age"}),
)


@pytest.mark.parametrize(("kind", "spec"), BODIES)
def test_requests(curator: sf.Curator, kind: str, spec: dict[str, Any], long: bool) -> None:
    """The body of a request to a server: it is read, proposed, and its error told."""

    def read(text: str) -> None:
        act, read_spec, terms = decode_act_spec_and_price(kind, text.encode())
        _used(getattr(propose(curator, kind, read_spec), act)(**terms))

    text = json.dumps({"act": "error", "spec": spec, "price": {"epsilon": "0.5"}})
    check_refused(Reader(text, read, 3), long=long)


def test_what_is_unforeseen_becomes_the_refusal_with_its_cause() -> None:
    for kind in MALFORMED_INPUT:
        with (
            pytest.raises(InvalidParameter) as refusal,
            refuse_malformed(lambda: InvalidParameter("source", 7, "as it was written")),
        ):
            raise kind("unforeseen")
        assert isinstance(refusal.value.__cause__, kind)
    with (
        pytest.raises(sf.SynopsisDamaged),
        refuse_malformed(lambda: InvalidParameter("source", 7, "as it was written")),
    ):
        raise sf.SynopsisDamaged("it says what is wrong", place="the file", fix="download or copy it again")
    with pytest.raises(KeyboardInterrupt), refuse_malformed(lambda: InvalidParameter("source", 7, "as it was written")):
        raise KeyboardInterrupt


def test_every_node_is_edited_in_every_way() -> None:
    found = [str(each) for each in edits('{"a": [1, {"b": null}]}')]
    assert len(found) == len(set(found)) == 5 * 16 + 4 * 2
    texts = {each.text for each in edits('{"a": [1]}') if isinstance(each, Edit)}
    assert {"7", '{"a":[1,1]}', '{"a":[]}', "{}", '{"a":[1e400]}', '{"a":[1],"a again":[1]}'} <= texts
