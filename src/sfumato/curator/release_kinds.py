"""A kind of release, described once: what is sent for it, what makes it, what it costs, and which skins offer it.

Every module of ``sfumato.curator.kinds`` holds one ``KIND``. The command line, REST, the client, the page and the
reference read it from here; a new kind needs no other line. Nothing here imports an engine or a skin.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_type_hints

from sfumato.curator.spec_types import TERMS, Term
from sfumato.errors import InvalidParameter, Unsupported

if TYPE_CHECKING:
    from sfumato.curator.context import Context
    from sfumato.curator.proposals.questions import Question
    from sfumato.plan.catalog import Catalog
    from sfumato.plan.sql.parameters import Parameters

P = TypeVar("P", covariant=True)
Skin = Literal["command", "rest", "page"]


KINDS = "sfumato.curator.kinds"
"""The package whose modules are kinds."""


class Spec(Generic[P]):
    """Base of the frozen dataclass that says what is proposed; ``P`` is the proposal made from it."""


@dataclass(frozen=True)
class Workspace:
    """What a proposal is made in: a curator's context, its catalog, and its reader of questions."""

    context: Context
    catalog: Catalog
    sql: Callable[[str, Parameters | None], Any]
    question: Callable[..., Question]
    """Like ``sql``, for text that must be a question."""


@dataclass(frozen=True)
class Refusal:
    """Why a skin does not offer a kind, and what to do instead."""

    rule: str
    fix: str


@dataclass(frozen=True)
class ReleaseKind:
    """One kind of release."""

    name: str
    """In addresses, ledgers and on the command line."""
    spec: type[Spec[Any]]
    propose: Callable[[Workspace, Any], Any]
    proposal: str
    """``module:Class`` of the proposal, imported on use."""
    answer: str
    """``module:Class`` of the released value, which writes and reads its own JSON."""
    price_terms: tuple[str, ...]
    """Keys of ``TERMS``: what its methods take of a price."""
    example: Spec[Any]
    positional: tuple[str, ...] = ()
    """Terms after the first that methods take by place as well as by name."""
    roles: tuple[str, ...] = ("owner", "analyst")
    skins: Mapping[Skin, Refusal] = field(default_factory=dict)
    """Skins that do not offer it."""
    cost_class: int = 0
    """How often the time after which a server answers is doubled for it."""

    def require(self, skin: Skin) -> None:
        """Refuse where this skin does not offer the kind."""
        refusal = self.skins.get(skin)
        if refusal is not None:
            raise Unsupported(f"not-at-{'a-server' if skin == 'rest' else skin}", refusal.rule, fix=refusal.fix)

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(TERMS[key] for key in self.price_terms)

    @property
    def summary(self) -> str:
        """The first sentence of what the spec says about itself."""
        return (self.spec.__doc__ or "").partition("\n")[0].rstrip(".")

    def proposal_class(self) -> type[Any]:
        return _imported(self.proposal)

    def answer_class(self) -> type[Any]:
        return _imported(self.answer)


@dataclass(frozen=True)
class SpecField:
    """A field of a spec as skins see it."""

    name: str
    annotation: Any
    required: bool
    default: Any
    help: str


def spec_fields(spec: type[Spec[Any]]) -> tuple[SpecField, ...]:
    """List the fields of a spec that can be sent; those of Python alone are left out."""
    hints = get_type_hints(spec, include_extras=True)
    described = spec.__dataclass_fields__.values()  # type: ignore[attr-defined]
    return tuple(
        SpecField(
            each.name,
            hints[each.name],
            each.default is MISSING,
            None if each.default is MISSING else each.default,
            each.metadata["help"],
        )
        for each in described
        if not each.metadata.get("local")
    )


def kind_modules() -> Iterator[str]:
    """Name the modules that hold a kind."""
    return (module.name for module in pkgutil.iter_modules(import_module(KINDS).__path__))


def load_kind(module: str) -> ReleaseKind:
    """Import the kind of one module."""
    found: ReleaseKind = import_module(f"{KINDS}.{module}").KIND
    return found


def all_kinds() -> dict[str, ReleaseKind]:
    """Import every kind, by name."""
    found = (load_kind(module) for module in kind_modules())
    return {kind.name: kind for kind in found}


def kind_of(spec: Spec[Any]) -> ReleaseKind:
    """Return the kind whose spec this is: its module holds both."""
    found = getattr(import_module(type(spec).__module__), "KIND", None)
    if not isinstance(found, ReleaseKind) or type(spec) is not found.spec:
        rule = 'what a kind of release takes, such as BoundsSpec("visits", "cost") of sfumato.curator.kinds.bounds'
        raise InvalidParameter("spec", spec, rule)
    return found


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(f"sfumato.{module}"), name)
