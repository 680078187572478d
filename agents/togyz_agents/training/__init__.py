"""Training: self-play, replay, learner, checkpoints and the loop around them."""
