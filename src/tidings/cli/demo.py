HELP = "x"
EXAMPLES = ""


def demo() -> None: ...
