"""Players, search, training and tournaments for togyzqumalaq, on top of ``togyz_env``."""
