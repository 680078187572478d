"""The rules once more, slowly: written from the text of the rules alone, sowing stone by stone. Only for tests."""

from __future__ import annotations


class Board:
    """Rows, kazans and tuzdyks of white (0) and black (1). ``tuzdyks[p]`` is the number of p's tuzdyk in the opponent's row."""

    def __init__(self) -> None:
        self.rows = [[9] * 9, [9] * 9]
        self.kazans = [0, 0]
        self.tuzdyks = [0, 0]
        self.mover = 0

    def row(self) -> list[int]:
        return [*self.rows[0], *self.rows[1], *self.kazans, *self.tuzdyks, self.mover]

    @classmethod
    def of(cls, row: list[int]) -> Board:
        board = cls()
        board.rows, board.kazans, board.tuzdyks, board.mover = [row[:9], row[9:18]], row[18:20], row[20:22], row[22]
        return board

    def legal(self) -> list[int]:
        return [number for number in range(1, 10) if self.rows[self.mover][number - 1] > 0]

    def play(self, number: int) -> tuple[int, int, str, int]:
        """Return (side and number of the hole where the last stone falls, what it does, stones captured)."""
        me, other = self.mover, 1 - self.mover
        in_hand, self.rows[me][number - 1] = self.rows[me][number - 1], 0
        side, first = me, in_hand > 1
        swallowed = False
        while in_hand > 0:
            if not first:
                side, number = (side, number + 1) if number < 9 else (1 - side, 1)
            first = False
            in_hand -= 1
            swallowed = self.tuzdyks[1 - side] == number
            if swallowed:
                self.kazans[1 - side] += 1
            else:
                self.rows[side][number - 1] += 1
        self.mover = other
        count = self.rows[side][number - 1]
        event = "nothing"
        if side == other and not swallowed and count % 2 == 0:
            event = "capture"
        elif side == other and count == 3 and self.tuzdyks[me] == 0 and number != 9 and self.tuzdyks[other] != number:
            event = "tuzdyk"
            self.tuzdyks[me] = number
        if event == "nothing":
            return side, number, event, 0
        self.kazans[me] += count
        self.rows[side][number - 1] = 0
        return side, number, event, count

    def end(self, playout: bool) -> tuple[str, int, int] | None:
        """Return (reason, white's stones, black's stones) if the game is over."""
        if not playout and max(self.kazans) >= 82:
            return ("majority", *self.kazans)
        if sum(self.rows[self.mover]) == 0:
            final = list(self.kazans)
            final[1 - self.mover] += sum(self.rows[1 - self.mover])
            return ("atsyrau", *final)
        return None
