"""One synthesis by this library for ``bench/synthesis.py --peers``, in a process that imports nothing of the bench.

python own_run.py METHOD ROWS.csv DOMAIN.json EPSILON DELTA OUT.csv

It writes and prints what ``peer_runs.py`` does. pandas counts as not installed, as after a plain ``pip install``:
pyarrow would import it, of 60 MB, wherever it finds it. Noise has no seed.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
import tempfile
import time
from pathlib import Path

MOST_CELLS = 10_000


class WithoutPandas:
    """A finder of modules that finds no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:  # noqa: ARG002
        if name == "pandas":
            raise ModuleNotFoundError(name)


def peak_megabytes() -> float:
    """Return the most resident memory of this program: ``ru_maxrss`` has that of the process that started it, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    method, rows_file, domain_file, epsilon, delta, out = sys.argv[1:]
    sys.meta_path.insert(0, WithoutPandas())
    cpu, wall = time.process_time(), time.time()
    import pyarrow.csv

    import sfumato as sf

    domain = json.loads(Path(domain_file).read_text())
    columns = {name: {"type": "integer", "values": list(range(size))} for name, size in domain.items()}
    triples = itertools.combinations(domain, 3)
    sets = [[*names] for names in triples if math.prod(domain[name] for name in names) <= MOST_CELLS]
    policy = sf.Policy(
        sf.PrivacyUnit("row", every_row=True),
        sf.Budget(100, "1e-6"),
        {"people": sf.Table("people", rows_file, columns, id="row")},
    )
    count = Path(rows_file).read_bytes().count(b"\n") - 1
    with tempfile.TemporaryDirectory() as folder, sf.Curator(policy, Path(folder) / "people.ledger") as curator:
        model = curator.synthesize("people", method, sets).release(epsilon=epsilon, delta=delta)
        drawn = model.sample(count)
    taken = {"cpu": time.process_time() - cpu, "wall": time.time() - wall}
    taken["mb"] = peak_megabytes()
    pyarrow.csv.write_csv(drawn, out)
    pyarrow.csv.write_csv(model.sample(10 * count), f"{out}.10")
    print(json.dumps(taken))


if __name__ == "__main__":
    main()
