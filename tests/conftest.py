"""Lets test modules share helpers by import: ``from privacy.families import …``."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
