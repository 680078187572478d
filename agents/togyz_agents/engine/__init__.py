"""The UCI protocol both ways: our players as an engine, and other engines as processes; nothing imported here."""
