"""Public reports of an account, and signed bundles that others can verify offline.

account_reports    the content of a report, from ledger and policy; stored answers rebuilt without rows; the web page
signing_keys       the owner's Ed25519 key
bundles            answers, receipts and the hash chain, signed; verification of a bundle: what it proves, and what it
                   does not
"""

from sfumato.reports.account_reports import report
from sfumato.reports.bundles import BundleVerification, bundle, verify_bundle
from sfumato.reports.signing_keys import PublicKey, SigningKey

__all__ = ["BundleVerification", "PublicKey", "SigningKey", "bundle", "report", "verify_bundle"]
