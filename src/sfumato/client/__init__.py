"""Client of a server: a curator with the same methods, answers, receipts and errors as a local one, over HTTP.

It imports neither a query engine nor an SQL parser: the server parses questions, and the client decodes what it
returns.
"""

from sfumato.client.remote_curators import RemoteCurator, connect

__all__ = ["RemoteCurator", "connect"]
