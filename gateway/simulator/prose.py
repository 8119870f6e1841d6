"""The sentences that the embedded upstream's answers are made of: data only.

Chosen so that every kind of character that breaks careless relays comes up often: CJK, emoji joined by ZWJ, flags, combining
marks, quotes, backslashes, newlines, code, and U+2028, which is a line break to some line splitters and is none to SSE.
"""

from __future__ import annotations

from typing import Final

# A paragraph of reasoning opens with a heading, as the summaries of hosted reasoning models do.
HEADINGS: Final = (
    "**Tracing the parser**",
    "**Weighing two designs**",
    "**Checking the edge cases**",
    "**Reading the tests first**",
    "**Considering back-pressure**",
    "**Planning the refactor**",
    "**Looking at the failure again**",
    "**Naming things**",
)

REASONING: Final = (
    "The parser reads every byte of the stream and keeps its order, so a cut may fall anywhere.",
    "If the decoder sees a lone carriage return, it has to finish the line and swallow one line feed later.",
    "Let me check what happens when a chunk ends in the middle of a character.",
    'The test named `test_cut_anywhere` fails only for the third fixture, which holds "quoted \\"text\\" inside".',
    "So the state must survive between calls; a local variable will not do.",
    "Two designs come to mind: a generator that is fed, or a class with `feed` and `close`.",
    "The class is easier to test, since it has no hidden frame.",
    "What about 日本語 and 한국어? Each character is three bytes, and a cut may fall between any two of them.",
    "A family emoji 👩‍👩‍👧‍👦 is seven code points joined by ZWJ, and a flag 🇫🇷 is two, so a cut between them shows garbage.",
    "An accent may be a character of its own: e\u0301t\u00e9, nai\u0308ve, Gro\u0308\u00dfe.",
    "The backslash in `C:\\temp\\new` has to be doubled once, and only once.",
    'Hmm, the regular expression r"\\d+\\s*" matches too much here.',
    "The caller cancels the task when the client goes away, and then the pool must get its connection back.",
    "I should keep the public names as they are: `read`, `write`, `close`.",
    "A queue without a bound would hide the problem until the memory is gone.",
    "With one timer for all streams, a wake-up costs one system call and not a hundred.",
    "The error says who failed, when, and what to do next; that is worth keeping.",
    "Line 42 compares `None == 0`, which is never what was meant.",
    "该函数先读取缓冲区，然后按顺序输出每个事件。",
    "Nothing else writes to that field, so the lock can go.",
    "First the failing test, then the fix, then the cleanup.",
    "The worst case is a burst of 240 tokens after two seconds of silence.",
    "That is 120 tokens a second on average, and nobody reads a wall of text.",
    "A separator such as U+2028 (\u2028) is data here and not a line end.",
)

ANSWER: Final = (
    "The decoder now keeps its state between calls, so a cut may fall on any byte.",
    "Nothing changes for callers: `feed` takes bytes and returns events, and `close` returns what is left.",
    "The old code split at every line separator, also at U+2028 (\u2028), which is part of the text.",
    "I replaced the generator by a small class, because a class can be tested without a loop.",
    "Here is the part that matters:",
    'The test suite passes, and the new fixture covers "quotes", back\\slashes and tabs\tinside strings.',
    "Emoji such as 👩‍👩‍👧‍👦, 🧑🏽‍🚀 and 🏳️‍🌈 stay whole, and so do flags: 🇫🇷 🇯🇵 🇧🇷.",
    "Accents that are characters of their own (e\u0301t\u00e9, An\u0303o) stay with their letters.",
    "对于中文文本，每个字符都作为一个整体处理。",
    "日本語の文字列も同じように扱われます。",
    "One thing is left to decide: whether an event without data should be passed on.",
    "I would leave it out, since it breaks several clients.",
    "Memory stays bounded: at most one event is held at any time.",
    "The change is about 60 lines, most of them tests.",
    "On a slow link the first token arrives as early as before.",
    "Use `python -m unittest` to see it run.",
)

CODE: Final = (
    '\n\n```python\nclass Decoder:\n    """Bytes in, events out."""\n\n'
    '    def __init__(self) -> None:\n        self._rest = b""\n\n'
    "    def feed(self, data: bytes) -> list[bytes]:\n"
    '        *whole, self._rest = (self._rest + data).split(b"\\n\\n")\n'
    "        return whole\n```\n\n",
    '\n\n```json\n{"path": "C:\\\\temp\\\\new", "pattern": "\\\\d+\\\\s*", "quoted": "say \\"hi\\""}\n```\n\n',
    "\n\n```sh\ngrep -rn \"event:\" src/ | awk -F: '{ print $1 }' | sort -u\n```\n\n",
    "\n\n| case | before | after |\n|---|---|---|\n| CR only | lost | kept |\n| 🇫🇷 cut | broken | whole |\n\n",
)

FILE: Final = (
    "def read(stream):\n    for line in stream:\n        yield line.rstrip('\\n')\n\n\n",
    'class Buffer:\n    """Holds at most `limit` bytes."""\n\n'
    "    def __init__(self, limit: int = 65_536) -> None:\n        self.limit = limit\n\n\n",
    'PATTERN = re.compile(r"^\\s*(?P<key>[\\w-]+)\\s*=\\s*\\"(?P<value>.*)\\"$")\n\n\n',
    "# größer ist nicht besser: 一次一个事件 👩‍👩‍👧‍👦\nTABLE = {\"a\\tb\": 1, 'it''s': 2, \"\\u00e9\": 3}\n\n\n",
    "def test_cut_anywhere(data: bytes) -> None:\n    for at in range(len(data)):\n"
    "        assert decode(data[:at], data[at:]) == decode(data)\n\n\n",
)

# Plain words, harmless in every shell: what a tool that runs commands is asked to echo.
WORDS: Final = ("one", "steady", "stream", "keeps", "its", "order", "and", "loses", "nothing", "at", "all")

REFUSAL: Final = ("I can't help with that request.", "I can, however, explain how streams are kept in order.")
