"""Scraping: what each replica says about its load, every few seconds, in every state (RULES 6.1).

    rounds ─ fetch ─ exposition (page to samples) ─ one dialect per engine (samples to integers)

Floats end here. A missing or unreadable value is unknown (``None``), never zero (RULES 3). May
import events, attrs, trio, httpx and orjson; nothing of policy, proxy or discovery. Whoever wires
it up hands callbacks to ``Rounds``.
"""

from trioroute.scrape.dialect import ENGINES as ENGINES
from trioroute.scrape.dialect import UnknownEngine as UnknownEngine
from trioroute.scrape.dialect import dialect_for as dialect_for
from trioroute.scrape.exposition import UnreadablePage as UnreadablePage
from trioroute.scrape.fetch import Bad as Bad
from trioroute.scrape.fetch import Good as Good
from trioroute.scrape.fetch import Ours as Ours
from trioroute.scrape.fetch import ScrapeResult as ScrapeResult
from trioroute.scrape.fetch import ScrapeTarget as ScrapeTarget
from trioroute.scrape.fetch import scrape_once as scrape_once
from trioroute.scrape.named import Names as Names
from trioroute.scrape.page import PageReading as PageReading
from trioroute.scrape.rounds import Rounds as Rounds
