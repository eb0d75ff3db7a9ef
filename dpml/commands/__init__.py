"""What the commands and the functions of the API do: a run, a sweep, a guarantee, an audit, a release.

A command's words and the arguments of a function become `Settings`; what comes back is printed or returned above.
"""
