"""Public reports of an account, and signed bundles that others can verify offline.

telling            the content of a report, from ledger and policy; stored answers rebuilt without rows; the web page
signing_keys       the owner's Ed25519 key
bundles            answers, receipts and the hash chain, signed
verifying_bundles  verification of a bundle: what it proves, and what it does not
"""

from sfumato.reports.bundles import bundle
from sfumato.reports.signing_keys import PublicKey, SigningKey
from sfumato.reports.telling import report
from sfumato.reports.verifying_bundles import Verified, verify_bundle

__all__ = ["PublicKey", "SigningKey", "Verified", "bundle", "report", "verify_bundle"]
