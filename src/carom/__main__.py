"""``python -m carom`` is the command."""

from carom.app.command import main

main()
