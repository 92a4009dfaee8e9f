"""What a user should know though the work goes on."""


class Notice(UserWarning):
    """A choice that was made for the user, or a doubt; one sentence. The command line prints it on standard error."""
