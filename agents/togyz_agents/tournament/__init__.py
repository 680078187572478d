"""Matches between agents, openings for them, and ratings; needs the Agent protocol and the rules, no network."""
