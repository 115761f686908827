"""Ways to make words of a model's next-token distribution: by drawing, and by searching."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

import torch
from jaxtyping import Float, Int
from torch import Tensor

from models.base import LanguageModel
from models.decoding.choice import Choice
from models.decoding.growing import Growing, growing
from models.errors import UserError
from models.languages import BORDER, BOS_ID, END_ID, Word
from models.objectives.base import Objective

UNCHANGED = Choice()
MOST_WORDS = 2**20
"""The most prefixes that an exhaustive search looks at."""


@dataclass(frozen=True)
class Made:
    """A word that was made.

    Attributes:
        word: its symbols, those of the prompt among them.
        log_probability: that of the symbols after the prompt and of the end, in nats, by the
            model's own distribution (not the changed one).
        ended: whether the model ended it; else it was cut at the greatest length.
    """

    word: Word
    log_probability: float
    ended: bool


@dataclass(frozen=True)
class Hypothesis:
    """A beginning of a word, or a word that has ended, at one step of a beam search.

    Attributes:
        parent: the beginning that it goes on from.
        token: the token that it adds.
        score: the number by which hypotheses are ordered.
        kept: whether it is among the best.
    """

    parent: Word
    token: str
    score: float
    kept: bool


@dataclass(frozen=True)
class Generation:
    """Words, and what they took.

    Attributes:
        words: the words in the order of drawing; of a search, the best first.
        calls: how often the model was asked for the next token of a word.
        computed: positions that it computed for that.
    """

    words: tuple[Made, ...]
    calls: int
    computed: int


class Generator:
    """A model with the meaning of its logits.

    Args:
        objective: what the model was taught; it says what the logits mean.
        longest: the most symbols of a word.
        prompt: symbols with which every word begins.

    Raises:
        UserError: the model was taught no next tokens, or cannot go on with a word; or the prompt
            is longer than ``longest``.
    """

    def __init__(
        self, model: LanguageModel, objective: Objective, longest: int, prompt: Word = ()
    ) -> None:
        if objective.verdict_alone or objective.tags:
            labels = "tags" if objective.tags else "verdicts"
            raise UserError(
                f"the model was taught {labels} alone, and knows no next symbol: generate from one "
                "that was taught them (--objective next-symbols)"
            )
        prompt = model.vocabulary.check(prompt)
        if objective.of_pairs and len(prompt) not in objective.taught_after(prompt):
            raise UserError(
                f"the model was taught {objective.taught}, and makes it after a source: give one "
                f"that ends with its border, such as --prompt 'a b {BORDER}'"
            )
        if not len(prompt) <= longest:
            raise UserError(
                f"the prompt has {len(prompt)} symbols, and the longest word {longest}: shorten "
                "it, or choose a larger --longest"
            )
        self.model, self.objective, self.longest, self.prompt = model, objective, longest, prompt

    def _begun(self, rows: int) -> Growing:
        ids = [BOS_ID, *(self.model.vocabulary.ids[symbol] for symbol in self.prompt)]
        tokens = torch.tensor([ids], device=self._device).repeat(rows, 1)
        return growing(self.model, tokens, self.longest + 1)

    @property
    def _device(self) -> torch.device:
        return next(chain(self.model.parameters(), self.model.buffers())).device

    def _said(self, words: Growing) -> Float[Tensor, "rows d_vocab"]:
        """The log-probabilities of the next tokens, on the CPU and exact to many digits."""
        logits = words.logits().double().cpu()
        return self.objective.log_probabilities(logits, self.model.vocabulary)

    def next_token(self) -> Float[Tensor, " d_vocab"]:
        """The log-probability of each token after the prompt."""
        return self._said(self._begun(1))[0]

    # -- drawing ----------------------------------------------------------------------------------

    def sample(self, count: int, choice: Choice = UNCHANGED, seed: int = 0) -> Generation:
        """Words that are drawn symbol by symbol (ancestral sampling), ``count`` at once.

        Args:
            choice: what is changed about the distribution first; with temperature 0 all words are
                the greedy one.
        """
        chance = torch.Generator().manual_seed(seed)
        words = self._begun(count)
        rows = torch.arange(count)  # which word each growing row is
        total = torch.zeros(count, dtype=torch.float64)
        samples: list[Made | None] = [None] * count
        while len(rows):
            scores = self._said(words)
            counts = _counted(words.tokens.cpu(), scores.shape[-1])
            changed = choice(scores, counts)
            token = changed.exp().multinomial(1, generator=chance)[:, 0]
            full = words.tokens.shape[1] == self.longest + 1
            ends = (token == END_ID) | full
            cut = full & (token != END_ID)  # what would have come next is no part of the word
            total[rows] += scores.gather(1, token[:, None])[:, 0].masked_fill(cut, 0.0)
            for at in ends.nonzero()[:, 0].tolist():
                row, ended = int(rows[at]), bool(token[at] == END_ID)
                samples[row] = self._made(words.tokens[at], float(total[row]), ended)
            rest = (~ends).nonzero()[:, 0]
            rows = rows[rest]
            if len(rest):
                words.go_on(rest.to(self._device), token[rest].to(self._device))
        results = tuple(sample for sample in samples if sample is not None)
        return Generation(results, words.calls, words.computed)

    def greedy(self) -> Generation:
        """The word that always takes the likeliest token."""
        return self.sample(1, Choice(temperature=0.0))

    # -- searching --------------------------------------------------------------------------------

    def beam(
        self,
        width: int,
        by_length: bool = False,
        watch: Callable[[list[Hypothesis]], None] | None = None,
    ) -> Generation:
        """Beam search: of all words with one more token, and all that have ended, the ``width``
        best are kept, until all of these have ended.

        Args:
            by_length: a word's score is its log-probability divided by its tokens after the prompt,
                END among them. Without it each further symbol costs, and short words win.
            watch: is told at each step the hypotheses that are kept, and as many of the others, the
                best first. Words that ended at an earlier step are not told again.

        Returns:
            Up to ``width`` words, the best first. Those that ended come before those that were cut.
        """
        if width < 1:
            raise UserError(f"the beam is {width} wide: it must be at least 1")
        words, total = self._begun(1), torch.zeros(1, dtype=torch.float64)
        ended: list[tuple[float, Made]] = []
        while True:
            full = words.tokens.shape[1] == self.longest + 1
            sums = total[:, None] + self._said(words)
            scores = sums / self._tokens(words) if by_length else sums
            old = torch.tensor([score for score, _ in ended], dtype=torch.float64)
            pool = torch.cat([scores.flatten(), old])
            order = pool.argsort(descending=True, stable=True)
            order = order[torch.isfinite(pool[order])]
            best = order[:width].tolist()
            size, d_vocab = scores.numel(), scores.shape[1]
            if watch is not None:
                watch(self._told(words, pool, order[: 2 * width].tolist(), size, width))
            ended = [ended[at - size] for at in best if at >= size]
            for at in best:
                if at < size and at % d_vocab == END_ID:
                    row = at // d_vocab
                    word = self._made(words.tokens[row], float(sums[row, END_ID]), True)
                    ended.append((float(pool[at]), word))
            ended.sort(key=lambda pair: -pair[0])
            going = [at for at in best if at < size and at % d_vocab != END_ID]
            if full:  # a word that would rather go on is cut
                rows = list(dict.fromkeys(at // d_vocab for at in going))
                cut = [self._made(words.tokens[row], float(total[row]), False) for row in rows]
                return self._found([*(word for _, word in ended), *cut][:width], words)
            if not going:
                return self._found([word for _, word in ended], words)
            picks = torch.tensor(going)
            total = sums.flatten()[picks]
            parents, token = picks // d_vocab, picks % d_vocab
            words.go_on(parents.to(self._device), token.to(self._device))

    def exhaustive(self, count: int = 1, by_length: bool = False) -> Generation:
        """The best of all words up to the greatest length: every one is scored.

        Args:
            count: the number of words that are returned, the best first.
            by_length: as in ``beam``.

        Raises:
            UserError: there are too many words.
        """
        symbols = len(self.model.vocabulary.symbols)
        room = self.longest - len(self.prompt)
        if sum(symbols**n for n in range(room + 1)) > MOST_WORDS:
            raise UserError(
                f"{symbols} symbols make too many words of up to {room} symbols to try them all: "
                "choose a smaller --longest"
            )
        words, total = self._begun(1), torch.zeros(1, dtype=torch.float64)
        ended: list[tuple[float, Made]] = []
        while True:
            sums = total[:, None] + self._said(words)
            scores = sums / self._tokens(words) if by_length else sums
            best = scores[:, END_ID].argsort(descending=True, stable=True)[:count].tolist()
            for row in best:
                if torch.isfinite(scores[row, END_ID]):
                    word = self._made(words.tokens[row], float(sums[row, END_ID]), True)
                    ended.append((float(scores[row, END_ID]), word))
            ended = sorted(ended, key=lambda pair: -pair[0])[:count]
            sums[:, END_ID] = -torch.inf
            rows, token = torch.isfinite(sums).nonzero(as_tuple=True)
            if words.tokens.shape[1] == self.longest + 1 or not len(rows):
                break
            total = sums[rows, token]
            words.go_on(rows.to(self._device), token.to(self._device))
        return self._found([word for _, word in ended], words)

    def _told(
        self, words: Growing, pool: Tensor, order: list[int], size: int, width: int
    ) -> list[Hypothesis]:
        """The new hypotheses among the best ones."""
        d_vocab = len(self.model.vocabulary)
        return [
            Hypothesis(
                self.model.vocabulary.decode(words.tokens[at // d_vocab, 1:].tolist()),
                self.model.vocabulary.tokens[at % d_vocab],
                float(pool[at]),
                rank < width,
            )
            for rank, at in enumerate(order)
            if at < size
        ]

    def _tokens(self, words: Growing) -> int:
        """The number of tokens after the prompt, with the next one."""
        return words.tokens.shape[1] - len(self.prompt)

    def _found(self, results: list[Made], words: Growing) -> Generation:
        return Generation(tuple(results), words.calls, words.computed)

    def _made(self, tokens: Int[Tensor, " pos"], log_probability: float, ended: bool) -> Made:
        word = self.model.vocabulary.decode(tokens[1:].tolist())
        return Made(word, log_probability, ended)


def _counted(tokens: Int[Tensor, "rows pos"], d_vocab: int) -> Int[Tensor, "rows d_vocab"]:
    """Counts of each token in each word, BOS aside."""
    counts = torch.zeros(len(tokens), d_vocab, dtype=torch.long)
    return counts.scatter_add_(1, tokens[:, 1:], torch.ones_like(tokens[:, 1:]))
