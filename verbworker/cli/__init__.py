"""The command line: thin commands, run by `app.output.run`.

Exit codes: 0 yes, 1 no, 2 could not run or print, 3 a bug, 141 the reader of the output closed its pipe.
"""
