"""The questions of ``sfumato init`` make a draft of a policy, from answers or flags."""
