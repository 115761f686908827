"""Parity with written steps: a chain of thought whose every step has a truth."""

from __future__ import annotations

from models.languages.pairs import given
from models.languages.pairs.syntax_directed import SyntaxDirected
from models.languages.vocabulary import Word

FLIPPED = {"0": "1", "1": "0"}


class ParitySteps(SyntaxDirected):
    """The target writes the parity of the b so far after each symbol of the source, then the
    answer: ``a b b > 0 1 0 even``."""

    def __init__(self, name: str) -> None:
        rule = "says after each symbol whether the number of b is odd so far (1), then the answer"
        super().__init__(name, given.parity_with_steps(), rule, each=2, more=1)

    def edited(self, source: Word, place: int) -> tuple[Word, Word]:
        """The steps up to one that is turned around, and how they go on if what is written there is
        believed: the rest of the steps and the answer.

        Args:
            place: the position of the step, from 0.
        """
        target = self.target(source)
        prefix = (*target[:place], FLIPPED[target[place]])
        turned = [FLIPPED[step] for step in target[place + 1 : -1]]
        answer = {given.EVEN: given.ODD, given.ODD: given.EVEN}[target[-1]]
        return prefix, (*turned, answer)
