"""PettingZoo's way to name the environment: ``from togyz_env import togyzqumalaq_v0; togyzqumalaq_v0.env()``."""

from togyz_env.aec import env, raw_env

__all__ = ["env", "raw_env"]
