"""What a running router does for its log besides writing it, in tasks beside the traffic.

May import what is below ``assembly``: serve gives it the settings in force and the clock.
"""

from trioroute.upkeep.archive import Archiving as Archiving
from trioroute.upkeep.deeds import Deeds as Deeds
from trioroute.upkeep.guard import keep_up as keep_up
from trioroute.upkeep.retention import Retaining as Retaining
from trioroute.upkeep.side_file import SideFile as SideFile
from trioroute.upkeep.snapshots import Snapshotting as Snapshotting
