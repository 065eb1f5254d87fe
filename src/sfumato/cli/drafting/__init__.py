"""The interview of ``sfumato init``: its questions, their parsers, and answers from flags."""
