"""A client is a curator that another machine runs: the same methods, answers, receipts and errors, over HTTP.

It imports neither an engine nor a parser of SQL: questions are understood by the server, and what comes back is read.
"""

from sfumato.client.remote_curators import RemoteCurator, connect

__all__ = ["RemoteCurator", "connect"]
