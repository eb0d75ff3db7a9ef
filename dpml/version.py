"""The version of the package, which every manifest states."""

__version__ = "0.2.0"
