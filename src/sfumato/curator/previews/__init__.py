"""Previews tell before anything is spent what an answer will be and cost: from the policy alone, for nothing."""
