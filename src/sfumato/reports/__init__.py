"""A report says what was asked of an account and what it could reveal, and others can verify it.

telling            what is told of an account, from its ledger and its policy; answers made again, without rows; the
                   web page that an owner publishes
signing_keys       the owner's key
bundles            answers, receipts and the chain's proof, signed
verifying_bundles  what a bundle proves, and what it does not
"""

from sfumato.reports.bundles import bundle
from sfumato.reports.signing_keys import PublicKey, SigningKey
from sfumato.reports.telling import report
from sfumato.reports.verifying_bundles import Verified, verify_bundle

__all__ = ["PublicKey", "SigningKey", "Verified", "bundle", "report", "verify_bundle"]
