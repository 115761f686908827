"""Lenses scored against networks whose wiring is known. A lens never sees the truth.

A lens is a file with a function per question (``paper.QUESTIONS``). It runs in a process of its own
(``inside``), behind a door (``door``) that hands it a network and words. The plan of the network
stays on this side, where answers are graded (``keys``, ``grades``).
"""
