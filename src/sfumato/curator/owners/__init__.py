"""An owner drafts a policy, checks it against its sources and times its questions before the doors are open."""
