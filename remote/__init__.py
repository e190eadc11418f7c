"""What is shipped to the container: standard library only, Python 3.10 and newer.

Importing this package, or any module in it, costs nothing and imports no third-party
package. `httpx` and `transformers` are imported inside the functions of `generate` and
`retokenize` that need them; `msgspec` and `orjson` are used where the container has them,
with the same verdicts without.
"""

__version__ = "0.1.0"
