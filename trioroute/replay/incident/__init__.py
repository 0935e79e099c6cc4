"""What happened between FROM and TO: phases, the first cause, who was hit, which rules acted.

``tell_incident`` reads the rows of the span once, page by page; memory is that of one state and of
a fixed number of steps of time, however long the span is. ``present``, ``markdown`` and ``page``
show the same facts on a screen, as Markdown and as one HTML file with ``plots``.
"""

from trioroute.replay.incident.told import Incident as Incident
from trioroute.replay.incident.walk import tell_incident as tell_incident
