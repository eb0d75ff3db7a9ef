"""The commands: `dpml-run` (Hydra: one run or a sweep) and `dpml` (everything about runs that needs no sweep)."""


def dpml_run() -> None:
    """Entry point of `dpml-run`."""
    from dpml.cli.run import main

    main()


def dpml() -> None:
    """Entry point of `dpml`."""
    from dpml.cli.main import main

    main()
