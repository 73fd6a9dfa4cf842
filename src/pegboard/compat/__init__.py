"""compat: the five documented systems' conventions over one runtime.

Each module lets code that was written for one of those systems run as it stands; every call goes through
the same pipeline as any other.
"""
