"""HTTP calls to a server and the values they carry: problems become exceptions, and lost calls are retried.

A call whose reply was lost is retried only if doing it twice does no more than once: it is free, it carries a request
id, under which the server makes a release once, or the server recognises what it did before. Any other call is retried
only while it was not sent, or the server was too busy for it. A proxy whose server is gone has lost the call, too: of
several servers behind it another one answers next.

Server addresses, and the file of saved tokens.

A token is sent to https addresses, Unix sockets and loopback addresses alone. ``sfumato login`` saves it in a file that
only its owner can read, with the path of a certificate file if one was given, and ``connect`` reads it from there.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import math
import os
import ssl
import stat
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from sfumato import errors
from sfumato.curator.release_kinds import all_kinds
from sfumato.errors import InvalidParameter, ServerUnavailable, SfumatoError, TooManyRequests
from sfumato.extras import install_command
from sfumato.privacy import codec
from sfumato.quick_dataclass import dataclass
from sfumato.untrusted import MALFORMED_INPUT, UNREADABLE, refuse_malformed
from sfumato.version import __version__

_UNIX_PREFIX = "unix:"
_FIX = 'write "https://host", "unix:/path/to/socket", or "http://127.0.0.1:8765" for a server on this machine'


@dataclass(frozen=True)
class Address:
    """The address of a server: the base URL, or the path of its Unix socket."""

    base: str
    """The base URL of all paths."""
    socket: str | None = None
    local: bool = False
    """Whether requests stay on this machine."""

    @property
    def label(self) -> str:
        return self.base if self.socket is None else f"{_UNIX_PREFIX}{self.socket}"

    @classmethod
    def parse(cls, url: str) -> Address:
        """Parse an address; refuse one over which others could read the token."""
        if not isinstance(url, str) or not url.isprintable():
            raise InvalidParameter("url", url, "the address of a server", fix=_FIX)
        if url.startswith(_UNIX_PREFIX):
            path = url.removeprefix(_UNIX_PREFIX)
            if not path:
                fix = 'add the path, as in "unix:/path/to/socket"'
                raise InvalidParameter("url", url, '"unix:" followed by the path of a socket', fix=fix)
            return cls("http://server", path, local=True)
        return _parse_http_url(url)


def _parse_http_url(url: str) -> Address:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if host is None or parts.scheme not in ("http", "https") or parts.username or parts.query or parts.fragment:
        raise InvalidParameter(
            "url", url, "an http, https or unix address without user name, password or query", fix=_FIX
        )
    local = _is_loopback(host)
    if parts.scheme == "http" and not local:
        rule = "an https address, because plain http would send the token unencrypted"
        raise InvalidParameter("url", url, rule, fix=_FIX)
    bracketed = f"[{host}]" if ":" in host else host
    host_and_port = bracketed if port is None else f"{bracketed}:{port}"
    return Address(f"{parts.scheme}://{host_and_port}{parts.path.rstrip('/')}", local=local)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


VARIABLE = "SFUMATO_TOKEN"
"""The environment variable that takes precedence over the file."""


def tokens_path() -> Path:
    """Return the path of the token file, in the user's configuration folder."""
    folder = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(folder, "sfumato", "tokens.json")


@dataclass(frozen=True)
class ServerCredentials:
    """The saved token of a server, and the certificate file by which the server is verified, if one was given."""

    token: str
    certificate: str | None = None


def saved_token(address: Address) -> str | None:
    """Return the token for a server: from the environment, or else from the file."""
    return os.environ.get(VARIABLE) or (
        credentials.token if (credentials := _read_credentials(tokens_path()).get(address.label)) else None
    )


def saved_certificate(address: Address) -> str | None:
    """Return the certificate file saved with the token for a server."""
    credentials = _read_credentials(tokens_path()).get(address.label)
    return None if credentials is None else credentials.certificate


def save_token(address: Address, token: str | None, certificate: str | None = None) -> Path:
    """Save the token for a server, or delete it if None; return the path of the file."""
    path = tokens_path()
    entries = {name: credentials for name, credentials in _read_credentials(path).items() if name != address.label}
    if token is not None:
        entries[address.label] = ServerCredentials(token, None if certificate is None else os.path.abspath(certificate))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump({name: _encode_credentials(credentials) for name, credentials in entries.items()}, file, indent=1)
    os.replace(unfinished, path)
    return path


def _encode_credentials(credentials: ServerCredentials) -> str | dict[str, str]:
    return credentials.token if credentials.certificate is None else asdict(credentials)


def _read_credentials(path: Path) -> Mapping[str, ServerCredentials]:
    """Read the token file; refuse one that other users can read, because its tokens are no longer secret."""
    try:
        with path.open(encoding="utf-8") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                rule = "the token file can be read by other users"
                raise SfumatoError(
                    rule,
                    place=str(path),
                    fix=f"run chmod 600 {path}, and ask for new tokens, since these may have been read",
                )
            content = json.load(file)
    except FileNotFoundError:
        return {}
    except UNREADABLE:
        content = None
    entries = (
        {name: _parse_credentials(entry) for name, entry in content.items()}
        if isinstance(content, dict)
        else {"": None}
    )
    if None in entries.values():
        rule = "the token file is damaged: it must map server addresses to tokens"
        raise SfumatoError(rule, place=str(path), fix="remove this file and run sfumato login again")
    return {name: credentials for name, credentials in entries.items() if credentials is not None}


def _parse_credentials(entry: Any) -> ServerCredentials | None:
    """Parse the entry of one server: a token, or a token with a certificate path; None for anything else."""
    if isinstance(entry, str):
        return ServerCredentials(entry)
    has_both_fields = isinstance(entry, dict) and entry.keys() == {"token", "certificate"}
    return (
        ServerCredentials(**entry)
        if has_both_fields and all(isinstance(text, str) for text in entry.values())
        else None
    )


_PROBLEM = "application/problem+json"
_LOST_STATUSES = (502, 503, 504)
"""What a proxy answers for a server that does not; servers of ours describe their problem."""
_ATTEMPTS = 4
_FIRST_WAIT, _MAX_WAIT = 0.1, 5.0
_RELEASE_READ_SECONDS = 3600.0
"""Read timeout of a release before it is retried; the server limits the duration of its queries."""
_POLL_SECONDS = 0.5
_HTTPX_COMMAND = "httpx._main"


def _import_httpx() -> Any:
    """Import httpx without its command line, whose dependencies take longer to import than all the rest; httpx works
    without it.
    """
    not_imported = not {"httpx", _HTTPX_COMMAND} & sys.modules.keys()
    if not_imported:
        sys.modules[_HTTPX_COMMAND] = None  # type: ignore[assignment]
    try:
        import httpx
    except ImportError:
        raise SfumatoError(
            "sf.connect needs the package httpx, which is not installed",
            place="sf.connect",
            fix=install_command("client"),
        ) from None
    finally:
        if not_imported:
            sys.modules.pop(_HTTPX_COMMAND, None)
    return httpx


class _LostAtProxy(Exception):
    """A call that a proxy could not pass on, or whose reply it did not get."""


class Wire:
    """An open connection to a server. Thread-safe."""

    def __init__(self, address: Address, token: str | None, *, timeout: float, certificate: str | None) -> None:
        httpx = _import_httpx()
        self.address = address
        self._timeout = timeout
        self._transport_errors: tuple[type[Exception], ...] = (httpx.TransportError, _LostAtProxy)
        self._unsent_errors: tuple[type[Exception], ...] = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
        self._client = httpx.Client(
            base_url=address.base,
            headers=_request_headers(token),
            timeout=timeout,
            transport=None if address.socket is None else httpx.HTTPTransport(uds=address.socket),
            verify=_tls_verification(address, certificate),
            trust_env=not address.local,  # no proxy for requests that stay on this machine
            follow_redirects=False,  # send the token only to the given address
        )

    def get(self, *parts: str, **query: str | int) -> Any:
        """Call a GET operation."""
        return self._send_until_answered("GET", _url_path(parts), params=query)

    def send(
        self,
        method: str,
        parts: tuple[str, ...],
        body: Mapping[str, Any] | None = None,
        request_id: str | None = None,
        *,
        repeatable: bool = False,
    ) -> Any:
        """Call another operation; with a request id it is a release, which is charged once.

        ``repeatable`` is for a POST that does no more if it is sent twice.
        """
        options: dict[str, Any] = {} if body is None else {"content": _encode_body(body)}
        if request_id is not None:
            options |= {"headers": {"Idempotency-Key": request_id}, "timeout": _release_timeout(self._timeout)}
        repeatable = repeatable or request_id is not None or method != "POST"
        return self._send_until_answered(
            method, _url_path(parts), request_id=request_id, repeatable=repeatable, **options
        )

    def call_free(self, policy: str, kind: str, act: str, spec: Mapping[str, Any], price: Mapping[str, Any]) -> Any:
        """Make a free call about a proposal."""
        body = {"act": act, "spec": spec, "price": price}
        return self._send_until_answered(
            "POST", _url_path(("policies", policy, "proposals", kind)), content=_encode_body(body)
        )["result"]

    def release(
        self, policy: str, body: Mapping[str, Any], request_id: str, progress: Callable[[str], None] | None
    ) -> Any:
        """Make a release under an id by which it is charged once, reporting its phases meanwhile.

        The answer comes with the call itself: one fetched later would be marked as bought before.
        """
        path = _url_path(("policies", policy, "releases"))
        with _PhaseReporter(self, path, request_id, progress):
            reply = self._send_until_answered(
                "POST",
                path,
                content=_encode_body(body),
                headers={"Idempotency-Key": request_id},
                timeout=_release_timeout(self._timeout),
                request_id=request_id,
            )
        return reply["result"]

    def phase(self, path: str, request_id: str) -> str | None:
        """Return the phase of a release; None if it is not available."""
        try:
            response = self._client.get(path, params={"key": request_id})
            return str(response.json()["phase"]) if response.status_code == 200 else None
        except self._transport_errors:
            return None
        except MALFORMED_INPUT:
            return None

    def download(self, path: str | os.PathLike[str], media: str, *parts: str, **query: str) -> None:
        """Write the reply of a GET operation to a new file that only its owner can read; on an error there is none."""
        from sfumato.ledger.proofs.exporting import new_private_file

        with new_private_file(path) as handle, os.fdopen(handle, "wb") as file:
            try:
                with self._client.stream("GET", _url_path(parts), params=query) as response:
                    if response.status_code != 200 or _media_type(response) != media:
                        response.read()
                        self._decode_response(response, None)
                        raise self._no_server_error(response, None)
                    for chunk in response.iter_bytes():
                        file.write(chunk)
            except self._transport_errors as error:
                raise self._no_answer_error(error, None, may_have_been_done=False) from None

    def close(self) -> None:
        self._client.close()

    def _send_until_answered(
        self, method: str, path: str, *, request_id: str | None = None, repeatable: bool = True, **options: Any
    ) -> Any:
        """Send a request until it is answered: retry lost requests, and wait for a busy server."""
        deadline = time.monotonic() + self._timeout
        for attempt in range(_ATTEMPTS):
            wait = _FIRST_WAIT * 2**attempt
            try:
                return self._decode_response(self._client.request(method, path, **options), request_id)
            except TooManyRequests as busy:
                wait = min(float(busy.retry_after), _MAX_WAIT)
                if attempt == _ATTEMPTS - 1 or time.monotonic() + wait > deadline:
                    raise
            except self._transport_errors as error:
                may_have_been_done = not repeatable and not isinstance(error, self._unsent_errors)
                if may_have_been_done or attempt == _ATTEMPTS - 1 or time.monotonic() + wait > deadline:
                    raise self._no_answer_error(error, request_id, may_have_been_done=may_have_been_done) from None
            time.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    def _no_answer_error(
        self, error: Exception, request_id: str | None, *, may_have_been_done: bool
    ) -> ServerUnavailable:
        cause = _tls_error(error)
        rule, fix = f"the server does not answer ({_describe_error(error, cause)})", None
        if isinstance(cause, ssl.SSLCertVerificationError):
            rule = f"the TLS certificate of the server is not trusted ({cause.verify_message})"
            fix = "check the address, or pass the server's certificate as certificate='server.pem'; then ask again"
        if may_have_been_done:
            rule, fix = (
                f"{rule}, but it may have carried out the request",
                "check whether the request was carried out before you send it again",
            )
            return ServerUnavailable(rule, place=self.address.label, fix=fix)
        return ServerUnavailable(rule, place=self.address.label, request_id=request_id, fix=fix)

    def _decode_response(self, response: Any, request_id: str | None) -> Any:
        media = _media_type(response)
        if media == _PROBLEM:
            raise errors.from_json(response.text)
        if response.status_code in _LOST_STATUSES:
            raise _LostAtProxy(f"HTTP status {response.status_code}")
        try:
            body = (
                json.loads(response.text)
                if response.status_code in (200, 201) and media == "application/json"
                else None
            )
        except MALFORMED_INPUT:
            body = None
        if not isinstance(body, dict):
            raise self._no_server_error(response, request_id)
        return body

    def _no_server_error(self, response: Any, request_id: str | None) -> ServerUnavailable:
        rule = f"there is no Sfumato server at this address (HTTP status {response.status_code})"
        return ServerUnavailable(rule, place=self.address.label, request_id=request_id)


class _PhaseReporter:
    """Polls the phase of a release while its answer is awaited, and reports changes: queued, charged, done."""

    def __init__(self, wire: Wire, path: str, request_id: str, progress: Callable[[str], None] | None) -> None:
        self._wire = wire
        self._request = path, request_id
        self._progress = progress
        self._ended = threading.Event()
        self._reported = ""
        self._thread = threading.Thread(target=self._poll, daemon=True)

    def __enter__(self) -> None:
        if self._progress is not None:
            self._report("queued")
            self._thread.start()

    def __exit__(self, failed: object, *_: object) -> None:
        if self._progress is not None:
            self._ended.set()
            self._thread.join()
            if failed is None:
                self._report("done")

    def _poll(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            phase = self._wire.phase(*self._request)
            if phase is not None and phase != "done":
                self._report(phase)

    def _report(self, phase: str) -> None:
        if phase != self._reported and self._progress is not None:
            self._reported = phase
            self._progress(phase)


def _request_headers(token: str | None) -> dict[str, str]:
    if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable() and token.strip()):
        rule, fix = "non-empty printable ASCII text", "paste the token again, as the owner sent it"
        raise InvalidParameter("token", "…", rule, fix=fix)  # not quoted: it may be a secret
    authorization = {} if token is None else {"Authorization": f"Bearer {token.strip()}"}
    return {**authorization, "User-Agent": f"sfumato/{__version__}", "Content-Type": "application/json"}


def _tls_verification(address: Address, certificate: str | None) -> ssl.SSLContext | bool:
    """Return the TLS context of an address: the system's certificates, or the given file; verification is never off."""
    if not address.base.startswith("https:"):
        return False  # plain http stays on this machine
    try:
        return ssl.create_default_context(cafile=certificate)
    except (OSError, ssl.SSLError):
        fix = "ask the owner for the server's certificate as a .pem file, and pass its path"
        raise InvalidParameter("certificate", certificate, "the path of a readable PEM file", fix=fix) from None


def _media_type(response: Any) -> str:
    return str(response.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _release_timeout(timeout: float) -> Any:
    import httpx

    return httpx.Timeout(timeout, read=_RELEASE_READ_SECONDS)


def _url_path(parts: tuple[str, ...]) -> str:
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _encode_body(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, allow_nan=False).encode()


def _tls_error(error: BaseException) -> ssl.SSLError | None:
    """Return the TLS error that caused another, if one did."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    return cause


def _describe_error(error: Exception, cause: ssl.SSLError | None) -> str:
    """Describe why a server was not reached."""
    if cause is not None:
        return "TLS: the handshake failed"
    return str(error) if isinstance(error, _LostAtProxy) else type(error).__name__


def require_seconds(value: object, name: str) -> float:
    """Validate a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InvalidParameter(name, value, "a number of seconds above 0")
    return float(value)


_CLASSES: Mapping[str, tuple[str, str]] = {
    "advice": ("curator.previews.advising", "Advice"),
    "answer": ("release.answers.answer", "Answer"),
    "answer-column": ("release.answers.answer_columns", "AnswerColumn"),
    "answers": ("curator.proposals.stored_answers", "Answers"),
    "bounds": ("curator.proposals.stored_answers", "Bounds"),
    "degrees": ("curator.proposals.degrees", "Degrees"),
    "explanation": ("curator.previews.explaining", "Explanation"),
    "fitted-model": ("publish.published_files", "FittedModel"),
    "forecast": ("curator.previews.error_forecasts", "Forecast"),
    "ledger-line": ("ledger", "Line"),
    "listing": ("curator.listings", "Listing"),
    "power": ("inference.power", "Power"),
    "marginals-forecast": ("curator.previews.error_forecasts", "MarginalsForecast"),
    "period-standings": ("curator.standings", "PeriodStandings"),
    "picture": ("plots.picture", "Picture"),
    "request-view": ("curator.request_views", "RequestView"),
    "public-face": ("policy.public_faces", "PublicFace"),
    "regression-forecast": ("curator.proposals.regressions", "RegressionForecast"),
    "running-answer": ("release.running_totals", "RunningAnswer"),
    "running-forecast": ("curator.proposals.running_counts", "RunningForecast"),
    "session-answers": ("curator.proposals.stored_answers", "SessionAnswers"),
    "sold": ("curator.proposals.stored_answers", "AuctionOutcome"),
    "standing": ("curator.standings", "Standing"),
    "synopsis": ("publish.synopsis", "Synopsis"),
    "synthetic": ("publish.synthetic", "Synthetic"),
    "synthetic-tables": ("publish.synthetic_tables", "SyntheticTables"),
    "tables": ("curator.described_tables", "Tables"),
    "workload-forecast": ("curator.proposals.stored_answers", "WorkloadForecast"),
}
"""The module and class of every kind of value that a server sends."""


def decode(reply: Any) -> Any:
    """Decode a server's reply: a codec value, a collection of them, or a plain value."""
    with refuse_malformed(lambda: ServerUnavailable("the server's reply cannot be decoded", place="the server")):
        return _decode(reply)


def _decode(reply: Any) -> Any:
    if isinstance(reply, Mapping) and isinstance(reply.get("kind"), str):
        return _decode_value(reply)
    if isinstance(reply, Mapping):
        return {name: _decode(member) for name, member in reply.items()}
    if isinstance(reply, list):
        return tuple(_decode(entry) for entry in reply)
    return float(reply) if reply in ("Infinity", "-Infinity") else reply


def _decode_value(reply: Mapping[str, Any]) -> Any:
    tag = reply["kind"].partition("/")[0]
    location = _CLASSES.get(tag)
    if location is not None:
        module, name = location
        return getattr(import_module(f"sfumato.{module}"), name).from_json(json.dumps(reply))
    for kind in all_kinds().values():
        answer = kind.answer_class()
        if tag == codec.kind_by_registered_class().get(answer, "").partition("/")[0]:
            return answer.from_json(json.dumps(reply))
    raise ServerUnavailable(
        "this version of Sfumato does not know the kind of object in the server's reply",
        place=reply["kind"][:100],
        fix="install the version of Sfumato that the server runs",
    )


_MAX_JSON_INTEGER = 1 << 53
"""Integers below this are exact in every JSON parser."""


def encode(value: Any, name: str) -> Any:
    """Encode a number, a string, or a list or mapping of these; exact numbers become strings."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        value = value.item() if getattr(value, "ndim", 1) == 0 else value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < _MAX_JSON_INTEGER else str(int(value))
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, (Fraction, Decimal)):
        return f"{value.numerator}/{value.denominator}" if isinstance(value, Fraction) else str(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item, f"{name} {key}") for key, item in value.items()}
    if isinstance(value, (Sequence, set, frozenset)) and not isinstance(value, (bytes, bytearray)):
        return [encode(item, name) for item in value]
    fix = "convert the value to a number or a string first, for example with str(…)"
    raise InvalidParameter(name, value, "a number, a string, or a list or mapping of these", fix=fix)


def encode_keyword_arguments(**values: Any) -> dict[str, Any]:
    """Encode keyword arguments, without those that are None."""
    return {name: encode(argument, name) for name, argument in values.items() if argument is not None}


def encode_parameters(parameters: Any) -> Any:
    """Encode the parameters of a question; values without a JSON type carry theirs along."""
    if parameters is None:
        return None
    if isinstance(parameters, Mapping):
        return {str(name): _encode_cell(cell, str(name)) for name, cell in parameters.items()}
    if isinstance(parameters, (str, bytes)) or not isinstance(parameters, Sequence):
        raise InvalidParameter("parameters", parameters, "a list of values, or a mapping from names to values")
    return [_encode_cell(cell, str(position)) for position, cell in enumerate(parameters, 1)]


def _encode_cell(value: Any, name: str) -> Any:
    for kind, cls in (("timestamp", dt.datetime), ("date", dt.date)):
        if isinstance(value, cls):
            return {"type": kind, "value": value.isoformat()}
    if isinstance(value, Decimal):
        return {"type": "decimal", "value": str(value)}
    return encode(value, f"parameters {name}")
