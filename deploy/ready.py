"""Exit with 0 if the server behind a socket file can charge and answer (/readyz is 200), and with 1 otherwise."""

import socket
import sys
from http.client import HTTPConnection

SOCKET = sys.argv[1] if len(sys.argv) > 1 else "/run/sfumato/sfumato.sock"


def status(path: str) -> int:
    """Return the status of GET /readyz over a socket file."""
    connection = HTTPConnection("localhost", timeout=4)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.settimeout(4)
    connection.sock.connect(path)
    connection.request("GET", "/readyz")
    return connection.getresponse().status


if __name__ == "__main__":
    try:
        sys.exit(status(SOCKET) != 200)
    except OSError as error:
        sys.exit(f"{SOCKET}: {error}")
