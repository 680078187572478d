"""Alpha-beta search: evaluation, transposition table, move ordering, the search kernel and iterative deepening around it."""
