"""Which worker runs which file: xdist's own order, in time that does not grow with what is done already.

After every test xdist counts the tests that a worker was ever given, and it looks up each test that it hands out in
the list of all: with twenty thousand tests that takes eight seconds of a processor.
"""

from __future__ import annotations

from functools import cached_property

from xdist.scheduler import LoadFileScheduling
from xdist.workermanage import WorkerController

SPARK = "tests/engines/spark/"


class FileScheduling(LoadFileScheduling):
    """A file goes to one worker; all files that need Spark go to the same one: it is started once."""

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:  # noqa: ARG002
        """Forget the test, and its file after the last one: only tests that are left are kept and counted."""
        nodeid = self.registered_collections[node][item_index]
        scope = self._split_scope(nodeid)
        tests_left = self.assigned_work[node][scope]
        del tests_left[nodeid]
        if not tests_left:
            del self.assigned_work[node][scope]
        self._reschedule(node)

    @cached_property
    def _item_index(self) -> dict[str, int]:
        """Where each test is in the list of all, which is the same for every worker."""
        assert self.collection is not None
        return {nodeid: index for index, nodeid in enumerate(self.collection)}

    def _assign_work_unit(self, node: WorkerController) -> None:
        scope, tests = self.workqueue.popitem(last=False)
        self.assigned_work[node][scope] = tests
        node.send_runtest_some([self._item_index[nodeid] for nodeid in tests])

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if nodeid.startswith(SPARK) else super()._split_scope(nodeid)
