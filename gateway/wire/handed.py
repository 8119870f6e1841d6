"""Files that people hand in, as text: programs and editors write more encodings than one.

Pure. UTF-8 with or without its mark; UTF-16 with its mark, as a redirection in PowerShell writes it.
"""

from __future__ import annotations

import codecs
from typing import Final

_MARKS: Final = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


def text_of(data: bytes, *, strict: bool = True) -> str:
    """Without the mark. ValueError where it is none of these; where not `strict` what cannot be read is replaced."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", "utf-8"))
    return data[len(mark) :].decode(encoding, "strict" if strict else "replace")
