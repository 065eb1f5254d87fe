"""Lines are verified, anchored and exported, so that anybody can prove that none was changed, lost or forgotten."""
