"""The documentation as part of the package: its pages, and the search that the site and ``sfumato docs`` share."""
