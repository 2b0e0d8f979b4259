"""What the coordinator and the board daemons share; knows neither of them."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("fedbed")
except PackageNotFoundError:  # running from a checkout that was never installed
    VERSION = "0+unknown"

__all__ = ["VERSION"]
