"""Turing machines that halt: words are tables of machines, and the truth is what they do.

Whether a machine halts cannot be decided in general. For few states it can: it is proven how long a
machine of n states and two symbols can run before it halts at the latest, S(1) = 1, S(2) = 6
(Rado 1962), S(3) = 21 (Lin and Rado 1965), S(4) = 107 (Brady 1983). One that runs longer never
halts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from models.languages.grammars.drawn import DrawnLanguage
from models.languages.language import ChomskyType, VariableKind
from models.languages.vocabulary import END_ID, FIRST_SYMBOL_ID, Vocabulary, Word, Words

LONGEST_RUN = (0, 1, 6, 21, 107)
"""The most steps of a machine that halts, by its number of states."""
MOST_STATES = len(LONGEST_RUN) - 1
STATES = "ABCD"
SYMBOLS = ("0", "1", "L", "R", *STATES, "H")
OPEN = -1
"""The number in place of a part of the table that is not written."""
CLASSES = (range(2), range(2, 4), range(4, 9))
"""The symbols that may stand at the first, second and third place of an entry, by number."""
HALT = 8
OUTCOMES = ("comes to an entry that is not there", "halts", "runs for ever")


class HaltingLanguage(DrawnLanguage):
    """The tables of Turing machines of up to four states that halt on an empty tape.

    A table has an entry for each state and read symbol: A on 0, A on 1, B on 0, and so on. An entry
    is what is written (0 or 1), where the head goes (L or R), and the next state (H halts). So a
    machine of n states is a word of 6n symbols. The size of a word is its number of states.

    Variables: ``steps`` (of the machine, as far as the prefix has its table: until it halts, or
    comes to an entry that is not there), ``outcome`` (0 it comes to such an entry, 1 it halts, 2 it
    runs for ever), and ``valid``. The type is that of all halting machines; four states are a
    finite part of it, in which the truth is known.
    """

    chomsky: ChomskyType = "recursively enumerable"
    default_objective = "verdict"
    rule = "is the table of a Turing machine that halts when it begins on an empty tape"

    def __init__(self, name: str) -> None:
        self.name = name
        self.vocabulary = Vocabulary(SYMBOLS)
        self.variables: dict[str, VariableKind] = {
            "steps": "count",
            "outcome": "category",
            "valid": "category",
        }

    # -- the truth ------------------------------------------------------------------------------

    @property
    def machine(self) -> str:
        return f"a Turing machine that runs the table, here for at most {LONGEST_RUN[-1]} steps"

    def _numbers(self, words: Words) -> np.ndarray:
        """The symbols by number, with ``OPEN`` past the end; [batch, 6 for each of four states]."""
        numbers = np.where(words.mask, words.ids - FIRST_SYMBOL_ID, OPEN)[:, : 6 * MOST_STATES]
        missing = 6 * MOST_STATES - numbers.shape[1]
        return np.pad(numbers, ((0, 0), (0, missing)), constant_values=OPEN)

    def _prefixes(self, words: Words) -> tuple[np.ndarray, np.ndarray]:
        """The tables of all prefixes, [batch, time + 1, 24], and whether their form is right."""
        numbers, time = self._numbers(words), words.ids.shape[1]
        ends = np.arange(time + 1)[:, None]
        tables = np.where(np.arange(numbers.shape[1]) < ends, numbers[:, None], OPEN)
        low, high = (np.array([f(c) for c in CLASSES] * 2 * MOST_STATES) for f in (min, max))
        right = (numbers >= low) & (numbers <= high) | (numbers == OPEN)
        right = np.pad(right, ((0, 0), (1, 0)), constant_values=True)
        formed = np.logical_and.accumulate(right, axis=1)[:, : time + 1]
        too_long = np.maximum(time + 1 - formed.shape[1], 0)
        return tables, np.pad(formed, ((0, 0), (0, too_long)))

    def _run(self, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Runs machines on an empty tape, each until it halts or wants an entry that is not whole.

        Args:
            tables: [machines, 24], of the right form.

        Returns:
            For each machine its steps, its outcome (an index of ``OUTCOMES``), and the number of
            the entry at which it stopped.
        """
        count, most = len(tables), LONGEST_RUN[-1]
        whole = (tables.reshape(count, 2 * MOST_STATES, 3) != OPEN).all(axis=2)
        entries = np.where(whole[..., None], tables.reshape(count, 2 * MOST_STATES, 3), 0)
        entries = np.pad(entries, ((0, 0), (0, 2), (0, 0)))
        whole = np.pad(whole, ((0, 0), (0, 2)))
        tape = np.zeros((count, 2 * most + 3), dtype=np.int64)
        head, state = np.full(count, most + 1), np.zeros(count, dtype=np.int64)
        steps, outcome = np.zeros(count, dtype=np.int64), np.full(count, 2)
        entry = np.zeros(count, dtype=np.int64)
        rows = np.arange(count)
        for _ in range(most + 1):
            entry[rows] = 2 * state[rows] + tape[rows, head[rows]]
            halted, missing = state[rows] == len(STATES), ~whole[rows, entry[rows]]
            outcome[rows[halted]] = 1
            outcome[rows[~halted & missing]] = 0
            rows = rows[~halted & ~missing]
            if not len(rows):
                break
            write, move, after = entries[rows, entry[rows]].T
            tape[rows, head[rows]] = write
            head[rows] += np.where(move == 2, -1, 1)
            state[rows] = after - 4
            steps[rows] += 1
        steps[rows] = most
        return steps, outcome, entry

    def _ran(self, words: Words) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Tables, steps, outcomes and right form of all prefixes, [batch, time + 1]."""
        tables, formed = self._prefixes(words)
        flat = np.where(formed[..., None], tables, OPEN).reshape(-1, tables.shape[-1])
        different, back = np.unique(flat, axis=0, return_inverse=True)
        steps, outcome, _ = (
            values[back.ravel()].reshape(formed.shape) for values in self._run(different)
        )
        return tables, steps, outcome, formed

    def allowed(self, words: Words) -> np.ndarray:
        tables, _, outcome, formed = self._ran(words)
        valid = formed & (outcome != 2) & self._can_end(tables, outcome)
        allowed = np.zeros((*valid.shape, len(self.vocabulary)), dtype=bool)
        at = np.arange(valid.shape[1])
        states = at // 6
        highest = np.where(tables >= 4, tables - 3, 0)
        highest = np.where(tables == HALT, 0, highest).max(axis=2)
        complete = (at % 6 == 0) & (at > 0)
        allowed[..., END_ID] = valid & complete & (outcome == 1) & (highest <= states)
        for place, choices in enumerate(CLASSES):
            slots = np.flatnonzero((at % 3 == place) & (at < 6 * MOST_STATES))
            for number in choices:
                after = tables[:, slots].copy()
                after[:, np.arange(len(slots)), slots] = number
                follows = valid[:, slots]
                if place == 2:  # an entry becomes whole, and the machine goes on
                    flat = np.where(follows[..., None], after, OPEN).reshape(-1, after.shape[2])
                    different, back = np.unique(flat, axis=0, return_inverse=True)
                    came = self._run(different)[1][back.ravel()].reshape(follows.shape)
                    follows = follows & (came != 2) & self._can_end(after, came)
                allowed[:, slots, FIRST_SYMBOL_ID + number] = follows
        return allowed

    def _can_end(self, tables: np.ndarray, outcome: np.ndarray) -> np.ndarray:
        """Whether a machine that waits for an entry can still get it: four states are the most."""
        return (outcome == 1) | (tables[..., -1] == OPEN)

    def trace(self, words: Words) -> dict[str, np.ndarray]:
        _, steps, outcome, formed = self._ran(words)
        valid = self.allowed(words).any(axis=2)
        return {
            "steps": np.where(formed, steps, 0),
            "outcome": np.where(formed, outcome, 0),
            "valid": np.asarray(valid, dtype=np.int64),
        }

    def labels(self, words: Words) -> np.ndarray:
        numbers = self._numbers(words)
        place = np.arange(numbers.shape[1]) % 3
        low, high = (np.array([f(c) for c in CLASSES])[place] for f in (min, max))
        formed = ((numbers >= low) & (numbers <= high) | (numbers == OPEN)).all(axis=1)
        states = words.lengths // 6
        highest = np.where((numbers >= 4) & (numbers < HALT), numbers - 3, 0).max(axis=1)
        formed &= (words.lengths % 6 == 0) & (states > 0) & (states <= MOST_STATES)
        formed &= highest <= states
        outcome = self._run(np.where(formed[:, None], numbers, OPEN))[1]
        return formed & (outcome == 1)

    def substitution_effects(self, word: Sequence[str]) -> np.ndarray:
        """Effects as in ``FormalLanguage``, of the substitutions that leave a table: any other
        symbol would break its form, wherever it stood."""
        effects, before = np.zeros(len(word)), self.contains(word)
        for at in range(len(word)):
            symbols = [s for s in self._choices(len(word), at) if s != word[at]]
            turned = [self.contains((*word[:at], s, *word[at + 1 :])) != before for s in symbols]
            effects[at] = np.mean(turned) if turned else 0.0
        return effects

    def _choices(self, length: int, at: int) -> tuple[str, ...]:
        """The symbols that fit a place of a table of this length."""
        states = min(max(length // 6, 1), MOST_STATES)
        chosen = [SYMBOLS[number] for number in CLASSES[at % 3]]
        return tuple(s for s in chosen if s not in STATES[states:])

    # -- repairs --------------------------------------------------------------------------------

    def _open(self, word: Word) -> tuple[int, ...]:
        """The places whose symbol does not fit."""
        return tuple(
            at for at, symbol in enumerate(word) if symbol not in self._choices(len(word), at)
        )

    def _halting(
        self, word: Word, places: tuple[int, ...], rng: np.random.Generator | None
    ) -> Word | None:
        """A word whose machine halts, with other symbols in these places alone; None if it never
        halts, whatever stands there."""
        table = np.full((1, 6 * MOST_STATES), OPEN)
        table[0, : len(word)] = [SYMBOLS.index(symbol) for symbol in word]
        table[0, list(places)] = OPEN
        numbers = self._filled(table, len(word), rng)
        return None if numbers is None else tuple(SYMBOLS[number] for number in numbers)

    def _filled(
        self, table: np.ndarray, length: int, rng: np.random.Generator | None
    ) -> list[int] | None:
        """Fills the open places of a table so that the machine halts, along its way."""
        _, outcome, entry = self._run(table)
        if outcome[0] == 2 or (outcome[0] == 0 and 3 * entry[0] >= length):
            return None
        if outcome[0] == 1:
            filled = table[0, :length].tolist()
            for at in range(length):
                if filled[at] == OPEN:
                    choices = self._choices(length, at)
                    pick = 0 if rng is None else int(rng.integers(len(choices)))
                    filled[at] = SYMBOLS.index(choices[pick])
            return filled
        at = 3 * int(entry[0])
        row = table[0, at : at + 3]
        options = [CLASSES[i] if row[i] == OPEN else [row[i]] for i in range(2)]
        ends = [HALT] if row[2] == OPEN else [row[2]]
        fills = list(product(*options, ends))
        for fill in fills if rng is None else [fills[i] for i in rng.permutation(len(fills))]:
            trial = table.copy()
            trial[0, at : at + 3] = fill
            if (result := self._filled(trial, length, rng)) is not None:
                return result
        return None

    def _repairs(self, word: Word) -> tuple[tuple[int, ...], ...] | None:
        """The places that do not fit; if a change of these is not enough, one place more."""
        broken = self._open(word)
        if self._halting(word, broken, None) is not None:
            return (broken,)
        rest = (at for at in range(len(word)) if at not in broken)
        sets = (tuple(sorted((*broken, at))) for at in rest)
        return tuple(sorted(fix for fix in sets if self._halting(word, fix, None) is not None))

    def _nearest_member(self, word: Word, rng: np.random.Generator | None) -> Word:
        sets = self._repairs(word) or ()
        chosen = sets[0 if rng is None else int(rng.integers(len(sets)))]
        member = self._halting(word, chosen, rng)
        assert member is not None
        return member

    def _near(self, word: Word) -> Iterator[Words]:
        """The tables that differ in one symbol come first."""
        tables = [
            (*word[:at], symbol, *word[at + 1 :])
            for at in range(len(word))
            for symbol in self._choices(len(word), at)
            if symbol != word[at]
        ]
        if tables:
            yield self.vocabulary.words(tables)
        yield from super()._near(word)

    # -- data -----------------------------------------------------------------------------------

    def length_of(self, n: int) -> int:
        return 6 * min(n, MOST_STATES)

    def size_of(self, length: int) -> int | None:
        states, rest = divmod(length, 6)
        return states if not rest and 1 <= states <= MOST_STATES else None

    def _has_member(self, length: int) -> bool:
        return self.size_of(length) is not None

    def _random(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Tables drawn evenly."""
        time = np.arange(int(lengths.max(initial=0)))
        states = np.clip(lengths // 6, 1, MOST_STATES)[:, None]
        sizes = np.where(time % 3 == 2, states + 1, 2)
        drawn = (rng.random(sizes.shape) * sizes).astype(np.int64)
        first = np.array([min(c) for c in CLASSES])[time % 3]
        number = np.where((time % 3 == 2) & (drawn == states), HALT, first + drawn)
        return Words.of_rows(number + FIRST_SYMBOL_ID, lengths)

    def _members(self, rng: np.random.Generator, lengths: np.ndarray) -> Words:
        """Tables drawn evenly, until their machines halt."""
        words = self._random(rng, lengths)
        ids, rows = words.ids, np.flatnonzero(~self.labels(words))
        while len(rows):
            drawn = self._random(rng, lengths[rows])
            ids[rows, : drawn.ids.shape[1]] = drawn.ids
            rows = rows[~self.labels(drawn)]
        return Words(ids, lengths.astype(np.int64))

    def _changed(self, rng: np.random.Generator, words: Words) -> Words:
        """The tables with one place drawn anew."""
        rows = np.arange(len(words))
        at = (rng.random(len(rows)) * words.lengths).astype(np.int64)
        ids = words.ids.copy()
        ids[rows, at] = self._random(rng, words.lengths).ids[rows, at]
        return Words(ids, words.lengths)
