"""The guided tours: stops on the real pages. Each says what to do there and what to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Stop:
    """A stop of a tour.

    Attributes:
        page: its address.
        title: in a few words.
        do: what the reader does here.
        see: what there is to be seen.
        shown: the choices of the page that its link makes.
    """

    page: str
    title: str
    do: str
    see: str
    shown: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Tour:
    """A tour.

    Attributes:
        title: for whom it is.
        about: what it shows, and how long it takes.
        stops: in their order.
        dutch: it is about a network that learned the Dutch lines.
    """

    title: str
    about: str
    stops: Sequence[Stop]
    dutch: bool


LINE = "leeuw kat olifant aap leeuw"
"""A line of the Dutch rule, in which each of three words is needed."""

LINGUIST = Tour(
    "For linguists",
    "From 26 lines of Dutch words to the rule behind them, and why one may believe it. About ten "
    "minutes; no knowledge of networks is needed.",
    dutch=True,
    stops=(
        Stop(
            "story",
            "Find the rule yourself",
            "Read both groups of lines. Guess what all lines of group A have, and all of the "
            "others lack.",
            "It is hard. The same words occur in both groups, so no single word tells them apart.",
            {"show": "the lines"},
        ),
        Stop(
            "story",
            "A network learns it",
            "Look at the curve of the loss, from left to right.",
            "The loss falls: its answers come nearer to the right ones. In the end it gives nearly "
            "all lines their group, also lines that it never saw. So it holds some rule. But which "
            "one?",
            {"show": "the network"},
        ),
        Stop(
            "try",
            "Ask it about one line",
            "Change the last word to *muis* and press Enter. Then change it back, and change "
            "*kat* instead.",
            "With *muis* at the end the verdict turns around; with another word for *kat* it does "
            "not. The line with one word changed is a minimal pair: you test the network as you "
            "would test a speaker. Guess the rule before you open *The truth*. On these pages a "
            "whole line is called a word, and its words are symbols.",
            {"word_dieren": LINE},
        ),
        Stop(
            "explanations",
            "Which words decide?",
            "Look at the coloured words first, then at the rows of the picture.",
            "The coloured words decide by the true rule. Each row is a method that guesses this "
            "from outside. Where a row is dark at other words, the method is wrong. The first "
            "number beside it is 1 where the words that decide come before all others, and 0.5 for "
            "a mere guess. On an easy line nearly every method is right, and random values may be, "
            "too: pick other lines, and see who fails.",
            {"word_dieren": LINE},
        ),
        Stop(
            "heads",
            "Look inside",
            "A head is a part that looks back from a word to earlier words. Read the sentence, "
            "then click the darkest square.",
            "Without this head the network makes many mistakes. The grade says whether every way "
            "to take it away agrees. Beside it stands the same network before its training: there, "
            "taking a head away changes little.",
        ),
        Stop(
            "probing",
            "Does it know where in the rule it is?",
            "Look at the last table, *Best site per variable*: the column *trained*, and those "
            "beside it.",
            "A probe reads from the network how much of the pattern has been seen. A network "
            "without training, read at its own best place, lets a probe read something, too, "
            "because the words themselves are still in it. Only what is read beyond that was "
            "learned. This is why each page shows the untrained network.",
        ),
        Stop(
            "story",
            "The rule as an automaton",
            "Follow the arrows from state 0 with a line of group A.",
            "The lab asked the network about thousands of lines, and drew what changes its mind. "
            "The network before its training gives another automaton, which is right far less "
            "often.",
            {"show": "the automaton"},
        ),
        Stop(
            "discovery",
            "The rule in words",
            "Read the first sentence, and the grade under it.",
            "The rule is told in words, with the share of new lines that it gives their right "
            "group. That number, its interval and the controls are what you may cite.",
        ),
        Stop(
            "story",
            "Can I believe it?",
            "Scroll to the cards: one for each lens, with its grade.",
            "Some lenses hold; some do no better than in the untrained network, although they draw "
            "fine pictures there as well. Write down: what the rule is, which lens found it, and "
            "what the untrained network did.",
            {"show": "the rule"},
        ),
    ),
)

RESEARCHER = Tour(
    "For researchers",
    "What is measured, against which controls, and where a lens fails. About four minutes, with "
    "the run of your choice.",
    dutch=False,
    stops=(
        Stop(
            "story",
            "One card per lens",
            "Scroll to the cards of the chosen run.",
            "Each grade comes from kept numbers: the interval of the finding against the best of "
            "its controls, each with its own best choice.",
            {"show": "the rule"},
        ),
        Stop(
            "probing",
            "Control tasks and untrained networks",
            "Compare the columns of the last table.",
            "Some words fit, others choose the site, others score. Controls: majority, shuffled "
            "labels, a control task, the embedding, the untrained network.",
        ),
        Stop(
            "interventions",
            "From readable to used",
            "Compare LEACE with random directions and with a random readout.",
            "What a probe reads need not be used. Where a random readout ruins as much, the harm "
            "proves nothing about the variable.",
        ),
        Stop(
            "circuits",
            "A circuit beside that of an untrained network",
            "Read the headline, then open the table of rankings.",
            "Faithfulness is measured on held-out pairs; an untrained network has circuits, too. "
            "CPR and CMD compare approximations with exact effects.",
        ),
        Stop(
            "leaderboard",
            "Which explanation tells the truth?",
            "Choose non-members, and then another replacement.",
            "Methods are ranked by truths that are not their own estimand. Much depends on what "
            "hidden symbols become.",
        ),
    ),
)

TOURS: Mapping[str, Tour] = {"linguist": LINGUIST, "researcher": RESEARCHER}
"""Every tour by its name in a link."""
