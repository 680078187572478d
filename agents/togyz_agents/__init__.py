"""Players, search, training and tournaments for togyzqumalaq, on top of ``togyz_env``."""

from pathlib import Path

import togyz_env
from togyz_env.compiled import drop_stale

# before any kernel of this package is defined: its kernels call those of togyz_env
drop_stale(Path(__file__).parent, Path(togyz_env.__file__).parent)
