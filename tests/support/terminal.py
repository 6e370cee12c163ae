"""Runs a command on a terminal of its own and types something there.

Usage: terminal.py TEXT FILE LINES COMMAND...
Types TEXT (with escapes such as \\x03) once FILE has LINES lines, and ends
with the exit status of COMMAND. What COMMAND prints goes to our stdout.
"""
import os
import pty
import select
import signal
import sys
import time


def num_lines(path):
    try:
        with open(path, encoding="utf-8") as file:
            return len(file.readlines())
    except FileNotFoundError:
        return 0


def main():
    text, path, lines = sys.argv[1], sys.argv[2], int(sys.argv[3])
    child, terminal = pty.fork()
    if child == 0:
        # Background jobs of a shell begin with this one ignored.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execvp(sys.argv[4], sys.argv[4:])
    typed = False
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if not typed and num_lines(path) >= lines:
            os.write(terminal, text.encode().decode("unicode_escape").encode())
            typed = True
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            sys.stdout.write(os.read(terminal, 4096).decode())
        except OSError:  # the other side is closed: the command has ended
            break
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


sys.exit(main())
