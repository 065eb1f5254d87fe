"""The server shares a curator and not its files: owners, analysts and auditors ask over HTTP. It is a skin of the
curator.
"""
