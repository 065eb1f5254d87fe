"""Ask one added kind of release in every way there is; run in a process of its own, since servers read kinds once."""

from __future__ import annotations

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

import sfumato.curator.kinds as package  # noqa: E402

package.__path__.append(str(HERE / "added"))


def main(folder: Path) -> dict[str, object]:
    from sfumato.curator.kinds.tallies import TallySpec  # type: ignore[import-not-found]

    import sfumato as sf
    from cli.running import run
    from client.curators import served_policy, serving
    from sfumato.errors import InvalidParameter

    policy = served_policy(folder)
    spec = TallySpec("visits", "region", ("north", "south"), "rows", "age < 60")
    told: dict[str, object] = {}
    with sf.Curator(policy) as curator:
        proposal = curator.propose(spec)
        told["price"] = proposal.price(within=5)
        told["local"] = proposal.release(epsilon=1).rows
        told["spent"] = float(curator.standing().spent["pure"] or 0)
        try:
            curator.propose(TallySpec("visits", "region", ("west",)))
        except InvalidParameter as refused:
            told["refused"] = str(refused)
    arguments = ("tallies", policy, "visits", "region", "north", "south", "--where", "age < 60", "--epsilon", "1")
    told["command"] = run(*arguments).stdout  # stored: the same question costs nothing
    told["help"] = run("tallies", "--help").stdout
    told["listed"] = "tallies" in run("--help").stdout
    with serving(policy) as (url, token), sf.connect(url, token=token) as remote:
        told["remote"] = remote.propose(spec).release(epsilon=1).rows
        told["remote price"] = remote.propose(spec).price(within=5)
        told["rest"] = "TallySpec" in json.dumps(remote._policy_connection.wire.get("openapi.json"))
    with sf.Curator(policy) as curator:
        told["spent at last"] = float(curator.standing().spent["pure"] or 0)
    from sfumato.server.pages.released_pages import _form_fields, _request_body, page_kinds
    from sfumato.server.pages.rendering import SentForm

    kind = page_kinds()["tallies"]
    form = SentForm({"table": ("visits",), "column": ("region",), "values": ("north\r\nsouth",), "count": ("rows",)})
    told["form"] = [field.form for field in _form_fields(kind, form)]
    told["sent"] = _request_body(kind, form)
    return told


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1])), default=str))
