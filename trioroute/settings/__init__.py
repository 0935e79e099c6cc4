"""Settings: every key of ``trioroute.toml`` known, judged and structured into the log's sections.

Imports of trioroute only ``events.sections``. Reads the file and the environment it is handed,
nothing else, and never shows a secret. ``KNOWN_KEYS`` is the table of all keys for documents.
"""

from trioroute.quantities import BadValue as BadValue
from trioroute.quantities import parse_duration_ms as parse_duration_ms
from trioroute.quantities import parse_size_bytes as parse_size_bytes
from trioroute.settings.addresses import host_and_port as host_and_port
from trioroute.settings.addresses import is_loopback as is_loopback
from trioroute.settings.addresses import parse_address as parse_address
from trioroute.settings.addresses import parse_replica_url as parse_replica_url
from trioroute.settings.addresses import same_place as same_place
from trioroute.settings.api_keys import ApiKey as ApiKey
from trioroute.settings.api_keys import key_digest as key_digest
from trioroute.settings.api_keys import new_key as new_key
from trioroute.settings.certificate import BadCertificate as BadCertificate
from trioroute.settings.certificate import ServerCertificate as ServerCertificate
from trioroute.settings.certificate import read_certificate as read_certificate
from trioroute.settings.discovery import DiscoverySetting as DiscoverySetting
from trioroute.settings.discovery import DnsDiscovery as DnsDiscovery
from trioroute.settings.discovery import FileDiscovery as FileDiscovery
from trioroute.settings.discovery import GpuStackDiscovery as GpuStackDiscovery
from trioroute.settings.discovery import KubernetesDiscovery as KubernetesDiscovery
from trioroute.settings.errors import Problem as Problem
from trioroute.settings.errors import SettingsError as SettingsError
from trioroute.settings.key_names import changed_names as changed_names
from trioroute.settings.keys import KeyInfo as KeyInfo
from trioroute.settings.known import KNOWN_KEYS as KNOWN_KEYS
from trioroute.settings.load import GenericMetrics as GenericMetrics
from trioroute.settings.load import Settings as Settings
from trioroute.settings.load import load as load
from trioroute.settings.load import with_changes as with_changes
from trioroute.settings.replicas import ReplicaSetting as ReplicaSetting
from trioroute.settings.replicas import parse_replica_option as parse_replica_option
from trioroute.settings.running import is_reloaded as is_reloaded
from trioroute.settings.running import running as running
from trioroute.settings.spans import endpoint_named as endpoint_named
