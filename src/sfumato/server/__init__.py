"""An HTTP server that shares curators without sharing their files: owners, analysts and auditors call it with
tokens.
"""
