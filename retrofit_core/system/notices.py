"""Notices to the user that do not stop the work."""


class Notice(UserWarning):
    """A choice made for the user, or a doubt, in one sentence. The command line prints it on standard error."""
