"""Options of every command that is more than a few lines.

Nothing heavy is imported here, so that the command line answers at once.
"""
