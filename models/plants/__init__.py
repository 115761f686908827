"""Networks whose wiring is known: programs, compiled onto a Transformer, behind dials."""
