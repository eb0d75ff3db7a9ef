"""Define the version of the package, which every manifest contains."""

__version__ = "0.2.0"
