"""The players: one module for each, with nothing imported here."""
