"""`python -m analyses.command_line`: the command `lab` without its installed script."""

from analyses.command_line.app import main

raise SystemExit(main())
