"""A policy is drafted from what its owner answers: defaults come from names and types alone, never from rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path

from sfumato.errors import InvalidPolicy
from sfumato.policy import Policy, Type, Via
from sfumato.policy.drafting import drafted

Columns = Mapping[str, Type | None]

_PEOPLE = (
    *("person", "patient", "user", "customer", "client", "member", "player", "student", "subject", "participant"),
    *("household", "visitor", "respondent", "employee", "citizen", "p", "u"),
)
_ID_ENDINGS = ("id", "uuid", "key", "number", "num", "nr", "no")
"""What follows the word for a unit, or its first letter, in the name of its key: the surest first."""
_LONG_ENDINGS = ("identifier", "numero", "nummer", "", "code")
"""What may follow the word alone. A code may as well be a kind of unit, so it is the last to be taken for a key."""
_ID_BEGINNINGS = ("id", "identifier", "numero")
"""What comes before that word. A number does not: num_patients counts them."""
_NUMERO = ("n°", "nº", "№")
"""How numero is written short; without accents and signs a lone n would be left."""
_NAMING = {
    *("name", "fullname", "firstname", "lastname", "surname", "givenname", "familyname", "maidenname", "username"),
    *("email", "emailaddress", "mail", "phone", "phonenumber", "telephone", "mobile", "address", "street", "ssn"),
    *("iban", "passport", "passportnumber", "ip", "ipaddress", "licenseplate"),
    *("nom", "prenom", "nomcomplet", "nomdefamille", "courriel", "adresse", "rue", "vorname", "nachname", "anschrift"),
    *("strasse", "telefon", "handy", "apellido", "apellidos", "correo", "direccion", "telefono", "nome", "cognome"),
    *("indirizzo", "sobrenome", "endereco", "naam", "achternaam", "adres"),
}
"""What columns are called that name one person, in English, French, German, Spanish, Italian, Portuguese or Dutch."""
_RANGES = {
    "age": "0 120",
    "year": "1900 2100",
    "month": "1 12",
    "weekday": "1 7",
    "hour": "0 23",
    "minute": "0 59",
    "percent": "0 100",
    "latitude": "-90 90",
    "longitude": "-180 180",
    **dict.fromkeys(("alter", "edad", "eta", "idade", "leeftijd"), "0 120"),
    **dict.fromkeys(("jahr", "annee", "ano", "anno", "jaar"), "1900 2100"),
    **dict.fromkeys(("monat", "mois", "mes", "mese", "maand"), "1 12"),
}
"""Bounds that a name says by itself. Accents are left out of names before they are looked up here."""


def suggested_unit(tables: Sequence[Columns]) -> str:
    """Find the one word that the keys of people in all tables are called by, such as patient of patient_id; or else
    person.
    """
    found = {word for columns in tables for word in _PEOPLE[1:] if suggested_id(columns, word)} - {"p", "u"}
    return found.pop() if len(found) == 1 else _PEOPLE[0]


def suggested_id(columns: Columns, unit: str) -> str | None:
    """Find the column that is called like the unit, or like people where that is the unit: from names and types alone,
    such as player_id, PlayerNr or N° player where a player is protected. A key of another thing is no such column: with
    it as the unit, a person with several of them would not be protected as a whole.
    """
    owners = (_letters(unit), *(_PEOPLE if unit == "person" else ()))
    called: dict[str, str] = {}
    for name in _possible_keys(columns):
        called.setdefault(_letters(name), name)
    return next((called[key] for owner in owners for key in _keys_of(owner) if key in called), None)


def _keys_of(owner: str) -> list[str]:
    """List what the key of a unit may be called, in plain letters, the surest first."""
    short = [owner + ending for ending in _ID_ENDINGS]
    if len(owner) == 1:
        return short
    return [
        *short,
        *(owner + ending for ending in _LONG_ENDINGS),
        *(beginning + owner for beginning in _ID_BEGINNINGS),
    ]


def only_key(columns: Columns) -> str | None:
    """Find the one column that is called as keys are; it may be a key of something that is not the unit."""
    keys = [name for name in _possible_keys(columns) if is_key(name)]
    return keys[0] if len(keys) == 1 else None


def _possible_keys(columns: Columns) -> list[str]:
    return [name for name, kind in columns.items() if kind in (None, Type.INTEGER, Type.TEXT)]


def is_key(name: str) -> bool:
    """Tell whether a column is called as ids and foreign keys are."""
    letters = _letters(name)
    return letters == "id" or (
        letters.endswith(("id", "uuid", "key"))
        and (name.lower().endswith(("_id", " id", "-id", "key", "uuid")) or name.endswith(("ID", "Id")))
    )


def names_people(column: str) -> bool:
    """Tell whether a column is called as what names one person, or as a key: nobody needs to ask about it."""
    return is_key(column) or _letters(column) in _NAMING | _KEYS_OF_PEOPLE


def suggested_path(name: str, unit: str, tables: Mapping[str, Columns]) -> Via | None:
    """Find the table through which a table without ids probably finds whose its rows are: one that shares a key with
    it and knows its units.
    """
    for column in tables[name]:
        for other, known in tables.items():
            if other != name and is_key(column) and column in known and suggested_id(known, unit):
                return Via(other, column)
    return None


def suggested_bounds(name: str, kind: Type) -> str:
    """Give bounds that the name of a column of whole numbers or reals says by itself; nothing where it does not."""
    words = {*_words(name), _letters(name)}
    return next((ends for word, ends in _RANGES.items() if word in words), "") if kind.numeric else ""


def _letters(name: str) -> str:
    return "".join(letter for letter in _plain(name) if letter.isalnum())


def _words(name: str) -> list[str]:
    return "".join(letter if letter.isalpha() else " " for letter in _plain(name)).split()


def _plain(name: str) -> str:
    """Leave out case and accents, and write numero in full."""
    whole = name.casefold()
    for short in _NUMERO:
        whole = whole.replace(short, _ID_BEGINNINGS[-1])
    apart = unicodedata.normalize("NFKD", whole)
    return "".join(letter for letter in apart if not unicodedata.combining(letter))


_KEYS_OF_PEOPLE = {key for word in _PEOPLE for key in _keys_of(word)} - {*_PEOPLE}


def own_names(proposed: Sequence[str]) -> list[str]:
    """Give every table a name of its own: the second of two that are called alike has a number."""
    found: list[str] = []
    for name in proposed:
        called, number = name, 1
        while called.lower() in {each.lower() for each in found}:
            number += 1
            called = f"{name}_{number}"
        found.append(called)
    return found


def refuse_if_written(output: Path) -> None:
    """Refuse to draft into a file that exists: it is never overwritten."""
    if output.exists():
        raise InvalidPolicy(
            "an existing file is never overwritten",
            place=str(output),
            fix="choose another with -o, or move it away first",
        )


def write_draft(policy: Policy, output: Path) -> None:
    """Write a policy to a new file, with its sources relative to it."""
    text = drafted(policy, output.parent)
    try:
        with output.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except OSError:
        raise InvalidPolicy(
            "the policy cannot be written", place=str(output), fix="choose another place with -o"
        ) from None
