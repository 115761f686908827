"""The one exception that means "the user can fix this": the command line prints it as one line."""


class UserError(Exception):
    """A mistake outside the program: the message names the fault and the cure, in one line."""
