"""Multiparty differentially private learning: experiments whose guarantees are proven, not only claimed."""

__version__ = "0.1.0"
